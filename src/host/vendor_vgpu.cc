#include "host/vendor_vgpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/strings.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

using gpu::PciAddress;

std::filesystem::path VendorFolder(const Root& root, const PciAddress& function) {
  return root.At("/sys/bus/pci/devices") / function.SysfsName() / "nvidia";
}

std::optional<std::uint32_t> ParseId(std::string_view text) {
  const auto number = base::ParseUnsigned(base::Trim(text));
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

std::vector<VendorVgpuType> ParseCreatableVgpuTypes(std::string_view text) {
  std::vector<VendorVgpuType> types;
  for (const auto& line : base::Split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto id = ParseId(std::string_view(line).substr(0, colon));
    const auto name = base::Trim(std::string_view(line).substr(colon + 1));
    if (id && *id != 0 && !name.empty()) types.push_back({*id, std::string(name)});
  }
  std::ranges::sort(types, {}, &VendorVgpuType::id);
  return types;
}

base::Result<bool> HasVendorVgpus(const Root& root, const PciAddress& function) {
  return Exists(VendorFolder(root, function) / "current_vgpu_type");
}

base::Result<std::vector<VendorVgpuType>> CreatableVgpuTypes(const Root& root,
                                                             const PciAddress& function) {
  TRY_ASSIGN(const auto text, ReadAttribute(VendorFolder(root, function) / "creatable_vgpu_types"));
  return ParseCreatableVgpuTypes(text);
}

base::Result<std::uint32_t> CurrentVgpuType(const Root& root, const PciAddress& function) {
  const auto file = VendorFolder(root, function) / "current_vgpu_type";
  TRY_ASSIGN(const auto text, ReadAttribute(file));
  if (const auto id = ParseId(text)) return *id;
  return base::Fail(base::Invalid("InvalidVgpuTypeId",
                                  fmt::format("{} has \"{}\", not a number", file.string(), text)));
}

base::Status SetVgpuType(const Root& root, const PciAddress& function, std::uint32_t type) {
  const auto action = type == 0
                          ? fmt::format("remove the vGPU of {}", function.SysfsName())
                          : fmt::format("make vGPU type {} on {}", type, function.SysfsName());
  return WriteAttribute(VendorFolder(root, function) / "current_vgpu_type", fmt::format("{}", type),
                        action);
}

}  // namespace pitcrew::host
