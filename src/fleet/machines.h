// Virtual machines of KubeVirt that ask for GPUs and wait, and what KubeVirt permits them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "fleet/views.h"
#include "kubevirt/permitted.h"

namespace pitcrew::fleet {

// A VirtualMachineInstance; or a VirtualMachine for which KubeVirt could not even make one.
struct Machine {
  Key key;
  std::string kind;
  std::set<std::string> resources;  // of nvidia.com, that it names
  bool waits = false;
  std::vector<Condition> conditions;
  Time created;

  // "VirtualMachine team/win".
  [[nodiscard]] std::string ToString() const;
  // The condition whose message contains these words; null when none does.
  [[nodiscard]] const Condition* Said(std::string_view words) const;
};
Machine ReadMachine(const codec::Json& object);

// What a KubeVirt or HyperConverged object permits.
struct Permission {
  Key key;
  kubevirt::Form form = kubevirt::Form::kKubeVirt;
  kubevirt::Permitted permitted;

  // "KubeVirt kubevirt/kubevirt".
  [[nodiscard]] std::string ToString() const;
  [[nodiscard]] bool is_hyperconverged() const { return form != kubevirt::Form::kKubeVirt; }
};
// None for an object of another kind, or whose lists are not what they should be.
std::optional<Permission> ReadPermission(const codec::Json& object);

}  // namespace pitcrew::fleet
