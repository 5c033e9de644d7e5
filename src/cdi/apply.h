// CDI edits applied to an OCI specification (container-toolkit.md 7.7).
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cdi/spec.h"
#include "oci/spec.h"

namespace pitcrew::cdi {

// What lstat says about a device node; type is "c", "b" or "p".
struct NodeInfo {
  std::string type;
  std::int64_t major = 0;
  std::int64_t minor = 0;
  std::uint32_t file_mode = 0;  // permission bits
};
using NodeLookup = std::function<base::Result<NodeInfo>(const std::string& host_path)>;
// Looks at the real file, without following a link.
base::Result<NodeInfo> LookUpNode(const std::string& host_path);

// The number of a device node is the node's own, whatever the specification says, unless that gives
// type and number and no host path, or the node cannot be looked at. Fails when a device node's
// type and numbers are neither given nor to be found; `spec` may then be half edited. Without
// `device_rules` the device cgroup stays as it is.
base::Status Apply(const ContainerEdits& edits, oci::Spec& spec,
                   const NodeLookup& look_up = LookUpNode, bool device_rules = true);

}  // namespace pitcrew::cdi
