// The CustomResourceDefinitions of this program's version, embedded at build time from the chart's
// crds/ folder, which deploy/schema/generate.py writes.
#pragma once

#include <span>
#include <string_view>

namespace pitcrew::api {

struct EmbeddedDefinition {
  std::string_view file;  // "nvidia.com_clusterpolicies.yaml"
  std::string_view text;  // one YAML document
};

// Sorted by file name.
std::span<const EmbeddedDefinition> EmbeddedDefinitions();

}  // namespace pitcrew::api
