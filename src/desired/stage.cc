#include "desired/stage.h"

#include <array>

namespace pitcrew::desired {
namespace {

constexpr std::array<Stage, 12> kContainerChain = {
    Stage::kNode,   Stage::kPciDevice,   Stage::kLabels,      Stage::kWorkload,
    Stage::kDriver, Stage::kModule,      Stage::kToolkit,     Stage::kValidation,
    Stage::kPlugin, Stage::kAllocatable, Stage::kSchedulable, Stage::kMetrics};
constexpr std::array<Stage, 9> kMachineChain = {
    Stage::kNode,       Stage::kPciDevice, Stage::kLabels,      Stage::kWorkload,   Stage::kDriver,
    Stage::kValidation, Stage::kPlugin,    Stage::kAllocatable, Stage::kSchedulable};

}  // namespace

std::string_view ToString(Stage stage) {
  switch (stage) {
    case Stage::kNode:
      return "node";
    case Stage::kPciDevice:
      return "pci-device";
    case Stage::kLabels:
      return "labels";
    case Stage::kWorkload:
      return "workload";
    case Stage::kDriver:
      return "driver";
    case Stage::kModule:
      return "kernel-module";
    case Stage::kToolkit:
      return "toolkit";
    case Stage::kValidation:
      return "validation";
    case Stage::kPlugin:
      return "device-plugin";
    case Stage::kAllocatable:
      return "allocatable";
    case Stage::kSchedulable:
      return "schedulable";
    case Stage::kMetrics:
      return "metrics";
    case Stage::kReady:
      return "ready";
  }
  return "";
}

std::span<const Stage> ChainOf(Workload workload) {
  if (workload == Workload::kContainer) return kContainerChain;
  return kMachineChain;
}

}  // namespace pitcrew::desired
