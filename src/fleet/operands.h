// The operands as people know them: which DaemonSet, which label puts them on a node, which link of
// the chain they are (operator-behaviour.md sections 5 and 7.4).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/cluster_policy.h"
#include "fleet/views.h"

namespace pitcrew::fleet {

// What a node is used for.
enum class Workload { kContainer, kPassthrough, kVgpu };
std::string_view ToString(Workload workload);  // container, vm-passthrough, vm-vgpu
// The node's own valid label while sandbox workloads are on, else the policy's default.
Workload WorkloadOf(const Node& node, const api::ClusterPolicy* policy);

// The links between a GPU and the pod that uses it, in order.
enum class Stage {
  kNode,       // the kubelet answers
  kPciDevice,  // node feature discovery sees the device
  kLabels,     // the operator has labelled the node
  kWorkload,   // what the node is for
  kDriver,     // the driver's pod; for virtual machines VFIO or vGPU manager
  kModule,     // the kernel module is loaded
  kToolkit,
  kValidation,
  kPlugin,       // the device plugin runs
  kAllocatable,  // the kubelet offers the resource, MIG is as wanted
  kSchedulable,  // pods may come
  kMetrics,
  kReady,
};
// "pci-device"; the names of the chain in texts and JSON.
std::string_view ToString(Stage stage);
// The links that a node of this kind has, in order, without kReady.
std::span<const Stage> ChainOf(Workload workload);

struct Operand {
  std::string_view name;       // "device plugin"
  std::string_view daemonset;  // name, or its beginning for those that exist several times
  std::string_view deploy;     // the label's key
  Stage stage;
  std::string_view field;  // of the policy: "devicePlugin"
  bool container;          // of which workloads it is part
  bool passthrough;
  bool vgpu;
  bool (*enabled)(const api::ClusterPolicy&);

  [[nodiscard]] bool IsPartOf(Workload workload) const {
    return workload == Workload::kContainer     ? container
           : workload == Workload::kPassthrough ? passthrough
                                                : vgpu;
  }
};

// In the order of the chain.
std::span<const Operand> Operands();
// The operand whose DaemonSet has this name; null when there is none.
const Operand* OperandOf(std::string_view daemonset);
const Operand& OperandNamed(std::string_view name);

}  // namespace pitcrew::fleet
