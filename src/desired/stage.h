// The links between a GPU and the pod that uses it, in the order in which people follow them when
// something is wrong.
#pragma once

#include <span>
#include <string_view>

#include "desired/workload.h"

namespace pitcrew::desired {

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

}  // namespace pitcrew::desired
