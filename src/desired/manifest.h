// The operands' manifests: plain YAML under manifests/<state>/, embedded at build time. One
// document per file, in the order of their names (reference operand-manifests.md section 2).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::desired {

// A Kubernetes object as it is applied.
using Object = codec::Json;

struct EmbeddedManifest {
  std::string_view state;  // "state-driver"
  std::string_view file;   // "0500_daemonset.yaml"
  std::string_view text;
};

// Sorted by state, then by file.
std::span<const EmbeddedManifest> EmbeddedManifests();

// The objects of one state, in file order. Files whose name contains "openshift" are left out
// unless `openshift`. Errors name state and file; they cannot happen with the embedded files, which
// a test parses.
base::Result<std::vector<Object>> LoadManifests(std::string_view state, bool openshift);

// The first object of that kind (and name, when given), or null. Borrowed.
Object* FindObject(std::vector<Object>& objects, std::string_view kind, std::string_view name = "");

}  // namespace pitcrew::desired
