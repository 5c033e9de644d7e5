#include "node/driver_manager/eviction.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/strings.h"
#include "workload/evict.h"
#include "workload/gpu_use.h"

namespace pitcrew::node::driver_manager {

workload::DrainOptions DrainOptionsOf(const Options& options) {
  workload::DrainOptions drain;
  drain.force = options.drain_force;
  drain.delete_empty_dir = options.drain_delete_empty_dir;
  drain.force_name = "DRAIN_USE_FORCE";
  drain.delete_empty_dir_name = "DRAIN_DELETE_EMPTYDIR_DATA";
  return drain;
}

base::Status EvictGpuPods(const Options& options, const std::shared_ptr<kube::Client>& client,
                          const io::StopToken& stop) {
  kube::ListOptions selection;
  selection.field_selector = "spec.nodeName=" + options.node_name;
  TRY_ASSIGN(auto pods, client->List(kube::kPods, "", selection, stop));
  std::erase_if(pods.items,
                [&](const codec::Json& pod) { return !workload::UsesGpu(*client, pod, stop); });
  const auto plan = workload::PlanDrain(pods.items, DrainOptionsOf(options));
  if (!plan.refused.empty()) {
    return base::Fail(
        base::Unavailable("GpuPodsNotEvictable",
                          fmt::format("pods use the GPUs of this node and may not be evicted: {}",
                                      base::Join(plan.refused, "; "))));
  }
  workload::EvictOptions evict;
  if (options.drain_timeout.count() > 0) {
    evict.deadline = base::Deadline::After(options.drain_timeout);
  }
  evict.held_up = [](const kube::ObjectKey& pod, const base::Error& why) {
    base::LogInfo("A disruption budget holds an eviction up",
                  {{"pod", pod.ToString()}, {"why", why.message}});
  };
  return workload::EvictPods(client, options.node_name, plan.evict, evict, stop);
}

}  // namespace pitcrew::node::driver_manager
