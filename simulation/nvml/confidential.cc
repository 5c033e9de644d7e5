// Confidential computing: Hopper and later are capable of it, and it is switched off.
#include <algorithm>

#include "nvml/abi_metrics.h"
#include "simulation/nvml/architectures.h"
#include "simulation/nvml/session.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

// The system is where every GPU is.
bool AllCapable(const NodeState& node) {
  const auto gpus = Session::Get().visibility().gpus;
  return !gpus.empty() && std::ranges::all_of(gpus, [&](std::uint32_t position) {
    return node.gpus[position].architecture >= kHopper;
  });
}

Return ResolveCapable(Device device, Target& target) {
  NVML_TRY(ResolveGpu(device, target));
  return target.gpu->architecture >= kHopper ? kSuccess : kNotSupported;
}

}  // namespace

NVML_API Return nvmlSystemGetConfComputeCapabilities(ConfComputeSystemCaps* caps) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(caps != nullptr);
  *caps = {0, AllCapable(*file->Snapshot()) ? 1u : 0u};
  return kSuccess;
}

NVML_API Return nvmlSystemGetConfComputeState(ConfComputeSystemState* state) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(state != nullptr);
  *state = {};
  return kSuccess;
}

NVML_API Return nvmlSystemGetConfComputeSettings(SystemConfComputeSettingsV1* settings) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(settings != nullptr);
  if (settings->version != kSystemConfComputeSettingsV1) return kArgumentVersionMismatch;
  *settings = {kSystemConfComputeSettingsV1, 0, 0, 0, 0};
  return kSuccess;
}

NVML_API Return nvmlSystemGetConfComputeGpusReadyState(unsigned* ready) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(ready != nullptr);
  if (!AllCapable(*file->Snapshot())) return kNotSupported;
  *ready = 0;
  return kSuccess;
}

NVML_API Return
nvmlSystemGetConfComputeKeyRotationThresholdInfo(ConfComputeKeyRotationThreshold* threshold) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(threshold != nullptr);
  if (threshold->version != kConfComputeKeyRotationThresholdV1) return kArgumentVersionMismatch;
  if (!AllCapable(*file->Snapshot())) return kNotSupported;
  constexpr unsigned long long kByDefault = 60;  // as an H200 says
  threshold->attacker_advantage = kByDefault;
  return kSuccess;
}

// All that the driver does not keep is unprotected.
NVML_API Return nvmlDeviceGetConfComputeMemSizeInfo(Device device, ConfComputeMemorySizes* sizes) {
  Target target;
  NVML_TRY(ResolveCapable(device, target));
  NVML_REQUIRE(sizes != nullptr);
  *sizes = {0, (target.gpu->memory_total - target.gpu->memory_reserved) >> 10};
  return kSuccess;
}

NVML_API Return nvmlDeviceGetConfComputeProtectedMemoryUsage(Device device, Memory* memory) {
  Target target;
  NVML_TRY(ResolveCapable(device, target));
  NVML_REQUIRE(memory != nullptr);
  *memory = {};
  return kSuccess;
}
