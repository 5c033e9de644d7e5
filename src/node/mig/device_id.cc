#include "node/mig/device_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/strings.h"

namespace pitcrew::node::mig {
namespace {

// Go's strconv.ParseUint(text, 0, 32).
base::Result<std::uint32_t> ParseGoUnsigned(std::string_view text) {
  const auto bad = [&] {
    return base::Fail(
        base::Invalid("InvalidDeviceId",
                      fmt::format("\"{}\" is not a number of 32 bits, such as 0x233010DE", text)));
  };
  std::string_view digits = text;
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    digits.remove_prefix(letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
  }
  const bool has_prefix = digits.size() != text.size();
  std::string plain;
  bool after_digit = has_prefix;
  for (const char letter : digits) {
    if (letter == '_' && !after_digit) return bad();
    after_digit = letter != '_';
    if (after_digit) plain += letter;
  }
  if (plain.empty() || !after_digit) return bad();
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (error != std::errc{} || end != plain.data() + plain.size()) return bad();
  return value;
}

std::string Packed(std::uint32_t id) { return fmt::format("0x{:08X}", id); }

}  // namespace

base::Result<DeviceId> DeviceId::Parse(std::string_view text) {
  const auto parts = base::Split(text, ':');
  if (parts.size() > 2) {
    return base::Fail(base::Invalid(
        "InvalidDeviceId", fmt::format("invalid DeviceID format '{}': expected '<devicevendor>' or "
                                       "'<devicevendor>:<subdevicevendor>'",
                                       text)));
  }
  DeviceId id;
  const auto device = ParseGoUnsigned(parts[0]);
  if (!device) {
    return base::Fail(
        device.error().Within(fmt::format("unable to create DeviceID from string '{}'", parts[0])));
  }
  id.device = *device;
  if (parts.size() == 1) return id;
  const auto subsystem = ParseGoUnsigned(parts[1]);
  if (!subsystem) {
    return base::Fail(subsystem.error().Within(
        fmt::format("unable to create Subsystem from string '{}'", parts[1])));
  }
  id.subsystem = *subsystem;
  return id;
}

std::string DeviceId::ToString() const {
  return subsystem ? fmt::format("{}:{}", Packed(device), Packed(*subsystem)) : Packed(device);
}

bool DeviceId::IsMeantBy(std::string_view filter) const {
  const auto wanted = Parse(filter);
  if (!wanted || wanted->device != device) return false;
  return !wanted->subsystem || wanted->subsystem == subsystem;
}

bool DeviceId::IsMeantByAny(const std::vector<std::string>& filters) const {
  if (filters.empty() || (filters.size() == 1 && filters[0].empty())) return true;
  return std::ranges::any_of(filters, [this](const auto& filter) { return IsMeantBy(filter); });
}

}  // namespace pitcrew::node::mig
