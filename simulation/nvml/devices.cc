// Handles of devices and what identifies a device.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "gpu/mig_profile.h"
#include "gpu/pci_address.h"
#include "simulation/nvml/mig_devices.h"
#include "simulation/nvml/session.h"
#include "simulation/state/mig.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;
using pitcrew::gpu::PciAddress;

namespace {

PciAddress AddressOf(const GpuState& gpu) {
  return {gpu.pci_domain, static_cast<std::uint8_t>(gpu.pci_bus),
          static_cast<std::uint8_t>(gpu.pci_device), static_cast<std::uint8_t>(gpu.pci_function)};
}

// The handle of a GPU that this process may see, when the GPU answers.
Return GpuHandle(std::uint32_t position, Device* device) {
  void* handle = Session::Get().HandleFor({Handle::Kind::kGpu, position, 0, 0});
  Target target;
  NVML_TRY(ResolveGpu(handle, target));
  *device = handle;
  return kSuccess;
}

}  // namespace

NVML_API Return nvmlDeviceGetCount_v2(unsigned* count) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(count != nullptr);
  *count = static_cast<unsigned>(Session::Get().visibility().gpus.size());
  return kSuccess;
}
NVML_API Return nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

NVML_API Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (!Session::Get().state()) return kUninitialized;
  const auto visibility = Session::Get().visibility();
  NVML_REQUIRE(device != nullptr && index < visibility.gpus.size());
  return GpuHandle(visibility.gpus[index], device);
}
NVML_API Return nvmlDeviceGetHandleByIndex(unsigned index, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_API Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(uuid != nullptr && device != nullptr);
  const std::string wanted = uuid;
  const bool mig = wanted.starts_with("MIG-");
  NVML_REQUIRE(mig || wanted.starts_with("GPU-"));
  const auto node = file->Snapshot();
  const auto visibility = Session::Get().visibility();
  for (const auto position : visibility.gpus) {
    const GpuState& gpu = node->gpus[position];
    if (!mig && wanted == gpu.uuid) return GpuHandle(position, device);
    if (!mig) continue;
    for (const auto& ref : VisibleMigDevices(gpu, visibility)) {
      const auto* instance = FindInstance(gpu, ref.instance_serial);
      if (MigUuid(gpu, *instance, *FindComputeInstance(*instance, ref.compute_serial)) != wanted) {
        continue;
      }
      *device = MigHandle(position, ref);
      return kSuccess;
    }
  }
  return kNotFound;
}

NVML_API Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(bus_id != nullptr && device != nullptr);
  const auto wanted = PciAddress::Parse(bus_id);
  NVML_REQUIRE(wanted.has_value());
  const auto node = file->Snapshot();
  for (const auto position : Session::Get().visibility().gpus) {
    if (AddressOf(node->gpus[position]) == *wanted) return GpuHandle(position, device);
  }
  return kNotFound;
}
NVML_API Return nvmlDeviceGetHandleByPciBusId(const char* bus_id, Device* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

NVML_API Return nvmlDeviceGetHandleBySerial(const char* serial, Device* device) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(serial != nullptr && device != nullptr);
  const auto node = file->Snapshot();
  for (const auto position : Session::Get().visibility().gpus) {
    if (std::strcmp(node->gpus[position].serial, serial) == 0) return GpuHandle(position, device);
  }
  return kNotFound;
}

NVML_API Return nvmlDeviceGetName(Device device, char* name, unsigned length) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  std::string text = target.gpu->name;
  if (target.compute != nullptr) text += " MIG " + MigProfileName(target);
  return CopyText(text, name, length);
}

NVML_API Return nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  return CopyText(target.compute != nullptr
                      ? MigUuid(*target.gpu, *target.instance, *target.compute)
                      : std::string(target.gpu->uuid),
                  uuid, length);
}

NVML_API Return nvmlDeviceGetIndex(Device device, unsigned* index) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(index != nullptr);
  const auto visibility = Session::Get().visibility();
  if (target.compute != nullptr) {
    const auto refs = VisibleMigDevices(*target.gpu, visibility);
    const auto found =
        std::ranges::find(refs, target.handle->compute_serial, &MigDeviceRef::compute_serial);
    if (found == refs.end()) return kNotFound;
    *index = static_cast<unsigned>(found - refs.begin());
    return kSuccess;
  }
  const auto found = std::ranges::find(visibility.gpus, target.handle->gpu);
  if (found == visibility.gpus.end()) return kNotFound;
  *index = static_cast<unsigned>(found - visibility.gpus.begin());
  return kSuccess;
}

NVML_API Return nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(minor != nullptr);
  if (target.compute != nullptr) return kNotSupported;
  *minor = target.gpu->minor_number;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetModuleId(Device device, unsigned* module) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(module != nullptr);
  *module = target.gpu->module_id;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetBrand(Device device, unsigned* brand) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(brand != nullptr);
  *brand = target.gpu->brand;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetArchitecture(Device device, unsigned* architecture) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(architecture != nullptr);
  *architecture = target.gpu->architecture;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(major != nullptr && minor != nullptr);
  *major = target.gpu->compute_major;
  *minor = target.gpu->compute_minor;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetSerial(Device device, char* serial, unsigned length) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  if (target.gpu->serial[0] == 0) return kNotSupported;
  return CopyText(target.gpu->serial, serial, length);
}

NVML_API Return nvmlDeviceGetBoardPartNumber(Device device, char* number, unsigned length) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  if (target.gpu->board_part_number[0] == 0) return kNotSupported;
  return CopyText(target.gpu->board_part_number, number, length);
}

NVML_API Return nvmlDeviceGetVbiosVersion(Device device, char* version, unsigned length) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  if (target.gpu->vbios_version[0] == 0) return kNotSupported;
  return CopyText(target.gpu->vbios_version, version, length);
}

NVML_API Return nvmlDeviceGetInforomImageVersion(Device device, char* version, unsigned length) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  if (target.gpu->inforom_version[0] == 0) return kNotSupported;
  return CopyText(target.gpu->inforom_version, version, length);
}

NVML_API Return nvmlDeviceGetBoardId(Device device, unsigned* board) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(board != nullptr);
  *board = target.gpu->pci_bus << 8 | target.gpu->pci_device;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetMultiGpuBoard(Device device, unsigned* multi) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(multi != nullptr);
  *multi = 0;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(pci != nullptr);
  const GpuState& gpu = *target.gpu;
  const PciAddress address = AddressOf(gpu);
  *pci = {};
  pci->domain = gpu.pci_domain;
  pci->bus = gpu.pci_bus;
  pci->device = gpu.pci_device;
  pci->pci_device_id = gpu.pci_device_id;
  pci->pci_subsystem_id = gpu.pci_subsystem_id;
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "%s", address.BusId().c_str());
  std::snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "%04X:%02X:%02X.%X",
                gpu.pci_domain & 0xffff, gpu.pci_bus & 0xff, gpu.pci_device & 0x1f,
                gpu.pci_function & 7);
  return kSuccess;
}
NVML_API Return nvmlDeviceGetPciInfo_v2(Device device, PciInfo* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}
NVML_API Return nvmlDeviceGetPciInfo(Device device, PciInfo* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}

NVML_API Return nvmlDeviceGetNumGpuCores(Device device, unsigned* cores) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(cores != nullptr);
  *cores = target.gpu->cores;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetMemoryBusWidth(Device device, unsigned* width) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(width != nullptr);
  *width = target.gpu->memory_bus_width;
  return kSuccess;
}
