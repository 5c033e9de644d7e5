// Which boards an entry of a MIG configuration is for: PCI device and vendor, with or without the
// subsystem (mig-manager.md section 3.1). "0x233010DE", "0x233010DE:0x16C010DE".
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::node::mig {

struct DeviceId {
  // Device in the high 16 bits, vendor in the low ones: NVML's packing.
  std::uint32_t device = 0;
  // The same of the subsystem; nullopt when not known, or in a filter: any.
  std::optional<std::uint32_t> subsystem = {};

  // kInvalid "InvalidDeviceId". Each half is a whole number of 32 bits as Go writes them: 0x, 0o,
  // 0b, a leading 0 for octal, '_' between digits.
  static base::Result<DeviceId> Parse(std::string_view text);

  // Upper-case hexadecimal, with the subsystem where it is known.
  [[nodiscard]] std::string ToString() const;
  // Without the subsystem.
  [[nodiscard]] DeviceId Primary() const { return {device, std::nullopt}; }
  // Whether a filter with this text means hardware with this id. A text that is no id means none.
  [[nodiscard]] bool IsMeantBy(std::string_view filter) const;
  // Whether any of them does; no filters, or one empty text, mean every board.
  [[nodiscard]] bool IsMeantByAny(const std::vector<std::string>& filters) const;

  auto operator<=>(const DeviceId&) const = default;
};

}  // namespace pitcrew::node::mig
