#include "desired/cluster_kinds.h"

#include <fmt/format.h>

namespace pitcrew::desired {

using codec::Json;

std::string GpuClusterConflict(std::string_view cluster, std::string_view policy) {
  return fmt::format(
      "GPUCluster {} and ClusterPolicy {} cannot co-exist; nothing is changed while both stand. "
      "Pitcrew has no controller for GPUCluster objects yet: delete it, or leave the cluster to "
      "NVIDIA's operator",
      cluster, policy);
}

bool IsEstablished(const Json& definition) {
  const Json* conditions = codec::Find(definition, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return false;
  for (const Json& condition : *conditions) {
    if (codec::FindString(condition, {"type"}) == "Established") {
      return codec::FindString(condition, {"status"}) == "True";
    }
  }
  return false;
}

}  // namespace pitcrew::desired
