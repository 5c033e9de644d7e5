// Handles and attributes of MIG devices.
#include "simulation/nvml/mig_devices.h"

#include "gpu/mig_profile.h"
#include "simulation/state/discovery.h"

namespace pitcrew::simulation::library {

std::vector<MigDeviceRef> VisibleMigDevices(const GpuState& gpu, const Visibility& visibility) {
  if (gpu.mig_current == 0) return {};
  auto devices = ListMigDevices(gpu);
  if (visibility.mig_restricted) {
    std::erase_if(devices, [&](const MigDeviceRef& ref) {
      return !HasCapabilityNodes(visibility.dev, gpu, ref.instance_id, ref.compute_id);
    });
  }
  return devices;
}

void* MigHandle(std::uint32_t gpu, const MigDeviceRef& ref) {
  return Session::Get().HandleFor(
      {Handle::Kind::kMigDevice, gpu, ref.instance_serial, ref.compute_serial});
}

std::string MigProfileName(const GpuState& gpu, const GpuProfile& profile,
                           const ComputeProfile& compute_profile) {
  const auto name = gpu::NameMigProfile(profile.index, compute_profile.index, profile.memory_mib,
                                        gpu.memory_total);
  return name ? name->Name() : std::string();
}

std::string MigProfileName(const Target& target) {
  const GpuProfile& profile = ProfileOf(*target.gpu, *target.instance);
  return MigProfileName(*target.gpu, profile, ProfileOf(profile, *target.compute));
}

}  // namespace pitcrew::simulation::library

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

NVML_API Return nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is_mig) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(is_mig != nullptr);
  *is_mig = target.compute != nullptr ? 1 : 0;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr);
  *count = target.gpu->mig_current != 0 ? target.gpu->max_mig_devices : 0;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* mig) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(mig != nullptr);
  if (target.gpu->mig_capable == 0) return kNotSupported;
  NVML_REQUIRE(index < target.gpu->max_mig_devices);
  const auto refs = VisibleMigDevices(*target.gpu, Session::Get().visibility());
  if (index >= refs.size()) return kNotFound;
  *mig = MigHandle(target.handle->gpu, refs[index]);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device mig, Device* device) {
  Target target;
  NVML_TRY(ResolveDevice(mig, target));
  NVML_REQUIRE(device != nullptr && target.compute != nullptr);
  *device = Session::Get().HandleFor({Handle::Kind::kGpu, target.handle->gpu, 0, 0});
  return kSuccess;
}

NVML_API Return nvmlDeviceGetGpuInstanceId(Device device, unsigned* id) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(id != nullptr && target.instance != nullptr);
  *id = target.instance->id;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetComputeInstanceId(Device device, unsigned* id) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(id != nullptr && target.compute != nullptr);
  *id = target.compute->id;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetAttributes_v2(Device device, DeviceAttributes* attributes) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(attributes != nullptr);
  if (target.compute == nullptr) return kNotSupported;
  const GpuProfile& profile = ProfileOf(*target.gpu, *target.instance);
  const ComputeProfile& compute = ProfileOf(profile, *target.compute);
  *attributes = {compute.multiprocessors, profile.copy_engines, profile.decoders,
                 profile.encoders,        profile.jpegs,        profile.ofas,
                 profile.slices,          compute.slices,       profile.memory_mib};
  return kSuccess;
}
NVML_API Return nvmlDeviceGetAttributes(Device device, DeviceAttributes* attributes) {
  return nvmlDeviceGetAttributes_v2(device, attributes);
}
