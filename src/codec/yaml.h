// YAML to and from JSON values, read as sigs.k8s.io/yaml reads it, which Kubernetes' programs use:
// the words and numbers of YAML 1.1 (yes and off are booleans, 0644 is octal), "<<" merges, quoted
// text stays text. One thing is stricter: a key that stands twice in one mapping is an error
// (YAMLToJSONStrict), while members that were merged may be replaced.
// tests/go_yaml_integration_test.cc holds this against the Go library.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::codec {

// One document. `source` names the text in errors, which say "source:line:column: what is wrong".
base::Result<Json> ParseYaml(std::string_view text, std::string_view source = "YAML");

// Where each value of a document stands in its text, for errors about well-formed but wrong values.
class YamlPlaces {
 public:
  // "source:line:column" of the value at a JSON pointer such as "/clusters/0/name", or of its
  // nearest parent that exists.
  [[nodiscard]] std::string Of(std::string_view pointer) const;

 private:
  friend base::Result<Json> ParseYaml(std::string_view, std::string_view, YamlPlaces&);
  std::string source_;
  std::map<std::string, std::pair<int, int>, std::less<>> marks_;  // line and column, from 1
};

// ParseYaml that also fills `places`.
base::Result<Json> ParseYaml(std::string_view text, std::string_view source, YamlPlaces& places);

// A stream of documents separated by "---"; empty documents are dropped.
base::Result<std::vector<Json>> ParseYamlStream(std::string_view text,
                                                std::string_view source = "YAML");

// One document without "---", block style, members sorted by name, text quoted where YAML would
// read it as something else. Ends with a newline.
std::string ToYamlText(const Json& value);

}  // namespace pitcrew::codec
