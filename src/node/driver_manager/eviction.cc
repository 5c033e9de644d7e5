#include "node/driver_manager/eviction.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "base/log.h"
#include "base/strings.h"
#include "node/driver_manager/machine_pods.h"
#include "workload/evict.h"
#include "workload/gpu_use.h"

namespace pitcrew::node::driver_manager {
namespace {

// All of them, or none when one may not go.
base::Status Evict(const Options& options, const std::shared_ptr<kube::Client>& client,
                   const std::vector<codec::Json>& pods, const io::StopToken& stop) {
  const auto plan = workload::PlanDrain(pods, DrainOptionsOf(options));
  if (!plan.refused.empty()) {
    return base::Fail(base::Unavailable(
        "PodsNotEvictable", fmt::format("pods hold up the change of this node's driver and may not "
                                        "be evicted: {}",
                                        base::Join(plan.refused, "; "))));
  }
  return EvictAll(options, client, plan.evict, stop);
}

base::Result<std::vector<codec::Json>> GpuPods(const Options& options, kube::Client& client,
                                               WithMachines with_machines,
                                               const io::StopToken& stop) {
  TRY_ASSIGN(auto pods, PodsOfNode(options, client, "", stop));
  const auto machines = with_machines == WithMachines::kYes ? UidsWithOpenDevices(options, pods)
                                                            : std::set<std::string>();
  std::vector<codec::Json> with_gpus;
  for (codec::Json& pod : pods) {
    if (!machines.contains(codec::FindString(pod, {"metadata", "uid"}))) {
      TRY_ASSIGN(const bool uses_gpu, workload::CheckGpuUse(client, pod, stop));
      if (!uses_gpu) continue;
    }
    with_gpus.push_back(std::move(pod));
  }
  return with_gpus;
}

}  // namespace

base::Result<std::vector<codec::Json>> PodsOfNode(const Options& options, kube::Client& client,
                                                  const std::string& selector,
                                                  const io::StopToken& stop) {
  kube::ListOptions selection;
  selection.field_selector = "spec.nodeName=" + options.node_name;
  selection.label_selector = selector;
  TRY_ASSIGN(auto pods, client.List(kube::kPods, "", selection, stop));
  return std::move(pods.items);
}

base::Status EvictAll(const Options& options, const std::shared_ptr<kube::Client>& client,
                      const std::vector<workload::PodReference>& pods, const io::StopToken& stop) {
  workload::EvictOptions evict;
  if (options.drain_timeout.count() > 0) {
    evict.deadline = base::Deadline::After(options.drain_timeout);
  }
  evict.held_up = [](const kube::ObjectKey& pod, const base::Error& why) {
    base::LogInfo("A disruption budget holds an eviction up",
                  {{"pod", pod.ToString()}, {"why", why.message}});
  };
  return workload::EvictPods(client, options.node_name, pods, evict, stop);
}

workload::DrainOptions DrainOptionsOf(const Options& options) {
  workload::DrainOptions drain;
  drain.force = options.drain_force;
  drain.delete_empty_dir = options.drain_delete_empty_dir;
  drain.force_name = "DRAIN_USE_FORCE";
  drain.delete_empty_dir_name = "DRAIN_DELETE_EMPTYDIR_DATA";
  return drain;
}

base::Status EvictGpuPods(const Options& options, const std::shared_ptr<kube::Client>& client,
                          WithMachines machines, const io::StopToken& stop) {
  TRY_ASSIGN(const auto pods, GpuPods(options, *client, machines, stop));
  return Evict(options, client, pods, stop);
}

base::Status DrainNode(const Options& options, const std::shared_ptr<kube::Client>& client,
                       const io::StopToken& stop) {
  TRY_ASSIGN(const auto pods, PodsOfNode(options, *client, options.drain_pod_selector, stop));
  return Evict(options, client, pods, stop);
}

bool IsAboutPods(const base::Error& error) {
  if (error.reason == "PodsNotEvictable" || error.reason == "PodsNotGone") return true;
  return error.reason == "PodsNotEvicted" && error.code != base::Code::kUnavailable;
}

base::Status RefuseClaimHolders(const Options& options, kube::Client& client,
                                const io::StopToken& stop) {
  TRY_ASSIGN(const auto pods, PodsOfNode(options, client, "", stop));
  std::vector<std::string> holders;
  for (const codec::Json& pod : pods) {
    TRY_ASSIGN(const bool holds, workload::CheckGpuClaim(client, pod, stop));
    if (holds) holders.push_back(kube::KeyOf(pod).ToString());
  }
  if (holders.empty()) return {};
  return base::Fail(base::Unavailable(
      "GpuClaimsHeld", fmt::format("pods on this node still hold GPUs by resource claims: {}; end "
                                   "them before the driver is changed",
                                   base::Join(holders, ", "))));
}

}  // namespace pitcrew::node::driver_manager
