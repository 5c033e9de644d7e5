// Objects from text: what `kubectl get -o yaml` or `-o json` prints, or several of it together.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::snapshot {

// Takes one object; its error, of which the place is told, ends the reading.
using ObjectVisitor = std::function<base::Status(codec::Json object)>;

// The objects of a YAML stream, of JSON, or of Lists of objects in either (a kind that ends with
// "List" and has `items` stands for its items), one after another in the order of the text: of a
// large list only one is in memory at a time. Of Nodes and Pods, what no command reads (managed
// fields, lists of images) is dropped. Errors are kInvalid and begin with "source:line:" or
// "source: document N" and say what is wrong; what was handed out before one stands.
base::Status VisitText(std::string_view text, std::string_view source, const ObjectVisitor& visit);
// The same from a file; "-" is standard input.
base::Status VisitFile(const std::string& path, const ObjectVisitor& visit);

// The text of a file, or of standard input for "-".
base::Result<std::string> ReadInput(const std::string& path);
// "standard input" for "-".
std::string NameOfInput(const std::string& path);

}  // namespace pitcrew::snapshot
