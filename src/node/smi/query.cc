// --query-gpu and -q.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "base/strings.h"
#include "node/smi/views.h"

namespace pitcrew::node::smi {
namespace {

constexpr std::string_view kNoAnswer = "[N/A]";

struct Cell {
  std::string value;
  std::string_view unit;
};

struct Context {
  const Snapshot& snapshot;
  const GpuView& view;
  std::string_view time;
};

using Read = Cell (*)(const Context&);

struct Field {
  std::string_view name;
  std::string_view other;  // an alias, or empty
  std::string_view unit;   // in the header
  std::string_view label;  // in -q; empty: not shown there
  Read read;
};

template <class T>
Cell Number(const std::optional<T>& value, std::string_view unit = "") {
  if (!value) return {std::string(kNoAnswer), ""};
  return {fmt::format("{}", *value), unit};
}

Cell Enabled(const std::optional<bool>& value) {
  if (!value) return {std::string(kNoAnswer), ""};
  return {*value ? "Enabled" : "Disabled", ""};
}

Cell Watt(const std::optional<unsigned>& milliwatt) {
  if (!milliwatt) return {std::string(kNoAnswer), ""};
  return {fmt::format("{:.2f}", *milliwatt / 1000.0), "W"};
}

Cell Mib(const Context& c, std::uint64_t gpu::Memory::* part) {
  const auto* memory = c.view.device.memory.value();
  if (memory == nullptr) return {std::string(kNoAnswer), ""};
  return {fmt::format("{}", memory->*part >> 20), "MiB"};
}

Cell Mig(const Context& c, bool gpu::MigMode::* part) {
  const auto* mode = c.view.device.mig_mode.value();
  if (mode == nullptr) return {std::string(kNoAnswer), ""};
  return {mode->*part ? "Enabled" : "Disabled", ""};
}

Cell Text(std::string text) { return {std::move(text), ""}; }

Cell ComputeMode(const Context& c) {
  const auto& mode = c.view.readings.compute_mode;
  if (!mode) return Text(std::string(kNoAnswer));
  if (*mode == 0) return Text("Default");
  return Text(*mode == 2 ? "Prohibited" : "Exclusive_Process");
}

// nvidia-smi's field names.
constexpr auto kFields = std::to_array<Field>({
    {"timestamp", "", "", "", [](const Context& c) { return Text(std::string(c.time)); }},
    {"index", "", "", "",
     [](const Context& c) { return Text(fmt::format("{}", c.view.device.index)); }},
    {"count", "", "", "",
     [](const Context& c) { return Text(fmt::format("{}", c.snapshot.gpus.size())); }},
    {"name", "gpu_name", "", "Product Name",
     [](const Context& c) { return Text(c.view.device.name); }},
    {"architecture", "", "", "Product Architecture",
     [](const Context& c) { return Text(std::string(gpu::ToString(c.view.device.architecture))); }},
    {"uuid", "gpu_uuid", "", "GPU UUID", [](const Context& c) { return Text(c.view.device.uuid); }},
    {"serial", "gpu_serial", "", "Serial Number",
     [](const Context& c) {
       return Text(c.view.device.serial.empty() ? std::string(kNoAnswer) : c.view.device.serial);
     }},
    {"minor_number", "", "", "Minor Number",
     [](const Context& c) { return Text(fmt::format("{}", c.view.device.minor_number)); }},
    {"pci.bus_id", "gpu_bus_id", "", "Bus Id",
     [](const Context& c) { return Text(c.view.device.pci.BusId()); }},
    {"pci.device_id", "", "", "Device Id",
     [](const Context& c) { return Text(fmt::format("0x{:08X}", c.view.device.pci_device_id)); }},
    {"pci.sub_device_id", "", "", "Sub System Id",
     [](const Context& c) {
       return Text(fmt::format("0x{:08X}", c.view.device.pci_subsystem_id));
     }},
    {"driver_version", "", "", "",
     [](const Context& c) { return Text(c.snapshot.driver_version); }},
    {"compute_cap", "", "", "Compute Capability",
     [](const Context& c) { return Text(c.view.device.compute_capability.ToString()); }},
    {"persistence_mode", "", "", "Persistence Mode",
     [](const Context& c) { return Enabled(c.view.readings.persistence_mode); }},
    {"display_active", "", "", "Display Active",
     [](const Context& c) { return Enabled(c.view.readings.display_active); }},
    {"mig.mode.current", "", "", "MIG Mode, current",
     [](const Context& c) { return Mig(c, &gpu::MigMode::current); }},
    {"mig.mode.pending", "", "", "MIG Mode, pending",
     [](const Context& c) { return Mig(c, &gpu::MigMode::pending); }},
    {"compute_mode", "", "", "Compute Mode", ComputeMode},
    {"fan.speed", "", "%", "Fan Speed",
     [](const Context& c) { return Number(c.view.readings.fan_percent, "%"); }},
    {"pstate", "", "", "Performance State",
     [](const Context& c) {
       const auto& state = c.view.readings.performance_state;
       return Text(state ? fmt::format("P{}", *state) : std::string(kNoAnswer));
     }},
    {"memory.total", "", "MiB", "FB Memory, total",
     [](const Context& c) { return Mib(c, &gpu::Memory::total); }},
    {"memory.used", "", "MiB", "FB Memory, used",
     [](const Context& c) { return Mib(c, &gpu::Memory::used); }},
    {"memory.free", "", "MiB", "FB Memory, free",
     [](const Context& c) { return Mib(c, &gpu::Memory::free); }},
    {"utilization.gpu", "", "%", "Utilization, GPU",
     [](const Context& c) { return Number(c.view.readings.gpu_utilization_percent, "%"); }},
    {"utilization.memory", "", "%", "Utilization, memory",
     [](const Context& c) { return Number(c.view.readings.memory_utilization_percent, "%"); }},
    {"temperature.gpu", "", "", "GPU Current Temp",
     [](const Context& c) { return Number(c.view.readings.temperature_celsius); }},
    {"power.draw", "", "W", "Power Draw",
     [](const Context& c) { return Watt(c.view.readings.power_milliwatt); }},
    {"power.limit", "enforced.power.limit", "W", "Power Limit",
     [](const Context& c) { return Watt(c.view.readings.power_limit_milliwatt); }},
    {"clocks.sm", "clocks.current.sm", "MHz", "Clocks, SM",
     [](const Context& c) { return Number(c.view.readings.sm_clock_mhz, "MHz"); }},
    {"clocks.mem", "clocks.current.memory", "MHz", "Clocks, memory",
     [](const Context& c) { return Number(c.view.readings.memory_clock_mhz, "MHz"); }},
    {"ecc.mode.current", "", "", "ECC Mode",
     [](const Context& c) { return Enabled(c.view.readings.ecc_mode); }},
    {"ecc.errors.uncorrected.volatile.total", "", "", "Uncorrectable ECC errors, volatile",
     [](const Context& c) { return Number(c.view.readings.ecc_uncorrected_volatile); }},
});

const Field* FindField(std::string_view name) {
  const auto found = std::ranges::find_if(kFields, [&](const Field& field) {
    return field.name == name || (!field.other.empty() && field.other == name);
  });
  return found == kFields.end() ? nullptr : &*found;
}

std::string Show(const Cell& cell, bool units) {
  if (!units || cell.unit.empty()) return cell.value;
  return cell.value + " " + std::string(cell.unit);
}

}  // namespace

std::vector<std::string> QueryFields() {
  std::vector<std::string> names;
  for (const auto& field : kFields) names.emplace_back(field.name);
  return names;
}

base::Result<CsvFormat> ParseFormat(std::string_view text) {
  CsvFormat format;
  bool csv = false;
  for (const auto& word : base::SplitTrimmed(text, ',')) {
    if (word == "csv") {
      csv = true;
    } else if (word == "noheader") {
      format.header = false;
    } else if (word == "nounits") {
      format.units = false;
    } else {
      csv = false;
      break;
    }
  }
  if (csv) return format;
  return base::Fail(base::Invalid("UnknownFormat",
                                  "--format must be csv, with ,noheader and ,nounits behind it if "
                                  "wanted"));
}

base::Result<std::string> RenderQuery(const Snapshot& snapshot, std::string_view fields,
                                      const CsvFormat& format, std::string_view time) {
  std::vector<const Field*> wanted;
  std::vector<std::string> header;
  for (const auto& name : base::SplitTrimmed(fields, ',')) {
    const Field* field = FindField(name);
    if (field == nullptr) {
      return base::Fail(
          base::Invalid("UnknownField", "Field \"" + name + "\" is not a valid field to query"));
    }
    wanted.push_back(field);
    const bool unit = format.units && !field->unit.empty();
    header.push_back(unit ? fmt::format("{} [{}]", name, field->unit) : name);
  }
  std::string text;
  if (format.header) text += base::Join(header, ", ") + "\n";
  for (const auto& view : snapshot.gpus) {
    std::vector<std::string> cells;
    for (const Field* field : wanted) {
      const bool lost = view.device.fault && field->name != "index";
      cells.push_back(lost ? "[" + view.device.fault->reason + "]"
                           : Show(field->read({snapshot, view, time}), format.units));
    }
    text += base::Join(cells, ", ") + "\n";
  }
  return text;
}

std::string RenderDetails(const Snapshot& snapshot, std::string_view time) {
  const auto line = [](int indent, std::string_view key, std::string_view value) {
    return fmt::format("{:{}}{:<{}} : {}\n", "", indent, key, 50 - indent, value);
  };
  std::string text = "\n==============NVSMI LOG==============\n\n";
  text += line(0, "Timestamp", time);
  text += line(0, "Driver Version", snapshot.driver_version);
  text += line(0, "CUDA Version", snapshot.cuda_version) + "\n";
  text += line(0, "Attached GPUs", fmt::format("{}", snapshot.gpus.size()));
  for (const auto& view : snapshot.gpus) {
    if (view.device.fault) {
      text += line(0, fmt::format("GPU {}", view.device.index), view.device.fault->ToString());
      continue;
    }
    text += fmt::format("GPU {}\n", view.device.pci.BusId());
    for (const auto& field : kFields) {
      if (field.label.empty()) continue;
      text += line(4, field.label, Show(field.read({snapshot, view, time}), true));
    }
    for (const auto& mig : view.device.mig_devices) {
      text += line(4, fmt::format("MIG Device {}", mig.index),
                   fmt::format("{} {} (GPU instance {}, compute instance {})", mig.profile.Name(),
                               mig.uuid, mig.gpu_instance_id, mig.compute_instance_id));
    }
    for (const auto& process : view.readings.processes) {
      text += line(4, fmt::format("Process {}", process.pid),
                   fmt::format("{} {} MiB", process.name, process.used_memory >> 20));
    }
  }
  return text + "\n";
}

}  // namespace pitcrew::node::smi
