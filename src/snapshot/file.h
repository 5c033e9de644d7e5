// Snapshots from text: what `kubectl get -o yaml` or `-o json` prints, or several of it together.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "snapshot/snapshot.h"

namespace pitcrew::snapshot {

// A YAML stream, JSON, or Lists of objects in either (a kind that ends with "List" and has `items`
// stands for its items). Kinds that nobody knows are kept. Errors are kInvalid and begin with
// "source:line:" or "source: document N" and say what is wrong; an identity that occurs twice is
// one. Of Nodes and Pods, what no command reads (managed fields, lists of images) is dropped.
base::Result<Snapshot> ParseText(std::string_view text, std::string_view source);

// The same from a file; "-" is standard input.
base::Result<Snapshot> ReadFile(const std::string& path);

// Takes one object, trimmed as above; its error, of which the place is told, ends the reading.
using ObjectVisitor = std::function<base::Status(codec::Json object)>;
// The objects of such a text one after another, in its order: of a large list only one is in memory
// at a time. What was handed out before an error stands.
base::Status VisitText(std::string_view text, std::string_view source, const ObjectVisitor& visit);
base::Status VisitFile(const std::string& path, const ObjectVisitor& visit);

// The text of a file, or of standard input for "-".
base::Result<std::string> ReadInput(const std::string& path);
// "standard input" for "-".
std::string NameOfInput(const std::string& path);

}  // namespace pitcrew::snapshot
