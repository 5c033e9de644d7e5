#include "operator/metrics/driver_toolkit.h"

#include <algorithm>

namespace pitcrew::gpu_operator {

std::vector<std::pair<std::string_view, int>> DriverToolkitMetrics(const api::ClusterPolicy& policy,
                                                                   const desired::Facts& facts) {
  const bool wanted = facts.openshift() && policy.operator_settings.use_driver_toolkit &&
                      !policy.driver.use_precompiled;
  const bool stream = facts.driver_toolkit.image_stream_exists;
  const bool versions = !facts.rhcos_versions.empty();
  const bool covered = std::ranges::all_of(facts.rhcos_versions, [&](const std::string& version) {
    return facts.driver_toolkit.images.contains(version);
  });
  int enabled = 0;
  if (wanted) enabled = stream && versions ? 1 : -1;
  return {{"enabled", enabled},
          {"nfd_too_old", wanted && facts.gpu_nodes > 0 && !versions},
          {"imagestream_missing", wanted && !stream},
          {"imagestream_broken", wanted && facts.driver_toolkit.broken},
          {"rhcos_tags_missing", wanted && stream && !covered}};
}

}  // namespace pitcrew::gpu_operator
