// What a scalar of YAML means: the rules of sigs.k8s.io/yaml 1.6, with which the API server's
// clients, Helm and upstream's components read files (go.yaml.in/yaml/v2, resolve.go and
// decode.go). They are those of YAML 1.1, but for numbers of base 60.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::codec {

// `tag` is the long form ("tag:yaml.org,2002:int"), or empty for plain text without one. A floating
// number stays one here, also when it is whole. kInvalid when the text does not fit the tag.
base::Result<Json> ResolveYamlScalar(std::string_view text, std::string_view tag = "");

// The value as JSON has it: whole numbers are integers, as Go writes them. kInvalid for infinities
// and for what is not a number.
base::Result<Json> YamlValue(Json resolved);

// The value as the name of a JSON member: 0644 is "420", yes is "true". kInvalid for null, numbers
// above the signed ones, lists and mappings.
base::Result<std::string> YamlKey(const Json& resolved);

}  // namespace pitcrew::codec
