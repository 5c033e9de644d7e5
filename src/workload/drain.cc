#include "workload/drain.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/ownership.h"
#include "workload/gpu_use.h"

namespace pitcrew::workload {
namespace {

using codec::Json;

bool HasEmptyDir(const Json& pod) {
  const Json* volumes = codec::Find(pod, {"spec", "volumes"});
  return volumes != nullptr && volumes->is_array() &&
         std::ranges::any_of(*volumes,
                             [](const Json& volume) { return volume.contains("emptyDir"); });
}

bool IsMirror(const Json& pod) {
  return codec::Find(pod, {"metadata", "annotations", kMirrorAnnotation}) != nullptr;
}

}  // namespace

DrainOptions OptionsOf(const api::PodRemoval& how) {
  return {.force = how.force, .delete_empty_dir = how.delete_empty_dir};
}

DrainPlan PlanDrain(const std::vector<Json>& pods, const DrainOptions& options) {
  DrainPlan plan;
  for (const Json& pod : pods) {
    if (IsMirror(pod)) continue;
    const PodReference reference{kube::KeyOf(pod), codec::FindString(pod, {"metadata", "uid"})};
    const auto refuse = [&](std::string why) {
      plan.refused.push_back(fmt::format("{} {}", reference.key.ToString(), why));
    };
    const auto owner = kube::ControllerOf(pod);
    const bool ended = HasEnded(pod);
    if (!ended && owner && owner->kind == "DaemonSet") {
      // It ends with its DaemonSet's own condition; evicted, it would come back at once.
      if (!options.ignore_daemon_sets) refuse("belongs to a DaemonSet");
    } else if (!ended && HasEmptyDir(pod) && !options.delete_empty_dir) {
      refuse(fmt::format("would lose an emptyDir volume ({})", options.delete_empty_dir_name));
    } else if (!ended && !owner && !options.force) {
      refuse(fmt::format("has no controller that would make it again ({})", options.force_name));
    } else {
      plan.evict.push_back(reference);
    }
  }
  return plan;
}

}  // namespace pitcrew::workload
