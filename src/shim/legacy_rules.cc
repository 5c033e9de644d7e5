#include "shim/legacy_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::shim {

base::Status CheckLegacyRules(const oci::Spec& spec, const Config& config) {
  for (const char* variable : {"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"}) {
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

}  // namespace pitcrew::shim
