#include "node/driver_manager/eviction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "kube/await.h"
#include "kube/ownership.h"
#include "kube/projection.h"

namespace pitcrew::node::driver_manager {
namespace {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

// A disruption budget says no for a while; how long until it is asked again.
constexpr std::chrono::seconds kBudgetPause{5};

bool NamesGpu(const codec::Json* resources) {
  if (resources == nullptr || !resources->is_object()) return false;
  for (const auto& [name, quantity] : resources->items()) {
    if (name.starts_with("nvidia.com/gpu") || name.starts_with("nvidia.com/mig-")) return true;
  }
  return false;
}

bool HasEmptyDir(const codec::Json& pod) {
  const auto* volumes = codec::Find(pod, {"spec", "volumes"});
  return volumes != nullptr && volumes->is_array() &&
         std::ranges::any_of(*volumes,
                             [](const codec::Json& volume) { return volume.contains("emptyDir"); });
}

Deadline DeadlineOf(const Options& options) {
  if (options.drain_timeout.count() <= 0) return std::nullopt;
  return std::chrono::steady_clock::now() + options.drain_timeout;
}

base::Status EvictOne(kube::Client& client, const kube::ObjectKey& key, const Deadline& deadline,
                      const io::StopToken& stop) {
  const codec::Json eviction = {
      {"apiVersion", "policy/v1"},
      {"kind", "Eviction"},
      {"metadata", {{"name", key.name}, {"namespace", key.namespace_name}}}};
  kube::WriteOptions options;
  options.subresource = "eviction";
  while (true) {
    const auto evicted = client.Create(kube::kPods, eviction, options, stop);
    if (evicted || evicted.error().code == base::Code::kNotFound) return {};
    const bool late = deadline && std::chrono::steady_clock::now() >= *deadline;
    if (evicted.error().code != base::Code::kTooMany || late) {
      return base::Fail(evicted.error().Within(fmt::format("evict pod {}", key.ToString())));
    }
    base::LogInfo("A disruption budget holds an eviction up", {{"pod", key.ToString()}});
    if (stop.WaitFor(kBudgetPause)) return base::Fail(evicted.error());
  }
}

struct PodIdentity {
  std::string uid;
  bool operator==(const PodIdentity&) const = default;
};

base::Status AwaitGone(const Options& options, const std::shared_ptr<kube::Client>& client,
                       const std::vector<kube::ObjectKey>& pods, const Deadline& deadline,
                       const io::StopToken& stop) {
  kube::InformerOptions selection;
  selection.field_selector = "spec.nodeName=" + options.node_name;
  return kube::Await<PodIdentity>(
      client, kube::kPods,
      kube::ProjectJson<PodIdentity>([](const codec::Json& pod) -> base::Result<PodIdentity> {
        return PodIdentity{codec::FindString(pod, {"metadata", "uid"})};
      }),
      selection,
      [&](const kube::Store<PodIdentity>& store) -> base::Result<bool> {
        return std::ranges::all_of(
            pods, [&](const kube::ObjectKey& key) { return store.Find(key).is_absent(); });
      },
      stop, deadline);
}

}  // namespace

bool UsesGpu(const codec::Json& pod) {
  const auto phase = codec::FindString(pod, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") return false;
  for (const auto* list : {"containers", "initContainers"}) {
    const auto* containers = codec::Find(pod, {"spec", list});
    if (containers == nullptr || !containers->is_array()) continue;
    for (const auto& container : *containers) {
      if (NamesGpu(codec::Find(container, {"resources", "limits"})) ||
          NamesGpu(codec::Find(container, {"resources", "requests"}))) {
        return true;
      }
    }
  }
  return false;
}

EvictionPlan PlanEviction(const std::vector<codec::Json>& pods, const Options& options) {
  EvictionPlan plan;
  for (const auto& pod : pods) {
    if (!UsesGpu(pod)) continue;
    const auto key = kube::KeyOf(pod);
    const auto owner = kube::ControllerOf(pod);
    if (owner && owner->kind == "DaemonSet") continue;
    if (!owner && !options.drain_force) {
      plan.refused.push_back(fmt::format(
          "{} has no controller that would make it again (DRAIN_USE_FORCE)", key.ToString()));
    } else if (HasEmptyDir(pod) && !options.drain_delete_empty_dir) {
      plan.refused.push_back(fmt::format(
          "{} would lose an emptyDir volume (DRAIN_DELETE_EMPTYDIR_DATA)", key.ToString()));
    } else {
      plan.evict.push_back(key);
    }
  }
  return plan;
}

base::Status EvictGpuPods(const Options& options, const std::shared_ptr<kube::Client>& client,
                          const io::StopToken& stop) {
  kube::ListOptions selection;
  selection.field_selector = "spec.nodeName=" + options.node_name;
  TRY_ASSIGN(const auto pods, client->List(kube::kPods, "", selection, stop));
  const auto plan = PlanEviction(pods.items, options);
  if (!plan.refused.empty()) {
    return base::Fail(
        base::Unavailable("GpuPodsNotEvictable",
                          fmt::format("pods use the GPUs of this node and may not be evicted: {}",
                                      base::Join(plan.refused, "; "))));
  }
  const auto deadline = DeadlineOf(options);
  for (const auto& key : plan.evict) TRY(EvictOne(*client, key, deadline, stop));
  if (plan.evict.empty()) return {};
  return AwaitGone(options, client, plan.evict, deadline, stop);
}

}  // namespace pitcrew::node::driver_manager
