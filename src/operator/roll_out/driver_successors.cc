#include "operator/roll_out/driver_successors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/labels.h"
#include "base/log.h"
#include "desired/owned_object.h"
#include "driver_upgrade/pods.h"
#include "driver_upgrade/succession.h"
#include "kube/ownership.h"
#include "kube/selector.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// Pods that change while they are passed on are read again; more than that is another pass.
constexpr int kRounds = 3;

std::string NodeSelectorOf(const Json& daemonset) {
  const Json* labels = codec::Find(daemonset, {"spec", "template", "spec", "nodeSelector"});
  return labels == nullptr || !labels->is_object() ? ""
                                                   : kube::SelectorOf(labels->get<kube::Labels>());
}

// Nothing when there is none, or it goes.
base::Result<std::optional<Json>> ReadStaying(kube::Client& client, const kube::ObjectKey& key,
                                              const io::StopToken& stop) {
  auto read = client.Get(kube::kDaemonSets, key, stop);
  if (!read && read.error().code != base::Code::kNotFound) return base::Fail(read.error());
  if (!read || codec::Find(*read, {"metadata", "deletionTimestamp"}) != nullptr) {
    return std::optional<Json>();
  }
  return std::optional(*std::move(read));
}

base::Result<std::vector<Json>> RunningPodsOf(kube::Client& client,
                                              const desired::StandingObject& daemonset,
                                              const io::StopToken& stop) {
  TRY_ASSIGN(auto listed, client.List(kube::kPods, daemonset.key.namespace_name,
                                      {.label_selector = fmt::format("{}={}", api::kComponentLabel,
                                                                     api::kDriverComponent)},
                                      stop));
  std::erase_if(listed.items, [&](const Json& pod) {
    const auto owner = kube::ControllerOf(pod);
    return !owner || owner->uid != daemonset.uid ||
           codec::FindString(pod, {"spec", "nodeName"}).empty() ||
           codec::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  });
  return std::move(listed.items);
}

// The DaemonSet that takes the place of another, by the nodes for which there is one.
class SuccessorsByNode {
 public:
  base::Status Read(kube::Client& client, const Json& former,
                    std::span<const desired::Object> wanted, const io::StopToken& stop) {
    // The server follows the selector of the one, here that of the others is followed.
    TRY_ASSIGN(const auto nodes,
               client.List(kube::kNodes, "", {.label_selector = NodeSelectorOf(former)}, stop));
    for (const desired::Object& object : wanted) {
      if (!desired::IsDriverDaemonSet(object)) continue;
      TRY_ASSIGN(auto live, ReadStaying(client, kube::KeyOf(object), stop));
      if (!live) {
        all_stand_ = false;
        continue;
      }
      TRY_ASSIGN(const auto selector, kube::LabelSelector::Parse(NodeSelectorOf(*live)));
      for (const Json& node : nodes.items) {
        if (selector.Selects(node)) by_node_[kube::KeyOf(node).name] = daemonsets_.size();
      }
      daemonsets_.push_back(*std::move(live));
    }
    return {};
  }
  // All that are wanted are there: a node for which there is none is to have none.
  [[nodiscard]] bool all_stand() const { return all_stand_; }
  [[nodiscard]] const Json* Of(const std::string& node) const {
    const auto found = by_node_.find(node);
    return found == by_node_.end() ? nullptr : &daemonsets_[found->second];
  }

 private:
  bool all_stand_ = true;
  std::vector<Json> daemonsets_;
  std::map<std::string, std::size_t> by_node_;
};

base::Status PassOn(kube::Client& client, const Json& pod, const Json& daemonset,
                    const io::StopToken& stop) {
  const kube::ObjectKey key = kube::KeyOf(pod);
  const auto patched = client.Patch(kube::kPods, key, kube::PatchType::kMerge,
                                    driver_upgrade::PassOnPatch(pod, daemonset),
                                    {.field_manager = std::string(desired::kFieldManager)}, stop);
  if (patched) {
    base::LogInfo("the driver's pod has another owner",
                  {{"node", codec::FindString(pod, {"spec", "nodeName"})},
                   {"daemonset", kube::KeyOf(daemonset).name}});
    return {};
  }
  // It has changed, or is gone: the next round tells.
  if (patched.error().code == base::Code::kConflict ||
      patched.error().code == base::Code::kNotFound) {
    return {};
  }
  return base::Fail(patched.error().Within("pass the driver's pod " + key.name + " on"));
}

}  // namespace

base::Result<bool> PassDriverPodsOn(kube::Client& client, const desired::StandingObject& former,
                                    std::span<const desired::Object> wanted,
                                    const io::StopToken& stop) {
  TRY_ASSIGN(const auto live, ReadStaying(client, former.key, stop));
  if (!live || codec::FindString(*live, {"metadata", "uid"}) != former.uid) return true;
  TRY_ASSIGN(auto pods, RunningPodsOf(client, former, stop));
  if (pods.empty()) return true;
  SuccessorsByNode successors;
  TRY(successors.Read(client, *live, wanted, stop));
  if (!successors.all_stand()) return false;
  for (int round = 0; round < kRounds; ++round) {
    bool all = true;
    for (const Json& pod : pods) {
      const Json* successor = successors.Of(codec::FindString(pod, {"spec", "nodeName"}));
      if (successor == nullptr) continue;
      all = false;
      TRY(PassOn(client, pod, *successor, stop));
    }
    if (all) return true;
    TRY_ASSIGN(pods, RunningPodsOf(client, former, stop));
  }
  return false;
}

base::Status NoteFormerParameters(kube::Client& client, const desired::StandingObject& former,
                                  const io::StopToken& stop) {
  TRY_ASSIGN(const auto live, ReadStaying(client, former.key, stop));
  if (!live || codec::FindString(*live, {"metadata", "uid"}) != former.uid) return {};
  // "modules": what desired/operands/driver_content.h remembers of them.
  const auto content =
      codec::ParseJson(codec::FindString(*live, {"metadata", "annotations", api::kDriverContent}));
  if (!content || codec::FindString(*content, {"modules", "change"}).empty()) return {};
  TRY_ASSIGN(const auto daemonset, driver_upgrade::ReadDriverDaemonSet(*live));
  TRY_ASSIGN(const auto pods, RunningPodsOf(client, former, stop));
  for (const Json& object : pods) {
    TRY_ASSIGN(const auto pod, driver_upgrade::ReadDriverPod(object));
    if (pod.configuration != daemonset.configuration || pod.digest == daemonset.digest) continue;
    const Json patch = {
        {"metadata",
         {{"uid", pod.uid},
          {"annotations", {{std::string(driver_upgrade::kFormerParameters), "true"}}}}}};
    const auto patched =
        client.Patch(kube::kPods, kube::KeyOf(object), kube::PatchType::kMerge, patch,
                     {.field_manager = std::string(desired::kFieldManager)}, stop);
    if (!patched && patched.error().code != base::Code::kNotFound &&
        patched.error().code != base::Code::kConflict) {
      return base::Fail(patched.error().Within("note the parameters of pod " + pod.name));
    }
  }
  return {};
}

}  // namespace pitcrew::gpu_operator
