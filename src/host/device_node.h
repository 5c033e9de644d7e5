// Device nodes and NVIDIA's names and numbers for them (container-toolkit.md 4.9,
// validator.md 3.4).
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/observed.h"
#include "base/result.h"

namespace pitcrew::host {

struct DeviceNumber {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  // "195:255", the name used in /dev/char.
  [[nodiscard]] std::string ToString() const;
  auto operator<=>(const DeviceNumber&) const = default;
};

// Follows links. Absent when nothing is there; something that is no character device is unknown.
base::Observed<DeviceNumber> ReadCharacterDevice(const std::filesystem::path& path);

// Makes a character device with exactly `mode` (no umask). A node that is there with the right
// number is kept; one with another number is replaced, because it would open the wrong driver.
// Other kinds of file are never replaced: kExists.
base::Status EnsureCharacterDevice(const std::filesystem::path& path, DeviceNumber number,
                                   mode_t mode = 0666);

struct NamedDevice {
  std::string name;  // below /dev: "nvidiactl"
  DeviceNumber number;
  bool operator==(const NamedDevice&) const = default;
};

// nvidiactl, nvidia-modeset, nvidia-uvm, nvidia-uvm-tools with the numbers that these majors give.
// kNotFound names the major that is missing (its module is not loaded).
base::Result<std::vector<NamedDevice>> NvidiaControlDevices(
    const std::map<std::string, std::uint32_t>& majors);

// Every NVIDIA character device that exists in `dev` (the /dev folder of a device root): nvidia<N>,
// control nodes and nvidia-caps/nvidia-cap<N>, sorted by name. kNotFound when `dev` is missing.
base::Result<std::vector<NamedDevice>> ListNvidiaDevices(const std::filesystem::path& dev);

}  // namespace pitcrew::host
