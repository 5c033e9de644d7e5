// What nodes offer to virtual machines, as their Node objects tell it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "gpu/device_names.h"
#include "kubevirt/permitted.h"

namespace pitcrew::kubevirt {

// Resources of the device plugin for containers: a virtual machine that asks for one gets no device
// (virtualisation-and-olm.md section 7, number 2).
bool IsForContainers(std::string_view resource);

// A node on which the device plugin for KubeVirt runs, or ran until it was paused: one with the
// label api::kDeploySandboxDevicePlugin.
//
// Three questions about that label are not one: here it only has to be there, as a node whose
// plugin is paused or was switched off by hand keeps what is permitted of it; RunsPlugin asks who
// offers now; and fleet/former_offers.cc asks where nobody will again.
struct MachineNode {
  std::string name;
  std::string workload;  // label nvidia.com/gpu.workload.config; "" without one
  bool paused = false;   // RunsPlugin says no
  // Of nvidia.com and not for containers. 0: the kubelet knew it once, and has no device of it now.
  std::map<std::string, std::int64_t, std::less<>> capacity;
  std::map<std::string, std::int64_t, std::less<>> allocatable;

  bool operator==(const MachineNode&) const = default;
};
bool HasPluginLabel(const codec::Json& node);
// Whether the plugin runs where the label has this value; "" for a node without it.
constexpr bool RunsPlugin(std::string_view deploy_label) { return deploy_label == "true"; }
MachineNode ReadMachineNode(const codec::Json& node);

// Resources of KubeVirt's device plugins that a VirtualMachine or VirtualMachineInstance names
// (gpus and hostDevices), sorted.
std::set<std::string> ReadNamedResources(const codec::Json& machine);

// What an entry of permittedHostDevices needs besides the resource's name: for a GPU its id, which
// the PCI ID database tells after which the resource is named; for a vGPU its type, which is the
// name. Several where models share a name; none for a resource of which neither is known.
std::vector<Entry> EntriesFor(std::string_view resource, const gpu::DeviceNames& names);

}  // namespace pitcrew::kubevirt
