#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "node/smi/views.h"

namespace pitcrew::node::smi {
namespace {

constexpr int kInnerWidth = 89;  // of a line between its two borders
constexpr std::string_view kNotAvailable = "N/A";

constexpr std::string_view kColumns =
    "+-----------------------------------------+------------------------+----------------------+\n";

std::string Border(char fill) { return fmt::format("+{}+\n", std::string(kInnerWidth, fill)); }

std::string FullLine(const std::string& text) {
  return fmt::format("|{:<{}}|\n", text.substr(0, kInnerWidth), kInnerWidth);
}

std::string ThreeColumns(const std::string& left, const std::string& middle,
                         const std::string& right) {
  return fmt::format("|{:<41}|{:>24}|{:>22}|\n", left, middle, right);
}

template <class T>
std::string Text(const std::optional<T>& value, std::string_view unit = "") {
  return value ? fmt::format("{}{}", *value, unit) : std::string(kNotAvailable);
}

std::string OnOff(const std::optional<bool>& value) {
  if (!value) return std::string(kNotAvailable);
  return *value ? "On" : "Off";
}

std::string Mib(std::uint64_t bytes) { return fmt::format("{}MiB", WholeMib(bytes)); }

std::string MemoryUse(const base::Observed<gpu::Memory>& memory) {
  if (!memory.is_present()) return std::string(kNotAvailable);
  return fmt::format("{:>8} / {:>9}", Mib(memory.value()->used), Mib(memory.value()->total));
}

std::string ComputeMode(const std::optional<unsigned>& mode) {
  if (!mode) return std::string(kNotAvailable);
  switch (*mode) {
    case 0:
      return "Default";
    case 2:
      return "Prohibited";
    case 3:
      return "E. Process";
    default:
      return fmt::format("{}", *mode);
  }
}

std::string MigModeText(const gpu::Device& device) {
  if (!device.mig_mode.is_present()) return std::string(kNotAvailable);
  const auto& mode = *device.mig_mode.value();
  const std::string current = mode.current ? "Enabled" : "Disabled";
  return mode.current == mode.pending ? current : current + "*";
}

std::string Header(const Snapshot& snapshot) {
  std::string text = Border('-');
  text += FullLine(fmt::format(" NVIDIA-SMI {:<22} Driver Version: {:<14} CUDA Version: {}",
                               snapshot.driver_version, snapshot.driver_version,
                               snapshot.cuda_version));
  text += kColumns;
  text += ThreeColumns(" GPU  Name                 Persistence-M ", " Bus-Id          Disp.A ",
                       " Volatile Uncorr. ECC ");
  text += ThreeColumns(" Fan  Temp   Perf          Pwr:Usage/Cap ", "           Memory-Usage ",
                       " GPU-Util  Compute M. ");
  text += ThreeColumns("", "", "               MIG M. ");
  return text +
         "|=========================================+========================+==================="
         "===|\n";
}

std::string GpuBlock(const GpuView& view) {
  const auto& device = view.device;
  const auto& readings = view.readings;
  if (device.fault) {
    return ThreeColumns(fmt::format(" {:>3}  {:<25.25}         ", device.index,
                                    device.name.empty() ? "?" : device.name),
                        "", "ERR! ") +
           FullLine(fmt::format("      {}", device.fault->ToString()));
  }
  std::string power(kNotAvailable);
  if (readings.power_milliwatt) {
    power = fmt::format("{}W / {:>4}W", *readings.power_milliwatt / 1000,
                        readings.power_limit_milliwatt.value_or(0) / 1000);
  }
  const std::string state = readings.performance_state
                                ? fmt::format("P{}", *readings.performance_state)
                                : std::string(kNotAvailable);
  const std::string errors = readings.ecc_mode.value_or(false)
                                 ? Text(readings.ecc_uncorrected_volatile)
                             : readings.ecc_mode ? "Off"
                                                 : std::string(kNotAvailable);
  std::string text = ThreeColumns(
      fmt::format(" {:>3}  {:<30.25} {:<3} ", device.index, device.name,
                  OnOff(readings.persistence_mode)),
      fmt::format("{} {:>3} ", device.pci.BusId(), OnOff(readings.display_active)), errors + " ");
  text += ThreeColumns(fmt::format(" {:>3}  {:>4}    {:<4}{:>22} ", Text(readings.fan_percent, "%"),
                                   Text(readings.temperature_celsius, "C"), state, power),
                       MemoryUse(device.memory) + " ",
                       fmt::format("{:>7} {:>12} ", Text(readings.gpu_utilization_percent, "%"),
                                   ComputeMode(readings.compute_mode)));
  return text + ThreeColumns("", "", MigModeText(device) + " ");
}

std::string MigBlock(const Snapshot& snapshot) {
  std::string rows;
  for (const auto& view : snapshot.gpus) {
    for (const auto& mig : view.device.mig_devices) {
      rows += FullLine(fmt::format(" {:>3} {:>4} {:>4} {:>5}   {:<18} {:>21}   {:>3} SM   {:>2} CE",
                                   view.device.index, mig.gpu_instance_id, mig.compute_instance_id,
                                   mig.index, mig.profile.Name(), MemoryUse(mig.memory),
                                   mig.attributes.multiprocessor_count,
                                   mig.attributes.shared_copy_engine_count));
    }
  }
  const bool enabled = std::ranges::any_of(
      snapshot.gpus, [](const GpuView& view) { return view.device.IsMigEnabled(); });
  if (!enabled) return "";
  if (rows.empty()) rows = FullLine("  No MIG devices found");
  return "\n" + Border('-') + FullLine(" MIG devices:") + Border('-') +
         FullLine(" GPU   GI   CI   MIG   Profile                     Memory-Usage   Engines") +
         fmt::format("|{}|\n", std::string(kInnerWidth, '=')) + rows + Border('-');
}

std::string ProcessBlock(const Snapshot& snapshot) {
  std::string rows;
  const auto instance = [](std::uint32_t id) {
    return id == nvml::kNoInstance ? std::string(kNotAvailable) : std::to_string(id);
  };
  for (const auto& view : snapshot.gpus) {
    for (const auto& process : view.readings.processes) {
      rows += FullLine(
          fmt::format(" {:>4}   {:>3}  {:>3}{:>16}{:>7}   {:<34.34} {:>11} ", view.device.index,
                      instance(process.gpu_instance_id), instance(process.compute_instance_id),
                      process.pid, process.graphics ? "G" : "C",
                      process.name.empty() ? "-" : process.name, Mib(process.used_memory)));
    }
  }
  if (rows.empty()) rows = FullLine("  No running processes found");
  return "\n" + Border('-') + FullLine(" Processes:") +
         FullLine(
             "  GPU   GI   CI              PID   Type   Process name                        "
             "GPU Memory") +
         FullLine(
             "        ID   ID                                                               "
             "Usage") +
         fmt::format("|{}|\n", std::string(kInnerWidth, '=')) + rows + Border('-');
}

}  // namespace

std::string RenderTable(const Snapshot& snapshot, std::string_view time) {
  std::string text = fmt::format("{:<31}\n", time) + Header(snapshot);
  for (const auto& view : snapshot.gpus) {
    text += GpuBlock(view);
    text += kColumns;
  }
  if (snapshot.gpus.empty()) text += FullLine("  No devices were found") + Border('-');
  return text + MigBlock(snapshot) + ProcessBlock(snapshot);
}

std::string RenderList(const Snapshot& snapshot) {
  std::string text;
  for (const auto& view : snapshot.gpus) {
    const auto& device = view.device;
    if (device.fault) {
      text += fmt::format("GPU {}: {}\n", device.index, device.fault->ToString());
      continue;
    }
    text += fmt::format("GPU {}: {} (UUID: {})\n", device.index, device.name, device.uuid);
    for (const auto& mig : device.mig_devices) {
      text += fmt::format("  MIG {:<11} Device {:>2}: (UUID: {})\n", mig.profile.Name(), mig.index,
                          mig.uuid);
    }
  }
  return text;
}

}  // namespace pitcrew::node::smi
