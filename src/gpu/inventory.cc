#include "gpu/inventory.h"

#include <algorithm>
#include <cstdio>

namespace pitcrew::gpu {

std::string_view ToString(Architecture architecture) {
  switch (architecture) {
    case Architecture::kKepler:
      return "Kepler";
    case Architecture::kMaxwell:
      return "Maxwell";
    case Architecture::kPascal:
      return "Pascal";
    case Architecture::kVolta:
      return "Volta";
    case Architecture::kTuring:
      return "Turing";
    case Architecture::kAmpere:
      return "Ampere";
    case Architecture::kAda:
      return "Ada Lovelace";
    case Architecture::kHopper:
      return "Hopper";
    case Architecture::kBlackwell:
      return "Blackwell";
    case Architecture::kRubin:
      return "Rubin";
    case Architecture::kUnknown:
      break;
  }
  return "Unknown";
}

std::string ComputeCapability::ToString() const {
  return std::to_string(major) + "." + std::to_string(minor);
}

bool Fabric::IsAttached() const {
  return state == 3 && status == 0 &&
         std::ranges::any_of(cluster_uuid, [](std::uint8_t byte) { return byte != 0; });
}

std::string Fabric::ClusterUuidText() const {
  std::string text;
  for (std::size_t i = 0; i < cluster_uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char byte[3];
    std::snprintf(byte, sizeof(byte), "%02x", static_cast<unsigned>(cluster_uuid[i]));
    text += byte;
  }
  return text;
}

const Device* Inventory::FindDevice(std::string_view uuid) const {
  const auto found = std::ranges::find(devices, uuid, &Device::uuid);
  return found == devices.end() ? nullptr : &*found;
}

bool IsSkippedDeviceName(std::string_view name) {
  return name == "DGX Display" || name == "NVIDIA DGX Display";
}

}  // namespace pitcrew::gpu
