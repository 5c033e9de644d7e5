// NVML's answers as a gpu::Inventory.
#include <algorithm>
#include <cstring>

#include "nvml/abi_metrics.h"
#include "nvml/library.h"

namespace pitcrew::nvml {
namespace {

using base::Observed;

// Absent for what a GPU or library cannot do, unknown for every other failure.
template <class T>
Observed<T> Observe(base::Result<T> result) {
  if (!result && result.error().code == base::Code::kUnsupported) return Observed<T>::Missing();
  if (!result) return Observed<T>::Unknown(std::move(result).error());
  return Observed<T>::Present(*std::move(result));
}

// The second version tells what the driver keeps for itself apart from what is used, as nvidia-smi
// shows it (real-gpus.md, further facts); drivers before 510 have only the first.
base::Result<gpu::Memory> ReadMemory(const Symbols& nvml, abi::Device handle) {
  abi::MemoryV2 apart{};
  apart.version = abi::VersionWord<abi::MemoryV2>(2);
  if (NVML_CALL(nvml, nvmlDeviceGetMemoryInfo_v2, "read the memory size", handle, &apart)) {
    return gpu::Memory{apart.total, apart.free, apart.used};
  }
  abi::Memory memory{};
  TRY(NVML_CALL(nvml, nvmlDeviceGetMemoryInfo, "read the memory size", handle, &memory));
  return gpu::Memory{memory.total, memory.free, memory.used};
}

base::Result<gpu::MigMode> ReadMigMode(const Symbols& nvml, abi::Device handle) {
  unsigned current = 0;
  unsigned pending = 0;
  TRY(NVML_CALL(nvml, nvmlDeviceGetMigMode, "read the MIG mode", handle, &current, &pending));
  return gpu::MigMode{current == abi::kFeatureEnabled, pending == abi::kFeatureEnabled};
}

base::Result<gpu::Fabric> ReadFabric(const Symbols& nvml, abi::Device handle) {
  gpu::Fabric fabric;
  const auto take = [&](const auto& info) {
    std::memcpy(fabric.cluster_uuid.data(), info.cluster_uuid, fabric.cluster_uuid.size());
    fabric.clique_id = info.clique_id;
    fabric.state = info.state;
    fabric.status = static_cast<std::uint32_t>(info.status);
  };
  if (nvml.nvmlDeviceGetGpuFabricInfo != nullptr) {
    abi::GpuFabricInfo info{};
    TRY(NVML_CALL(nvml, nvmlDeviceGetGpuFabricInfo, "read the NVLink fabric", handle, &info));
    take(info);
  } else {
    abi::GpuFabricInfoV2 info{};
    info.version = abi::kGpuFabricInfoV2;
    TRY(NVML_CALL(nvml, nvmlDeviceGetGpuFabricInfoV, "read the NVLink fabric", handle, &info));
    take(info);
  }
  return fabric;
}

base::Result<bool> ReadCoherent(const Symbols& nvml, abi::Device handle) {
  abi::AddressingMode mode{abi::kAddressingModeV1, 0};
  TRY(NVML_CALL(nvml, nvmlDeviceGetAddressingMode, "read the addressing mode", handle, &mode));
  return mode.value == abi::kAddressingModeAts;
}

// The one NUMA node that the GPU's memory is nearest to.
std::optional<int> ReadNumaNode(const Symbols& nvml, abi::Device handle) {
  unsigned long nodes[16] = {};
  if (!NVML_CALL(nvml, nvmlDeviceGetMemoryAffinity, "read the NUMA node", handle,
                 static_cast<unsigned>(std::size(nodes)), nodes, 0u)) {
    return std::nullopt;
  }
  std::optional<int> node;
  for (int bit = 0; bit < static_cast<int>(std::size(nodes)) * 64; ++bit) {
    if ((nodes[bit / 64] >> bit % 64 & 1) == 0) continue;
    if (node) return std::nullopt;  // spread over several
    node = bit;
  }
  return node;
}

base::Status ReadIdentity(const Symbols& nvml, abi::Device handle, gpu::Device& device) {
  const auto text = [&](auto function, std::string_view name, const char* what) {
    return ReadText([&](char* buffer, unsigned size) {
      return Call(function, name, what, handle, buffer, size);
    });
  };
  TRY_ASSIGN(device.uuid, text(nvml.nvmlDeviceGetUUID, "nvmlDeviceGetUUID", "read the UUID"));
  TRY_ASSIGN(device.name, text(nvml.nvmlDeviceGetName, "nvmlDeviceGetName", "read the name"));
  TRY(NVML_CALL(nvml, nvmlDeviceGetMinorNumber, "read the minor number", handle,
                &device.minor_number));
  abi::PciInfo pci{};
  TRY(NVML_CALL(nvml, nvmlDeviceGetPciInfo_v3, "read the PCI address", handle, &pci));
  pci.bus_id[sizeof(pci.bus_id) - 1] = 0;
  TRY_ASSIGN(device.pci, gpu::PciAddress::Parse(pci.bus_id));
  device.pci_device_id = pci.pci_device_id;
  device.pci_subsystem_id = pci.pci_subsystem_id;
  TRY(NVML_CALL(nvml, nvmlDeviceGetCudaComputeCapability, "read the compute capability", handle,
                &device.compute_capability.major, &device.compute_capability.minor));
  // What follows, old boards and drivers lack.
  device.serial =
      text(nvml.nvmlDeviceGetSerial, "nvmlDeviceGetSerial", "read the serial").value_or("");
  (void)NVML_CALL(nvml, nvmlDeviceGetBrand, "read the brand", handle, &device.brand);
  unsigned architecture = 0;
  if (NVML_CALL(nvml, nvmlDeviceGetArchitecture, "read the architecture", handle, &architecture)) {
    device.architecture = static_cast<gpu::Architecture>(architecture);
  }
  return {};
}

// Every profile that the GPU offers (feature-discovery.md section 15, "Listing profiles of a GPU").
std::vector<gpu::MigProfile> ReadProfiles(const Symbols& nvml, abi::Device handle,
                                          std::uint64_t total_memory) {
  std::vector<gpu::MigProfile> profiles;
  for (unsigned index = 0; index < gpu::kGpuInstanceProfileCount; ++index) {
    abi::GpuInstanceProfileInfo info{};
    if (!NVML_CALL(nvml, nvmlDeviceGetGpuInstanceProfileInfo, "read a MIG profile", handle, index,
                   &info)) {
      continue;
    }
    for (unsigned compute = 0; compute < gpu::kComputeInstanceProfileCount; ++compute) {
      if (!gpu::IsListedCombination(gpu::ComputeInstanceSlices(compute),
                                    gpu::GpuInstanceSlices(index))) {
        continue;
      }
      auto profile = gpu::NameMigProfile(index, compute, info.memory_size_mb, total_memory);
      // Two compute indices of the same size give the same name.
      if (profile && std::ranges::find(profiles, *profile) == profiles.end()) {
        profiles.push_back(*std::move(profile));
      }
    }
  }
  return profiles;
}

// The NVML profile indices of a GPU instance and a compute instance, found through the profiles'
// ids.
base::Result<std::pair<unsigned, unsigned>> FindProfileIndices(const Symbols& nvml,
                                                               abi::Device parent,
                                                               const gpu::MigDevice& device) {
  abi::GpuInstance instance = nullptr;
  TRY(NVML_CALL(nvml, nvmlDeviceGetGpuInstanceById, "find the GPU instance", parent,
                device.gpu_instance_id, &instance));
  abi::GpuInstanceInfo instance_info{};
  TRY(NVML_CALL(nvml, nvmlGpuInstanceGetInfo, "read the GPU instance", instance, &instance_info));
  abi::ComputeInstance compute = nullptr;
  TRY(NVML_CALL(nvml, nvmlGpuInstanceGetComputeInstanceById, "find the compute instance", instance,
                device.compute_instance_id, &compute));
  abi::ComputeInstanceInfo compute_info{};
  TRY(NVML_CALL(nvml, nvmlComputeInstanceGetInfo_v2, "read the compute instance", compute,
                &compute_info));
  for (unsigned index = 0; index < gpu::kGpuInstanceProfileCount; ++index) {
    abi::GpuInstanceProfileInfo info{};
    if (!NVML_CALL(nvml, nvmlDeviceGetGpuInstanceProfileInfo, "read a MIG profile", parent, index,
                   &info) ||
        info.id != instance_info.profile_id) {
      continue;
    }
    for (unsigned slot = 0; slot < gpu::kComputeInstanceProfileCount; ++slot) {
      abi::ComputeInstanceProfileInfo slot_info{};
      if (NVML_CALL(nvml, nvmlGpuInstanceGetComputeInstanceProfileInfo, "read a compute profile",
                    instance, slot, abi::kComputeEngineProfileShared, &slot_info) &&
          slot_info.id == compute_info.profile_id) {
        return std::pair{index, slot};
      }
    }
  }
  return base::Fail(base::Internal("MigProfileUnknown", "MIG device " + device.uuid +
                                                            " has a profile that NVML does "
                                                            "not list"));
}

base::Result<gpu::MigDevice> ReadMigDevice(const Symbols& nvml, abi::Device parent,
                                           abi::Device handle, unsigned index,
                                           std::uint64_t parent_memory) {
  gpu::MigDevice device;
  device.index = index;
  TRY_ASSIGN(device.uuid, ReadText([&](char* buffer, unsigned size) {
               return NVML_CALL(nvml, nvmlDeviceGetUUID, "read a MIG device's UUID", handle, buffer,
                                size);
             }));
  TRY(NVML_CALL(nvml, nvmlDeviceGetGpuInstanceId, "read the GPU instance id", handle,
                &device.gpu_instance_id));
  TRY(NVML_CALL(nvml, nvmlDeviceGetComputeInstanceId, "read the compute instance id", handle,
                &device.compute_instance_id));
  abi::DeviceAttributes attributes{};
  TRY(NVML_CALL(nvml, nvmlDeviceGetAttributes_v2, "read a MIG device's attributes", handle,
                &attributes));
  device.attributes = {attributes.multiprocessor_count,
                       attributes.shared_copy_engine_count,
                       attributes.shared_decoder_count,
                       attributes.shared_encoder_count,
                       attributes.shared_jpeg_count,
                       attributes.shared_ofa_count,
                       attributes.gpu_instance_slice_count,
                       attributes.compute_instance_slice_count,
                       attributes.memory_size_mb};
  TRY_ASSIGN(const auto indices, FindProfileIndices(nvml, parent, device));
  TRY_ASSIGN(device.profile, gpu::NameMigProfile(indices.first, indices.second,
                                                 attributes.memory_size_mb, parent_memory));
  device.memory = Observe(ReadMemory(nvml, handle));
  return device;
}

base::Status ReadMig(const Symbols& nvml, abi::Device handle, gpu::Device& device) {
  device.mig_mode = Observe(ReadMigMode(nvml, handle));
  if (const auto* error = device.mig_mode.error()) return base::Fail(*error);
  if (!device.IsMigCapable()) return {};
  if (!device.memory.is_present()) {
    return base::Fail(base::Unavailable("MemoryUnknown",
                                        "MIG profiles cannot be named without the GPU's memory"));
  }
  const std::uint64_t total = device.memory.value()->total;
  device.mig_profiles = ReadProfiles(nvml, handle, total);
  TRY(NVML_CALL(nvml, nvmlDeviceGetMaxMigDeviceCount, "count MIG devices", handle,
                &device.max_mig_devices));
  if (!device.IsMigEnabled()) return {};
  for (unsigned index = 0; index < device.max_mig_devices; ++index) {
    abi::Device mig = nullptr;
    const auto found = NVML_CALL(nvml, nvmlDeviceGetMigDeviceHandleByIndex, "list MIG devices",
                                 handle, index, &mig);
    if (!found) {
      // Both mean an empty slot (feature-discovery.md section 12).
      const auto& reason = found.error().reason;
      if (reason == "NotFound" || reason == "NvmlInvalidArgument") continue;
      return base::Fail(found.error());
    }
    TRY_ASSIGN(auto one, ReadMigDevice(nvml, handle, mig, index, total));
    device.mig_devices.push_back(std::move(one));
  }
  return {};
}

base::Status ReadDevice(const Symbols& nvml, gpu::Device& device) {
  abi::Device handle = nullptr;
  TRY(NVML_CALL(nvml, nvmlDeviceGetHandleByIndex_v2, "open the GPU", device.index, &handle));
  TRY(ReadIdentity(nvml, handle, device));
  device.memory = Observe(ReadMemory(nvml, handle));
  device.numa_node = ReadNumaNode(nvml, handle);
  device.fabric = Observe(ReadFabric(nvml, handle));
  device.coherent_memory = Observe(ReadCoherent(nvml, handle));
  return ReadMig(nvml, handle, device);
}

}  // namespace

base::Result<gpu::Inventory> LoadedLibrary::ReadInventory() {
  TRY_ASSIGN(auto inventory, ReadDriver());
  for (auto& device : inventory.devices) device = ReadDevice(device.index);
  return inventory;
}

base::Result<gpu::Inventory> LoadedLibrary::ReadDriver() {
  gpu::Inventory inventory;
  TRY_ASSIGN(inventory.driver_version, DriverVersion());
  inventory.cuda_version = CudaVersion().value_or(0);
  inventory.library_version =
      ReadText([&](char* buffer, unsigned size) {
        return NVML_CALL(symbols_, nvmlSystemGetNVMLVersion, "read NVML's version", buffer, size);
      }).value_or("");
  unsigned count = 0;
  TRY(NVML_CALL(symbols_, nvmlDeviceGetCount_v2, "count GPUs", &count));
  inventory.devices.resize(count);
  for (unsigned index = 0; index < count; ++index) inventory.devices[index].index = index;
  return inventory;
}

gpu::Device LoadedLibrary::ReadDevice(unsigned index) {
  gpu::Device device;
  device.index = index;
  if (auto status = nvml::ReadDevice(symbols_, device); !status) {
    device.fault = std::move(status).error().Within("GPU " + std::to_string(index));
  }
  return device;
}

}  // namespace pitcrew::nvml
