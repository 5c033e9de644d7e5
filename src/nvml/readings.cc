// Topology and what moves over time.
#include "nvml/library.h"

namespace pitcrew::nvml {
namespace {

// NVLinks of `handle` that are up, by the far end's address.
base::Result<std::vector<gpu::PciAddress>> ReadLinks(const Symbols& nvml, abi::Device handle) {
  std::vector<gpu::PciAddress> ends;
  for (unsigned link = 0; link < abi::kNvLinkCount; ++link) {
    // Not supported and invalid argument mean that there is no such link (device-plugin.md 15.3).
    const auto skip = [](const base::Error& error) {
      return error.code == base::Code::kUnsupported || error.reason == "NvmlInvalidArgument";
    };
    unsigned state = abi::kFeatureDisabled;
    const auto read =
        NVML_CALL(nvml, nvmlDeviceGetNvLinkState, "read an NVLink's state", handle, link, &state);
    if (!read && !skip(read.error())) return base::Fail(read.error());
    if (!read || state != abi::kFeatureEnabled) continue;
    abi::PciInfo pci{};
    const auto remote = NVML_CALL(nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2,
                                  "read an NVLink's far end", handle, link, &pci);
    if (!remote && !skip(remote.error())) return base::Fail(remote.error());
    if (!remote) continue;
    pci.bus_id[sizeof(pci.bus_id) - 1] = 0;
    if (auto address = gpu::PciAddress::Parse(pci.bus_id)) ends.push_back(*address);
  }
  return ends;
}

// A reading, or nullopt when it cannot be had.
template <class Function>
std::optional<unsigned> Number(Function* function, abi::Device device) {
  unsigned value = 0;
  if (function == nullptr || function(device, &value) != abi::kSuccess) return std::nullopt;
  return value;
}

std::optional<bool> Flag(const std::optional<unsigned>& value) {
  if (!value) return std::nullopt;
  return *value == abi::kFeatureEnabled;
}

using ListFunction = abi::Return(abi::Device, unsigned*, abi::ProcessInfo*);

void AppendProcesses(ListFunction* list, abi::Device device, bool graphics,
                     std::vector<Process>& processes) {
  if (list == nullptr) return;
  std::vector<abi::ProcessInfo> infos(64);
  unsigned count = 0;
  abi::Return code = abi::kInsufficientSize;
  // The list may grow between two calls.
  for (int attempt = 0; attempt < 4 && code == abi::kInsufficientSize; ++attempt) {
    if (count > infos.size()) infos.resize(count + 16);
    count = static_cast<unsigned>(infos.size());
    code = list(device, &count, infos.data());
  }
  if (code != abi::kSuccess) return;
  for (unsigned i = 0; i < count; ++i) {
    // NVML says "not available" with all bits set.
    const auto memory = infos[i].used_gpu_memory == ~0ull ? 0 : infos[i].used_gpu_memory;
    processes.push_back({infos[i].pid, memory, infos[i].gpu_instance_id,
                         infos[i].compute_instance_id, graphics, ""});
  }
}

}  // namespace

base::Result<gpu::Topology> LoadedLibrary::ReadTopology(const gpu::Inventory& inventory) {
  gpu::Topology topology;
  const auto& devices = inventory.devices;
  for (unsigned a = 0; a < devices.size(); ++a) {
    TRY_ASSIGN(const abi::Device first, FindDevice(devices[a].uuid));
    TRY_ASSIGN(const auto links, ReadLinks(symbols_, first));
    for (unsigned b = 0; b < devices.size(); ++b) {
      if (a == b) continue;
      TRY_ASSIGN(const abi::Device second, FindDevice(devices[b].uuid));
      unsigned level = 0;
      TRY(NVML_CALL(symbols_, nvmlDeviceGetTopologyCommonAncestor, "read the topology", first,
                    second, &level));
      gpu::Connection connection{a, b, static_cast<gpu::TopologyLevel>(level), 0};
      for (const auto& end : links) connection.nvlinks += end == devices[b].pci ? 1 : 0;
      topology.connections.push_back(connection);
    }
  }
  return topology;
}

base::Result<Readings> LoadedLibrary::ReadReadings(std::string_view device_uuid) {
  TRY(Probe(device_uuid));
  TRY_ASSIGN(const abi::Device device, FindDevice(device_uuid));
  const Symbols& nvml = symbols_;
  Readings readings;
  unsigned value = 0;
  if (NVML_CALL(nvml, nvmlDeviceGetTemperature, "read the temperature", device, 0u, &value)) {
    readings.temperature_celsius = value;
  }
  if (NVML_CALL(nvml, nvmlDeviceGetClockInfo, "read a clock", device, abi::kClockSm, &value)) {
    readings.sm_clock_mhz = value;
  }
  if (NVML_CALL(nvml, nvmlDeviceGetClockInfo, "read a clock", device, abi::kClockMemory, &value)) {
    readings.memory_clock_mhz = value;
  }
  abi::Utilization utilization{};
  if (NVML_CALL(nvml, nvmlDeviceGetUtilizationRates, "read the utilisation", device,
                &utilization)) {
    readings.gpu_utilization_percent = utilization.gpu;
    readings.memory_utilization_percent = utilization.memory;
  }
  readings.fan_percent = Number(nvml.nvmlDeviceGetFanSpeed, device);
  readings.power_milliwatt = Number(nvml.nvmlDeviceGetPowerUsage, device);
  readings.power_limit_milliwatt = Number(nvml.nvmlDeviceGetEnforcedPowerLimit, device);
  readings.performance_state = Number(nvml.nvmlDeviceGetPerformanceState, device);
  readings.compute_mode = Number(nvml.nvmlDeviceGetComputeMode, device);
  readings.persistence_mode = Flag(Number(nvml.nvmlDeviceGetPersistenceMode, device));
  readings.display_active = Flag(Number(nvml.nvmlDeviceGetDisplayActive, device));
  unsigned pending = 0;
  if (NVML_CALL(nvml, nvmlDeviceGetEccMode, "read the ECC mode", device, &value, &pending)) {
    readings.ecc_mode = value == abi::kFeatureEnabled;
  }
  unsigned long long errors = 0;
  if (NVML_CALL(nvml, nvmlDeviceGetTotalEccErrors, "read ECC errors", device, 1u, 0u, &errors)) {
    readings.ecc_uncorrected_volatile = errors;
  }
  AppendProcesses(nvml.nvmlDeviceGetComputeRunningProcesses_v3, device, false, readings.processes);
  AppendProcesses(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, device, true, readings.processes);
  for (auto& process : readings.processes) {
    char name[256] = {};
    if (NVML_CALL(nvml, nvmlSystemGetProcessName, "read a process's name", process.pid, name,
                  static_cast<unsigned>(sizeof(name) - 1))) {
      process.name = name;
    }
  }
  return readings;
}

}  // namespace pitcrew::nvml
