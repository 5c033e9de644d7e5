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

// One field value; nullopt when the GPU does not have it.
std::optional<unsigned> Field(const Symbols& nvml, abi::Device device, unsigned id) {
  abi::FieldValue value{};
  value.field_id = id;
  if (!NVML_CALL(nvml, nvmlDeviceGetFieldValues, "read a field value", device, 1, &value) ||
      value.nvml_return != abi::kSuccess) {
    return std::nullopt;
  }
  return value.value.as_unsigned;
}

}  // namespace

std::string_view ToString(RecoveryAction action) {
  switch (action) {
    case RecoveryAction::kNone:
      return "nothing";
    case RecoveryAction::kResetGpu:
      return "reset the GPU";
    case RecoveryAction::kRebootNode:
      return "restart the node";
    case RecoveryAction::kDrainPeers:
      return "drain what uses peer-to-peer";
    case RecoveryAction::kDrainAndReset:
      return "drain the GPU and reset it";
  }
  return "see the driver's documentation";
}

base::Result<Condition> LoadedLibrary::ReadCondition(std::string_view device_uuid) {
  TRY(Probe(device_uuid));
  TRY_ASSIGN(const abi::Device device, FindDevice(device_uuid));
  Condition condition;
  if (const auto action = Field(symbols_, device, abi::field::kGetGpuRecoveryAction)) {
    condition.recovery_action = static_cast<RecoveryAction>(*action);
  }
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (NVML_CALL(symbols_, nvmlDeviceGetRemappedRows, "read remapped rows", device, &correctable,
                &uncorrectable, &pending, &failed)) {
    condition.remap_pending = pending != 0;
    condition.remap_failed = failed != 0;
  }
  return condition;
}

base::Result<gpu::Topology> LoadedLibrary::ReadTopology(const gpu::Inventory& inventory) {
  return CollectTopology(inventory, [&](unsigned from, const std::vector<unsigned>& to) {
    return ReadConnections(inventory, from, to);
  });
}

base::Result<std::vector<gpu::Connection>> LoadedLibrary::ReadConnections(
    const gpu::Inventory& inventory, unsigned from, const std::vector<unsigned>& to) {
  const auto& devices = inventory.devices;
  TRY_ASSIGN(const abi::Device first, FindDevice(devices[from].uuid));
  TRY_ASSIGN(const auto links, ReadLinks(symbols_, first));
  std::vector<gpu::Connection> connections;
  for (const unsigned other : to) {
    TRY_ASSIGN(const abi::Device second, FindDevice(devices[other].uuid));
    unsigned level = 0;
    TRY(NVML_CALL(symbols_, nvmlDeviceGetTopologyCommonAncestor, "read the topology", first, second,
                  &level));
    gpu::Connection connection{from, other, static_cast<gpu::TopologyLevel>(level), 0};
    for (const auto& end : links) connection.nvlinks += end == devices[other].pci ? 1 : 0;
    connections.push_back(connection);
  }
  return connections;
}

base::Result<gpu::Topology> CollectTopology(const gpu::Inventory& inventory,
                                            const ReadConnectionsOf& read) {
  std::vector<unsigned> readable;
  for (unsigned position = 0; position < inventory.devices.size(); ++position) {
    const auto& device = inventory.devices[position];
    if (!device.fault && !device.uuid.empty()) readable.push_back(position);
  }
  gpu::Topology topology;
  std::optional<base::Error> first_error;
  bool any = readable.size() < 2;
  for (const unsigned from : readable) {
    // One pair at a time where all together fail, so that a GPU which has just gone costs the
    // others nothing.
    std::vector<unsigned> others = readable;
    std::erase(others, from);
    auto connections = read(from, others);
    if (!connections) {
      if (!first_error) first_error = connections.error();
      connections = std::vector<gpu::Connection>();
      for (const unsigned to : others) {
        if (auto pair = read(from, {to})) connections->push_back(pair->front());
      }
    }
    any = any || !connections->empty();
    topology.connections.insert(topology.connections.end(), connections->begin(),
                                connections->end());
  }
  if (!any) return base::Fail(*first_error);
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
