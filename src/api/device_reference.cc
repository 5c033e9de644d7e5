// The grammar of device references in a shared resource (device-plugin.md section 4.2).
#include <algorithm>
#include <string>

#include "api/plugin_config.h"
#include "base/strings.h"

namespace pitcrew::api {
namespace {

bool IsDecimal(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool IsDashedUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !IsHex(text[i])) return false;
  }
  return true;
}

// Every form that Go's uuid.Parse takes.
bool IsUuid(std::string_view text) {
  if (text.starts_with("urn:uuid:")) return IsDashedUuid(text.substr(9));
  if (text.size() == 38 && text.front() == '{' && text.back() == '}') {
    return IsDashedUuid(text.substr(1, 36));
  }
  return IsDashedUuid(text) || (text.size() == 32 && std::ranges::all_of(text, IsHex));
}

}  // namespace

std::optional<DeviceReference> ClassifyDeviceReference(std::string_view text) {
  if (IsDecimal(text)) return DeviceReference::kGpuIndex;
  if (const auto colon = text.find(':'); colon != std::string_view::npos &&
                                         IsDecimal(text.substr(0, colon)) &&
                                         IsDecimal(text.substr(colon + 1))) {
    return DeviceReference::kMigIndex;
  }
  if (text.starts_with("GPU-") && IsUuid(text.substr(4))) return DeviceReference::kGpuUuid;
  if (!text.starts_with("MIG-")) return std::nullopt;
  if (IsUuid(text.substr(4))) return DeviceReference::kMigUuid;
  // Before driver 470: "MIG-GPU-<uuid>/<GPU instance>/<compute instance>".
  const auto parts = base::Split(text.substr(4), '/');
  if (parts.size() == 3 && parts[0].starts_with("GPU-") && IsUuid(parts[0].substr(4)) &&
      IsDecimal(parts[1]) && IsDecimal(parts[2])) {
    return DeviceReference::kMigUuid;
  }
  return std::nullopt;
}

}  // namespace pitcrew::api
