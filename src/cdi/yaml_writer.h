// YAML exactly as Go's yaml.v3 encoder writes it with its default settings: steps of four columns,
// sequences stepped in, no line wrapping (container-toolkit.md 2.3).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace pitcrew::cdi {

// Objects keep the order of their members. Empty objects are "{}".
std::string WriteGoYaml(const nlohmann::ordered_json& value);
// How a text stands there: plain, 'single' or "double" quoted.
std::string GoYamlScalar(std::string_view text);

}  // namespace pitcrew::cdi
