// The GPU in its machine: PCI, interrupts, CPUs, firmware; what a machine without external units
// has none of.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "gpu/pci_address.h"
#include "nvml/abi_metrics.h"
#include "simulation/nvml/session.h"
#include "simulation/state/identity.h"
#include "simulation/state/readings.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

constexpr unsigned kBitsOfWord = 64;

// The CPUs of a NUMA node: the node's CPUs are spread evenly. All of them for a GPU without a node.
struct CpuRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};
CpuRange CpusOf(const NodeState& node, std::int32_t numa) {
  if (numa < 0 || node.numa_nodes == 0 || numa >= static_cast<std::int32_t>(node.numa_nodes)) {
    return {0, node.cpus};
  }
  const auto position = static_cast<std::uint32_t>(numa);
  return {node.cpus * position / node.numa_nodes, node.cpus * (position + 1) / node.numa_nodes};
}

// Megabits a second of one lane (NVML_PCIE_LINK_MAX_SPEED_*).
unsigned LaneSpeed(std::uint32_t generation) {
  constexpr unsigned kSpeeds[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
  return generation < std::size(kSpeeds) ? kSpeeds[generation] : 0;
}

}  // namespace

NVML_API Return nvmlDeviceGetPciInfoExt(Device device, PciInfoExtV1* pci) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(pci != nullptr);
  if (pci->version != kPciInfoExtV1) return kArgumentVersionMismatch;
  const GpuState& gpu = *target.gpu;
  *pci = {kPciInfoExtV1,
          gpu.pci_domain,
          gpu.pci_bus,
          gpu.pci_device,
          gpu.pci_device_id,
          gpu.pci_subsystem_id,
          gpu.pci_class >> 16,
          gpu.pci_class >> 8 & 0xff,
          {}};
  const pitcrew::gpu::PciAddress address{gpu.pci_domain, static_cast<std::uint8_t>(gpu.pci_bus),
                                         static_cast<std::uint8_t>(gpu.pci_device),
                                         static_cast<std::uint8_t>(gpu.pci_function)};
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "%s", address.BusId().c_str());
  return kSuccess;
}

// The number of the speed, which is that of the generation.
NVML_API Return nvmlDeviceGetPcieLinkMaxSpeed(Device device, unsigned* speed) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(speed != nullptr);
  *speed = target.gpu->pcie_generation;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetPcieSpeed(Device device, unsigned* speed) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(speed != nullptr);
  *speed = LaneSpeed(PcieGeneration(*target.gpu));
  return kSuccess;
}

NVML_API Return nvmlDeviceGetIrqNum(Device device, unsigned* irq) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(irq != nullptr);
  constexpr unsigned kFirst = 128;  // behind those of other devices
  *irq = kFirst + target.gpu->minor_number;
  return kSuccess;
}

// Scope 0 is the NUMA node, 1 the socket; both are the same here.
NVML_API Return nvmlDeviceGetCpuAffinityWithinScope(Device device, unsigned size,
                                                    unsigned long* cpus, unsigned scope) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(size > 0 && cpus != nullptr && scope <= 1);
  std::fill_n(cpus, size, 0ul);
  const CpuRange range = CpusOf(*target.node, target.gpu->numa_node);
  for (std::uint32_t cpu = range.first; cpu < range.end && cpu / kBitsOfWord < size; ++cpu) {
    cpus[cpu / kBitsOfWord] |= 1ul << cpu % kBitsOfWord;
  }
  return kSuccess;
}
NVML_API Return nvmlDeviceGetCpuAffinity(Device device, unsigned size, unsigned long* cpus) {
  return nvmlDeviceGetCpuAffinityWithinScope(device, size, cpus, 0);
}

// The GPUs nearest to a CPU.
NVML_API Return nvmlSystemGetTopologyGpuSet(unsigned cpu, unsigned* count, Device* devices) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(count != nullptr);
  const auto node = file->Snapshot();
  NVML_REQUIRE(cpu < node->cpus);
  const unsigned room = *count;
  NVML_REQUIRE(room == 0 || devices != nullptr);
  unsigned found = 0;
  for (const auto position : Session::Get().visibility().gpus) {
    const CpuRange range = CpusOf(*node, node->gpus[position].numa_node);
    if (cpu < range.first || cpu >= range.end) continue;
    if (found < room) {
      devices[found] = Session::Get().HandleFor({Handle::Kind::kGpu, position, 0, 0});
    }
    ++found;
  }
  *count = room == 0 ? found : std::min(found, room);
  return kSuccess;
}

// Of racks, which are GPUs of Blackwell and later with a fabric cluster: the first tray of a
// chassis that is named by the cluster.
NVML_API Return nvmlDeviceGetPlatformInfo(Device device, PlatformInfoV2* info) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(info != nullptr);
  if (info->version != kPlatformInfoV2) return kArgumentVersionMismatch;
  constexpr std::uint32_t kBlackwell = 10;
  const auto& cluster = target.gpu->fabric_cluster;
  const bool in_rack = std::ranges::any_of(cluster, [](auto byte) { return byte != 0; });
  if (target.gpu->architecture < kBlackwell || !in_rack) return kNotSupported;
  *info = {};
  info->version = kPlatformInfoV2;
  const std::uint64_t guid = NamedNumber(target.gpu->uuid);
  std::memcpy(info->ib_guid, &guid, sizeof(guid));
  const std::string serial = NamedSerial(std::string(std::begin(cluster), std::end(cluster)));
  std::memcpy(info->chassis_serial_number, serial.data(),
              std::min(serial.size(), sizeof(info->chassis_serial_number)));
  constexpr unsigned char kFirstComputeSlot = 1;
  constexpr unsigned char kPeerIsSwitch = 1;
  info->slot_number = kFirstComputeSlot;
  info->tray_index = 0;
  info->host_id = 1;
  info->peer_type = kPeerIsSwitch;
  info->module_id = static_cast<unsigned char>(target.gpu->module_id);
  return kSuccess;
}

// Simulated GPUs run the firmware of their driver.
NVML_API Return nvmlDeviceGetGspFirmwareVersion(Device device, char* version) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  return CopyText(target.node->driver_version, version, kVersionBufferSize);
}
NVML_API Return nvmlDeviceGetGspFirmwareMode(Device device, unsigned* enabled,
                                             unsigned* by_default) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(enabled != nullptr && by_default != nullptr);
  *enabled = *by_default = kFeatureEnabled;
  return kSuccess;
}

// Objects: 0 OEM, 1 ECC, 2 power management, 3 memory encryption; the last two are not on these
// boards.
NVML_API Return nvmlDeviceGetInforomVersion(Device device, unsigned object, char* version,
                                            unsigned length) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(object <= 3 && version != nullptr);
  if (object > 1) return kNotSupported;
  const char* text = object == 0 ? target.gpu->inforom_oem : target.gpu->inforom_ecc;
  if (text[0] == 0) return kNotSupported;
  return CopyText(text, version, length);
}

// 0 is what an H200 says.
NVML_API Return nvmlDeviceGetInforomConfigurationChecksum(Device device, unsigned* checksum) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(checksum != nullptr);
  *checksum = 0;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetDefaultEccMode(Device device, unsigned* mode) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(mode != nullptr);
  if (target.gpu->ecc_supported == 0) return kNotSupported;
  *mode = kFeatureEnabled;
  return kSuccess;
}

// "r580_00" of 580.95.05: the branch's first release, which a version does not tell (580.159.04
// says r582_49).
NVML_API Return nvmlSystemGetDriverBranch(SystemDriverBranchInfoV1* info, unsigned length) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(info != nullptr);
  if (info->version != kSystemDriverBranchInfoV1) return kArgumentVersionMismatch;
  const std::string version = file->Snapshot()->driver_version;
  return CopyText("r" + version.substr(0, version.find('.')) + "_00", info->branch,
                  std::min(length, kVersionBufferSize));
}

// S-class units and excluded GPUs: none.
NVML_API Return nvmlUnitGetCount(unsigned* count) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(count != nullptr);
  *count = 0;
  return kSuccess;
}
NVML_API Return nvmlGetExcludedDeviceCount(unsigned* count) {
  if (!Session::Get().state()) return kUninitialized;
  NVML_REQUIRE(count != nullptr);
  *count = 0;
  return kSuccess;
}
NVML_API Return nvmlGetExcludedDeviceInfoByIndex(unsigned, void*) {
  return Session::Get().state() ? kInvalidArgument : kUninitialized;
}

// No simulated GPU is a virtual one, so there is nothing to be licensed.
NVML_API Return nvmlDeviceGetGridLicensableFeatures_v4(Device device,
                                                       GridLicensableFeatures* features) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(features != nullptr);
  *features = {};
  return kSuccess;
}
