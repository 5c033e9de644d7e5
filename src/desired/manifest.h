// The operands' manifests: plain YAML under manifests/<state>/, embedded at build time. One
// document per file, in the order of their names (reference operand-manifests.md section 2).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "codec/json.h"

namespace pitcrew::desired {

// A Kubernetes object as it is applied.
using Object = codec::Json;

struct Manifest {
  std::string_view state;  // "state-driver"
  std::string_view file;   // "0500_daemonset.yaml"
  std::string_view text;
};

// Sorted by state, then by file.
std::span<const Manifest> EmbeddedManifests();

// The first object of that kind (and name, when given), or null. Borrowed.
Object* FindObject(std::vector<Object>& objects, std::string_view kind, std::string_view name = "");

}  // namespace pitcrew::desired
