#include "shim/legacy_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "cdi/apply.h"
#include "shim/requests.h"

namespace pitcrew::shim {
namespace {

struct MigControl {
  const char* variable;
  std::string_view capability;  // as the driver calls it
};
constexpr std::array kMigControls = {MigControl{"NVIDIA_MIG_CONFIG_DEVICES", "config"},
                                     MigControl{"NVIDIA_MIG_MONITOR_DEVICES", "monitor"}};

// Of lines "<capability> <minor>".
std::optional<std::uint64_t> MinorOf(std::string_view capability, const std::string& text) {
  for (const auto& line : base::Split(text, '\n')) {
    const auto words = base::Split(line, ' ');
    if (words.size() != 2 || words[0] != capability) continue;
    if (const auto minor = base::ParseUnsigned(words[1])) return *minor;
  }
  return std::nullopt;
}

}  // namespace

base::Status CheckLegacyRules(const oci::Spec& spec, const Config& config) {
  for (const auto& [variable, capability] : kMigControls) {
    if (spec.FindEnv(variable).value_or("").empty()) continue;
    if (spec.HasBoundingCapability("CAP_SYS_ADMIN")) continue;
    return base::Fail(
        base::Error{base::Code::kDenied, "MigNeedsPrivileges",
                    fmt::format("{} is for privileged containers only (CAP_SYS_ADMIN)", variable)});
  }
  const auto asked = spec.FindEnv("NVIDIA_DRIVER_CAPABILITIES").value_or("");
  if (asked.empty() || asked == "all") return {};
  for (const auto& capability : base::SplitTrimmed(asked, ',')) {
    if (capability == "all" || std::ranges::find(config.supported_capabilities, capability) !=
                                   config.supported_capabilities.end()) {
      continue;
    }
    return base::Fail(base::Error{
        base::Code::kUnsupported, "UnsupportedCapabilities",
        fmt::format("NVIDIA_DRIVER_CAPABILITIES names \"{}\", and config.toml supports {} "
                    "(supported-driver-capabilities)",
                    capability, base::Join(config.supported_capabilities, ", "))});
  }
  return {};
}

cdi::ContainerEdits MigControlEdits(const oci::Spec& spec, const Config& config,
                                    std::vector<std::string>& warnings,
                                    const std::filesystem::path& proc) {
  cdi::ContainerEdits edits;
  for (const auto& [variable, capability] : kMigControls) {
    auto devices = RequestedValues({spec.FindEnv(variable).value_or("")});
    std::erase(devices, "");
    if (devices.empty()) continue;
    const auto text = base::ReadFile(proc / "driver/nvidia-caps/mig-minors");
    const auto minor = text ? MinorOf(capability, *text) : std::nullopt;
    if (!minor) {
      warnings.push_back(fmt::format("{} is passed over: the driver has no MIG capability {}",
                                     variable, capability));
      continue;
    }
    const std::string path = fmt::format("/dev/nvidia-caps/nvidia-cap{}", *minor);
    const auto on_host = config.driver_root / path.substr(1);
    if (const auto node = cdi::LookUpNode(on_host.string()); !node || node->type != "c") {
      warnings.push_back(
          fmt::format("{} is passed over: there is no device {}", variable, on_host.string()));
      continue;
    }
    cdi::DeviceNode device;
    device.path = path;
    device.host_path = on_host.string();
    edits.device_nodes.push_back(std::move(device));
  }
  return edits;
}

}  // namespace pitcrew::shim
