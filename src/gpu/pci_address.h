// Where a device sits on PCI, in the spellings of sysfs and of NVML.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::gpu {

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;
  std::uint8_t function = 0;

  // sysfs folder name: "0000:1b:00.0" (a domain over 0xffff keeps all its digits).
  [[nodiscard]] std::string SysfsName() const;
  // NVML's busId: "00000000:1B:00.0" (8-digit domain, upper case; feature-discovery.md section 13).
  [[nodiscard]] std::string BusId() const;

  // Accepts 4- and 8-digit domains, either case, with or without ".function".
  static base::Result<PciAddress> Parse(std::string_view text);

  auto operator<=>(const PciAddress&) const = default;
};

}  // namespace pitcrew::gpu
