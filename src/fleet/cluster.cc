#include "fleet/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace pitcrew::fleet {

std::string ToString(Kind kind, std::string_view name_space) {
  switch (kind) {
    case Kind::kPolicies:
      return "ClusterPolicies";
    case Kind::kNodes:
      return "Nodes";
    case Kind::kOperandPods:
      return fmt::format("Pods of namespace {}", name_space);
    case Kind::kDaemonSets:
      return fmt::format("DaemonSets of namespace {}", name_space);
    case Kind::kUserPods:
      return "Pods of all namespaces";
    case Kind::kEvents:
      return "Events";
    case Kind::kRuntimeClasses:
      return "RuntimeClasses";
    case Kind::kConfigMaps:
      return fmt::format("ConfigMaps of namespace {}", name_space);
    case Kind::kDefinitions:
      return "the CustomResourceDefinition of ClusterPolicy";
    case Kind::kLogs:
      return fmt::format("logs of Pods of namespace {}", name_space);
    case Kind::kFeatures:
      return fmt::format("NodeFeatures of namespace {}", name_space);
    case Kind::kMachines:
      return "KubeVirt objects and virtual machines";
    case Kind::kDrivers:
      return "NVIDIADrivers";
  }
  return "";
}

void Cluster::Index() {
  active_ = nullptr;
  for (const Policy& policy : policies) {
    if (active_ == nullptr ||
        std::tie(policy.created, policy.name) < std::tie(active_->created, active_->name)) {
      active_ = &policy;
    }
  }
  by_node_.clear();
  for (auto& [key, pod] : pods) {
    pod.operand = pod.owner_kind == "DaemonSet" && key.name_space == name_space
                      ? operand_table->OfDaemonSet(pod.owner)
                      : nullptr;
    if (!pod.node.empty()) by_node_[pod.node].push_back(&pod);
  }
  by_object_.clear();
  for (const Event& event : events) by_object_[{event.kind, event.object}].push_back(&event);
  for (auto& [object, list] : by_object_) {
    std::ranges::stable_sort(list, std::ranges::greater(),
                             [](const Event* event) { return event->last; });
  }
}

const std::vector<const Pod*>& Cluster::PodsOf(std::string_view node) const {
  static const std::vector<const Pod*> kNone;
  const auto found = by_node_.find(node);
  return found == by_node_.end() ? kNone : found->second;
}

const std::vector<const Event*>& Cluster::EventsOf(std::string_view kind, const Key& object) const {
  static const std::vector<const Event*> kNone;
  const auto found = by_object_.find({std::string(kind), object});
  return found == by_object_.end() ? kNone : found->second;
}

const Event* Cluster::FindEvent(std::string_view kind, const Key& object,
                                std::string_view part_of_message) const {
  const auto& list = EventsOf(kind, object);
  const auto found = std::ranges::find_if(list, [&](const Event* event) {
    return event->message.find(part_of_message) != std::string::npos;
  });
  return found == list.end() ? nullptr : *found;
}

}  // namespace pitcrew::fleet
