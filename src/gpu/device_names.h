// What devices for virtual machines are called: names of the PCI ID database, made into resource
// names (kubevirt-device-plugin.md section 3, virtualisation-and-olm.md 1.4 and 11.2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::gpu {

// Where images have the database.
inline constexpr std::string_view kDatabaseFile = "/usr/pci.ids";

// The NVIDIA devices of a PCI ID database (the format of https://pci-ids.ucw.cz).
class DeviceNames {
 public:
  DeviceNames() = default;
  explicit DeviceNames(std::string_view database);
  // kNotFound or kDenied when there is no such file, kInvalid when it has no NVIDIA devices.
  static base::Result<DeviceNames> Load(const std::filesystem::path& file);

  // As it stands in the database: "GA102GL [A10]". Empty when the device is not in it.
  [[nodiscard]] std::string Find(std::uint16_t device) const;
  // The reverse of KubevirtName: the devices that are called so, several where models share a name;
  // the one of that number where the name is a number. Costs a look at the whole database.
  [[nodiscard]] std::vector<std::uint16_t> CalledForKubevirt(std::string_view name) const;
  [[nodiscard]] bool empty() const { return names_.empty(); }

 private:
  std::map<std::string, std::string, std::less<>> names_;  // by four hexadecimal digits
};

// "1eb8": what a device without a name is called for KubeVirt.
std::string DeviceIdText(std::uint16_t device);

// Resource names without "nvidia.com/". KubeVirt's plugin drops hyphens, Kata's keeps them.
std::string KubevirtName(std::string_view database_name);
std::string KataName(std::string_view database_name);
// Of a mediated device's type: "NVIDIA A10-24Q" is "NVIDIA_A10-24Q".
std::string VgpuName(std::string_view type);

// Whether the kubelet takes nvidia.com/<name>, and a socket can be named after it: begins and ends
// with a letter or digit, and has at most 61 characters.
bool IsUsableName(std::string_view name);

// The variable in which virt-launcher looks for the devices of a resource:
// "PCI_RESOURCE_NVIDIA_COM_GA102GL_A10".
std::string VariableName(std::string_view prefix, std::string_view resource);

}  // namespace pitcrew::gpu
