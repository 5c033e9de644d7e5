#include "tests/support/inventory_yaml.h"

#include <string>

namespace pitcrew::test_support {
namespace {

using base::Observed;
using base::Result;
using codec::Json;

template <class T>
T Get(const Json& object, const char* name, T fallback) {
  return object.contains(name) ? object.at(name).get<T>() : fallback;
}

Observed<gpu::Memory> MemoryOf(const Json& entry) {
  if (!entry.contains("memory_mib")) return Observed<gpu::Memory>::Missing();
  return Observed<gpu::Memory>::Present(
      {.total = entry.at("memory_mib").get<std::uint64_t>() << 20U, .free = 0, .used = 0});
}

gpu::MigAttributes AttributesOf(const Json& entry) {
  gpu::MigAttributes attributes;
  attributes.multiprocessor_count = Get(entry, "multiprocessor_count", 0U);
  attributes.shared_copy_engine_count = Get(entry, "shared_copy_engine_count", 0U);
  attributes.shared_decoder_count = Get(entry, "shared_decoder_count", 0U);
  attributes.shared_encoder_count = Get(entry, "shared_encoder_count", 0U);
  attributes.shared_jpeg_count = Get(entry, "shared_jpeg_count", 0U);
  attributes.shared_ofa_count = Get(entry, "shared_ofa_count", 0U);
  attributes.gpu_instance_slice_count = Get(entry, "gpu_instance_slice_count", 0U);
  attributes.compute_instance_slice_count = Get(entry, "compute_instance_slice_count", 0U);
  attributes.memory_mib = Get(entry, "memory_mib", std::uint64_t{0});
  return attributes;
}

Result<gpu::MigDevice> MigDeviceOf(const Json& entry, unsigned position) {
  gpu::MigDevice device;
  device.index = Get(entry, "index", position);
  device.uuid = Get(entry, "uuid", std::string());
  device.gpu_instance_id = Get(entry, "gpu_instance", 0U);
  device.compute_instance_id = Get(entry, "compute_instance", 0U);
  TRY_ASSIGN(device.profile, gpu::MigProfile::Parse(Get(entry, "profile", std::string())));
  if (entry.contains("attributes")) device.attributes = AttributesOf(entry.at("attributes"));
  device.memory = MemoryOf(entry);
  return device;
}

gpu::Fabric FabricOf(const Json& entry) {
  gpu::Fabric fabric;
  const auto hex = Get(entry, "cluster_uuid", std::string());
  for (std::size_t i = 0; i < fabric.cluster_uuid.size() && 2 * i + 1 < hex.size(); ++i) {
    fabric.cluster_uuid[i] =
        static_cast<std::uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  fabric.clique_id = Get(entry, "clique", 0U);
  fabric.state = static_cast<std::uint8_t>(Get(entry, "state", 0U));
  fabric.status = Get(entry, "status", 0U);
  return fabric;
}

Result<gpu::Device> DeviceOf(const Json& entry, unsigned position) {
  gpu::Device device;
  device.index = Get(entry, "index", position);
  device.minor_number = Get(entry, "minor_number", position);
  device.uuid = Get(entry, "uuid", std::string());
  device.name = Get(entry, "name", std::string());
  device.memory = MemoryOf(entry);
  const auto capability = Get(entry, "compute_capability", std::string());
  if (const auto dot = capability.find('.'); dot != std::string::npos) {
    device.compute_capability = {.major = std::stoi(capability.substr(0, dot)),
                                 .minor = std::stoi(capability.substr(dot + 1))};
  }
  if (entry.contains("pci")) {
    TRY_ASSIGN(device.pci, gpu::PciAddress::Parse(entry.at("pci").get<std::string>()));
  }
  if (entry.contains("mig")) {
    const bool enabled = entry.at("mig") == "enabled";
    device.mig_mode = Observed<gpu::MigMode>::Present({.current = enabled, .pending = enabled});
  }
  if (entry.contains("mig_devices")) {
    for (const auto& part : entry.at("mig_devices")) {
      TRY_ASSIGN(auto mig_device,
                 MigDeviceOf(part, static_cast<unsigned>(device.mig_devices.size())));
      device.mig_devices.push_back(std::move(mig_device));
    }
  }
  if (entry.contains("fabric")) {
    device.fabric = Observed<gpu::Fabric>::Present(FabricOf(entry.at("fabric")));
  }
  if (entry.contains("fault")) {
    device.fault = base::Unavailable(entry.at("fault").get<std::string>(), "cannot be read");
  }
  return device;
}

}  // namespace

Result<gpu::Inventory> InventoryFrom(const Json& document) {
  gpu::Inventory inventory;
  inventory.driver_version = Get(document, "driver_version", std::string("580.95.05"));
  inventory.cuda_version = Get(document, "cuda_version", 13000);
  if (!document.contains("devices")) return inventory;
  for (const auto& entry : document.at("devices")) {
    TRY_ASSIGN(auto device, DeviceOf(entry, static_cast<unsigned>(inventory.devices.size())));
    inventory.devices.push_back(std::move(device));
  }
  return inventory;
}

}  // namespace pitcrew::test_support
