// What is paused on a node while its driver is changed: the operands that use it
// (driver-lifecycle.md 4.5), as their descriptors tell.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pitcrew::node::driver_manager {

struct PausedOperands {
  std::vector<std::string_view> labels;     // that keep them on a node; borrowed
  std::set<std::string, std::less<>> apps;  // whose pods are waited for
};

// All but the kubelet plugin of dynamic resource allocation; `custom_label` ("": none) too.
PausedOperands OperandsToPause(std::string_view custom_label);
// Those that are on nodes for virtual machines of either kind (passthrough, vGPUs): their pods stay
// when the kind changes, and have looked at the node for the kind of before.
PausedOperands MachineOperandsToPause();
// That kubelet plugin: pods that hold a claim can end only while it runs, so it goes after them.
PausedOperands DraPluginToPause();
// What either of them may have paused.
std::vector<std::string_view> LabelsToResume(std::string_view custom_label);

}  // namespace pitcrew::node::driver_manager
