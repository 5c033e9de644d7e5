// YAML to and from JSON values, with YAML 1.2 core types as Kubernetes reads them
// (sigs.k8s.io/yaml): plain true/false/null and numbers become such values, quoted text stays text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::codec {

// One document. `source` names the text in errors, which say "source:line:column: what is wrong".
// A mapping with the same key twice is an error.
base::Result<Json> ParseYaml(std::string_view text, std::string_view source = "YAML");

// A stream of documents separated by "---"; empty documents are dropped.
base::Result<std::vector<Json>> ParseYamlStream(std::string_view text,
                                                std::string_view source = "YAML");

// One document without "---", block style, members sorted by name, text quoted where YAML would
// read it as something else. Ends with a newline.
std::string ToYamlText(const Json& value);

}  // namespace pitcrew::codec
