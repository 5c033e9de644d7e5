// The state of a cluster's GPU stack as far as it was read. What could not be read is named in
// `unread`, so that nothing is taken for absent that was only not seen.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fleet/machines.h"
#include "fleet/views.h"

namespace pitcrew::fleet {

// What is read, by the words that people use.
enum class Kind {
  kPolicies,
  kNodes,
  kOperandPods,  // of the operator's namespace
  kDaemonSets,
  kUserPods,  // pending and failed pods of all namespaces
  kEvents,
  kRuntimeClasses,
  kConfigMaps,   // of the operator's namespace
  kDefinitions,  // the CRD of ClusterPolicy
  kLogs,
  kFeatures,  // what the workers of node feature discovery tell
  kMachines,  // KubeVirt, HyperConverged and their virtual machines
  kDrivers,   // NVIDIADrivers
};
// "Pods of namespace gpu-operator".
std::string ToString(Kind kind, std::string_view name_space);

// The log of a container that would tell more, and what was read of it.
struct LogKey {
  Key pod;
  std::string container;
  bool previous = false;  // of the run before, which has ended

  auto operator<=>(const LogKey&) const = default;
};

class Cluster {
 public:
  // Where the operator and its operands are.
  std::string name_space = "gpu-operator";
  // What is known of operands; borrowed.
  const desired::OperandTable* operand_table = &desired::Operands();
  // The moment at which all this was so.
  base::WallClock::time_point now;

  std::map<std::string, Node, std::less<>> nodes;
  std::vector<Policy> policies;
  // NVIDIADrivers; read where the active policy leaves drivers to them.
  std::map<std::string, DriverObject, std::less<>> drivers;
  std::map<Key, Pod> pods;  // of the operator's namespace and of users
  std::map<std::string, DaemonSet, std::less<>> daemonsets;
  std::map<Key, Machine> machines;      // that ask for GPUs and wait
  std::vector<Permission> permissions;  // what they are permitted
  std::vector<Event> events;            // warnings
  std::vector<RuntimeClass> runtime_classes;
  std::map<std::string, std::vector<std::string>, std::less<>> config_maps;  // name to keys
  // The API server does not serve ClusterPolicies.
  bool definition_absent = false;
  // Fields of ClusterPolicy's spec that the served schema has, two names deep ("cdi.enabled"); none
  // when the definition was not read.
  std::optional<std::set<std::string, std::less<>>> served_fields;

  std::map<Kind, base::Error> unread;
  // Asked for after a first look (see FleetReport::wanted); empty text when there is no log.
  std::map<LogKey, std::string> logs;
  std::map<std::string, Features, std::less<>> features;

  // Builds what the look-ups below need; to be called again after a change.
  void Index();

  // Those that are part of a node's chain, in its order.
  [[nodiscard]] auto operands() const {
    return operand_table->chain() |
           std::views::transform([](const Operand* operand) -> const Operand& { return *operand; });
  }
  [[nodiscard]] bool has_read(Kind kind) const { return !unread.contains(kind); }
  // The oldest policy, of equally old ones the first by name (operator-behaviour.md section 4);
  // null when there is none.
  [[nodiscard]] const Policy* active_policy() const { return active_; }
  // Drivers are those of NVIDIADriver objects.
  [[nodiscard]] bool uses_driver_objects() const {
    return active_ != nullptr && active_->spec.driver.use_nvidia_driver_crd;
  }
  [[nodiscard]] const std::vector<const Pod*>& PodsOf(std::string_view node) const;
  // Newest first.
  [[nodiscard]] const std::vector<const Event*>& EventsOf(std::string_view kind,
                                                          const Key& object) const;
  [[nodiscard]] const Event* FindEvent(std::string_view kind, const Key& object,
                                       std::string_view part_of_message) const;

 private:
  const Policy* active_ = nullptr;
  std::map<std::string, std::vector<const Pod*>, std::less<>> by_node_;
  std::map<std::pair<std::string, Key>, std::vector<const Event*>> by_object_;
};

}  // namespace pitcrew::fleet
