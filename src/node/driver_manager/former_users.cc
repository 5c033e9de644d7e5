#include "node/driver_manager/former_users.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/strings.h"
#include "kube/await.h"
#include "kube/ownership.h"
#include "kube/projection.h"
#include "node/driver_manager/eviction.h"
#include "node/driver_manager/machine_pods.h"
#include "workload/evict.h"
#include "workload/gpu_use.h"

namespace pitcrew::node::driver_manager {
namespace {

using codec::Json;
using Pods = std::vector<Json>;

std::string UidOf(const Json& pod) { return codec::FindString(pod, {"metadata", "uid"}); }

// Pods of the node that have not ended and have GPUs in one of these ways.
base::Result<Pods> FindUsers(const Options& options, kube::Client& client, const FormerUse& use,
                             const io::StopToken& stop) {
  TRY_ASSIGN(auto pods, PodsOfNode(options, client, "", stop));
  std::erase_if(pods, workload::HasEnded);
  const auto machines = UidsWithOpenDevices(options, pods, OpenDevices::kAll);
  // Where vGPUs stay, their machines do.
  const auto passed_through =
      use.vgpus ? machines : UidsWithOpenDevices(options, pods, OpenDevices::kWholeGpus);
  std::set<std::string, std::less<>> resources;
  if (use.passthrough) {
    TRY_ASSIGN(resources, PassthroughResources(options));
  }
  const auto has_whole_gpu = [&](const Json& pod) {
    return passed_through.contains(UidOf(pod)) ||
           workload::AsksFor(pod, [&](auto resource) { return resources.contains(resource); });
  };
  const auto is_user = [&](const Json& pod) -> base::Result<bool> {
    if (use.vgpus && workload::AsksFor(pod, IsVgpuResource)) return true;
    if (use.passthrough && has_whole_gpu(pod)) return true;
    // A virtual machine's GPU may be called nvidia.com/gpu..., too: Kata's plugin is told a name.
    if (!use.containers || machines.contains(UidOf(pod))) return false;
    return workload::CheckGpuUse(client, pod, stop);
  };
  Pods users;
  for (Json& pod : pods) {
    TRY_ASSIGN(const bool uses, is_user(pod));
    if (uses) users.push_back(std::move(pod));
  }
  return users;
}

// What is to become of them.
struct Farewell {
  std::vector<workload::PodReference> evict;
  std::set<std::string> staying;      // uids of those that may not be evicted
  std::vector<std::string> refusals;  // each of those, and what would let it go
};

Farewell Plan(const Options& options, const Pods& pods) {
  Farewell plan;
  for (const Json& pod : pods) {
    const workload::PodReference reference{kube::KeyOf(pod), UidOf(pod)};
    const auto refuse = [&](const std::string& why) {
      plan.staying.insert(reference.uid);
      plan.refusals.push_back(fmt::format("{}: kubectl delete pod --namespace {} {}", why,
                                          reference.key.namespace_name, reference.key.name));
    };
    if (!options.evict_gpu_pods) {
      refuse(reference.key.ToString() + " may not be evicted (ENABLE_GPU_POD_EVICTION)");
      continue;
    }
    const auto owner = kube::ControllerOf(pod);
    if (owner && owner->kind == kube::kDaemonSets.kind) {
      plan.evict.push_back(reference);
      continue;
    }
    const auto drain = workload::PlanDrain({pod}, DrainOptionsOf(options));
    for (const auto& why : drain.refused) refuse(why);
    plan.evict.insert(plan.evict.end(), drain.evict.begin(), drain.evict.end());
    if (drain.refused.empty() && drain.evict.empty()) {
      plan.staying.insert(reference.uid);
      plan.refusals.push_back(reference.key.ToString() +
                              " is of a manifest on the node: take that away");
    }
  }
  return plan;
}

base::Error StillThere(const Farewell& plan) {
  return base::Unavailable(
      "GpuPodsRemain",
      fmt::format("pods have GPUs for what this node was for before, and those change hands after "
                  "them: {}. The driver manager evicts what its variables in brackets permit",
                  base::Join(plan.refusals, "; ")));
}

// Until these have ended or are gone.
base::Status AwaitEnd(const Options& options, const std::shared_ptr<kube::Client>& client,
                      const std::set<std::string>& uids, base::Deadline deadline,
                      const io::StopToken& stop) {
  kube::InformerOptions selection;
  selection.field_selector = "spec.nodeName=" + options.node_name;
  return kube::Await<std::string>(
      client, kube::kPods,
      kube::ProjectJson<std::string>([](const Json& pod) -> base::Result<std::string> {
        return workload::HasEnded(pod) ? "" : UidOf(pod);
      }),
      selection,
      [&](const kube::Store<std::string>& store) -> base::Result<bool> {
        return std::ranges::none_of(
            store.Snapshot(), [&](const auto& entry) { return uids.contains(*entry.second); });
      },
      stop, deadline);
}

}  // namespace

base::Status LetFormerUsersLeave(const Options& options,
                                 const std::shared_ptr<kube::Client>& client, const FormerUse& use,
                                 const LeavingSteps& steps, const io::StopToken& stop) {
  if (!use.any()) return {};
  const auto deadline = base::Deadline::After(options.users_timeout);
  std::set<std::string> told;
  while (true) {
    TRY_ASSIGN(const auto pods, FindUsers(options, *client, use, stop));
    if (pods.empty()) return {};
    const auto plan = Plan(options, pods);
    if (plan.staying.empty()) {
      TRY(steps.before_evictions());
      TRY(EvictAll(options, client, plan.evict, stop));
      continue;
    }
    const auto refusal = StillThere(plan);
    if (plan.staying != told) steps.tell(refusal);
    told = plan.staying;
    const auto ended = AwaitEnd(options, client, plan.staying, deadline, stop);
    if (ended) continue;
    return base::Fail(ended.error().code == base::Code::kTimeout ? refusal : ended.error());
  }
}

}  // namespace pitcrew::node::driver_manager
