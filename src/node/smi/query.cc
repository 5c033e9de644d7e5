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
  return {fmt::format("{}", WholeMib(memory->*part)), "MiB"};
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
    {"timestamp", "", "", [](const Context& c) { return Text(std::string(c.time)); }},
    {"index", "", "",
     [](const Context& c) { return Text(fmt::format("{}", c.view.device.index)); }},
    {"count", "", "",
     [](const Context& c) { return Text(fmt::format("{}", c.snapshot.gpus.size())); }},
    {"name", "gpu_name", "", [](const Context& c) { return Text(c.view.device.name); }},
    {"architecture", "", "",
     [](const Context& c) { return Text(std::string(gpu::ToString(c.view.device.architecture))); }},
    {"uuid", "gpu_uuid", "", [](const Context& c) { return Text(c.view.device.uuid); }},
    {"serial", "gpu_serial", "",
     [](const Context& c) {
       return Text(c.view.device.serial.empty() ? std::string(kNoAnswer) : c.view.device.serial);
     }},
    {"minor_number", "", "",
     [](const Context& c) { return Text(fmt::format("{}", c.view.device.minor_number)); }},
    {"pci.bus_id", "gpu_bus_id", "",
     [](const Context& c) { return Text(c.view.device.pci.BusId()); }},
    {"pci.device_id", "", "",
     [](const Context& c) { return Text(fmt::format("0x{:08X}", c.view.device.pci_device_id)); }},
    {"pci.sub_device_id", "", "",
     [](const Context& c) {
       return Text(fmt::format("0x{:08X}", c.view.device.pci_subsystem_id));
     }},
    {"driver_version", "", "", [](const Context& c) { return Text(c.snapshot.driver_version); }},
    {"compute_cap", "", "",
     [](const Context& c) { return Text(c.view.device.compute_capability.ToString()); }},
    {"persistence_mode", "", "",
     [](const Context& c) { return Enabled(c.view.readings.persistence_mode); }},
    {"display_active", "", "",
     [](const Context& c) { return Enabled(c.view.readings.display_active); }},
    {"mig.mode.current", "", "", [](const Context& c) { return Mig(c, &gpu::MigMode::current); }},
    {"mig.mode.pending", "", "", [](const Context& c) { return Mig(c, &gpu::MigMode::pending); }},
    {"compute_mode", "", "", ComputeMode},
    {"fan.speed", "", "%",
     [](const Context& c) { return Number(c.view.readings.fan_percent, "%"); }},
    {"pstate", "", "",
     [](const Context& c) {
       const auto& state = c.view.readings.performance_state;
       return Text(state ? fmt::format("P{}", *state) : std::string(kNoAnswer));
     }},
    {"memory.total", "", "MiB", [](const Context& c) { return Mib(c, &gpu::Memory::total); }},
    {"memory.used", "", "MiB", [](const Context& c) { return Mib(c, &gpu::Memory::used); }},
    {"memory.free", "", "MiB", [](const Context& c) { return Mib(c, &gpu::Memory::free); }},
    {"utilization.gpu", "", "%",
     [](const Context& c) { return Number(c.view.readings.gpu_utilization_percent, "%"); }},
    {"utilization.memory", "", "%",
     [](const Context& c) { return Number(c.view.readings.memory_utilization_percent, "%"); }},
    {"temperature.gpu", "", "",
     [](const Context& c) { return Number(c.view.readings.temperature_celsius); }},
    {"power.draw", "", "W", [](const Context& c) { return Watt(c.view.readings.power_milliwatt); }},
    {"power.limit", "enforced.power.limit", "W",
     [](const Context& c) { return Watt(c.view.readings.power_limit_milliwatt); }},
    {"clocks.sm", "clocks.current.sm", "MHz",
     [](const Context& c) { return Number(c.view.readings.sm_clock_mhz, "MHz"); }},
    {"clocks.mem", "clocks.current.memory", "MHz",
     [](const Context& c) { return Number(c.view.readings.memory_clock_mhz, "MHz"); }},
    {"ecc.mode.current", "", "",
     [](const Context& c) { return Enabled(c.view.readings.ecc_mode); }},
    {"ecc.errors.uncorrected.volatile.total", "", "",
     [](const Context& c) { return Number(c.view.readings.ecc_uncorrected_volatile); }},
});

// Lines of -q: nvidia-smi's keys, in its order, by the field that has the value. A section is a key
// without a value. Two lines it does not have: Compute Capability, and the sum of ECC errors.
struct Detail {
  std::string_view section;
  std::string_view key;
  std::string_view field;
  std::string_view unit = "";  // that --query-gpu leaves out
};
constexpr auto kDetails = std::to_array<Detail>({
    {"", "Product Name", "name"},
    {"", "Product Architecture", "architecture"},
    {"", "Compute Capability", "compute_cap"},
    {"", "Display Active", "display_active"},
    {"", "Persistence Mode", "persistence_mode"},
    {"MIG Mode", "Current", "mig.mode.current"},
    {"MIG Mode", "Pending", "mig.mode.pending"},
    {"", "Serial Number", "serial"},
    {"", "GPU UUID", "uuid"},
    {"", "Minor Number", "minor_number"},
    {"PCI", "Device Id", "pci.device_id"},
    {"PCI", "Bus Id", "pci.bus_id"},
    {"PCI", "Sub System Id", "pci.sub_device_id"},
    {"", "Fan Speed", "fan.speed"},
    {"", "Performance State", "pstate"},
    {"FB Memory Usage", "Total", "memory.total"},
    {"FB Memory Usage", "Used", "memory.used"},
    {"FB Memory Usage", "Free", "memory.free"},
    {"", "Compute Mode", "compute_mode"},
    {"Utilization", "GPU", "utilization.gpu"},
    {"Utilization", "Memory", "utilization.memory"},
    {"ECC Mode", "Current", "ecc.mode.current"},
    {"ECC Errors", "Uncorrectable, volatile", "ecc.errors.uncorrected.volatile.total"},
    {"Temperature", "GPU Current Temp", "temperature.gpu", "C"},
    {"GPU Power Readings", "Average Power Draw", "power.draw"},
    {"GPU Power Readings", "Current Power Limit", "power.limit"},
    {"Clocks", "SM", "clocks.sm"},
    {"Clocks", "Memory", "clocks.mem"},
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

namespace {

constexpr int kColumn = 54;
constexpr int kProcessColumn = 41;  // the original's, too

std::string Line(int indent, std::string_view key, std::string_view value, int column = kColumn) {
  return fmt::format("{:{}}{:<{}} : {}\n", "", indent, key, column - indent, value);
}

std::string Details(const Context& context) {
  std::string text;
  std::string_view section;
  for (const auto& detail : kDetails) {
    if (detail.section != section && !detail.section.empty()) {
      text += fmt::format("    {}\n", detail.section);
    }
    section = detail.section;
    Cell cell = FindField(detail.field)->read(context);
    if (cell.value == kNoAnswer) cell = {"N/A", ""};
    if (cell.unit.empty() && cell.value != "N/A") cell.unit = detail.unit;
    text += Line(section.empty() ? 4 : 8, detail.key, Show(cell, true));
  }
  return text;
}

std::string Processes(const GpuView& view) {
  if (view.readings.processes.empty()) return Line(4, "Processes", "None");
  const auto instance = [](std::uint32_t id) {
    return id == nvml::kNoInstance ? std::string("N/A") : std::to_string(id);
  };
  std::string text = "    Processes\n";
  for (const auto& process : view.readings.processes) {
    text += Line(8, "GPU instance ID", instance(process.gpu_instance_id), kProcessColumn);
    text += Line(8, "Compute instance ID", instance(process.compute_instance_id), kProcessColumn);
    text += Line(8, "Process ID", fmt::format("{}", process.pid), kProcessColumn);
    text += Line(12, "Type", process.graphics ? "G" : "C", kProcessColumn);
    text += Line(12, "Name", process.name, kProcessColumn);
    text += Line(12, "Used GPU Memory", fmt::format("{} MiB", WholeMib(process.used_memory)),
                 kProcessColumn);
  }
  return text;
}

}  // namespace

std::string RenderDetails(const Snapshot& snapshot, std::string_view time) {
  std::string text = "\n==============NVSMI LOG==============\n\n";
  text += Line(0, "Timestamp", time);
  text += Line(0, "Driver Version", snapshot.driver_version);
  text += Line(0, "CUDA Version", snapshot.cuda_version) + "\n";
  text += Line(0, "Attached GPUs", fmt::format("{}", snapshot.gpus.size()));
  for (const auto& view : snapshot.gpus) {
    if (view.device.fault) {
      text += Line(0, fmt::format("GPU {}", view.device.index), view.device.fault->ToString());
      continue;
    }
    text += fmt::format("GPU {}\n", view.device.pci.BusId());
    text += Details({snapshot, view, time});
    for (const auto& mig : view.device.mig_devices) {
      text += Line(4, fmt::format("MIG Device {}", mig.index),
                   fmt::format("{} {} (GPU instance {}, compute instance {})", mig.profile.Name(),
                               mig.uuid, mig.gpu_instance_id, mig.compute_instance_id));
    }
    text += Processes(view);
  }
  return text + "\n";
}

}  // namespace pitcrew::node::smi
