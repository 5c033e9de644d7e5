#include "gpu/pci_address.h"

#include <charconv>
#include <cstdio>

namespace pitcrew::gpu {
namespace {

// Reads exactly `text` as hexadecimal; false when a character is no digit or the value is too big.
bool ParseHex(std::string_view text, std::uint32_t limit, std::uint32_t& value) {
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc{} && end == text.data() + text.size() && value <= limit;
}

}  // namespace

std::string PciAddress::SysfsName() const {
  char text[32];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

std::string PciAddress::BusId() const {
  char text[32];
  std::snprintf(text, sizeof(text), "%08X:%02X:%02X.%X", domain, bus, device, function);
  return text;
}

base::Result<PciAddress> PciAddress::Parse(std::string_view text) {
  const auto invalid = [&] {
    return base::Fail(base::Invalid(
        "InvalidPciAddress",
        "\"" + std::string(text) + "\" is not a PCI address; it looks like 0000:1b:00.0"));
  };
  std::string_view rest = text;
  std::uint32_t function = 0;
  if (const auto dot = rest.rfind('.'); dot != std::string_view::npos) {
    if (!ParseHex(rest.substr(dot + 1), 7, function)) return invalid();
    rest = rest.substr(0, dot);
  }
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
  std::uint32_t device = 0;
  const auto last = rest.rfind(':');
  if (last == std::string_view::npos || !ParseHex(rest.substr(last + 1), 31, device)) {
    return invalid();
  }
  rest = rest.substr(0, last);
  if (const auto first = rest.find(':'); first != std::string_view::npos) {
    if (!ParseHex(rest.substr(0, first), 0xffffffff, domain)) return invalid();
    rest = rest.substr(first + 1);
  }
  if (!ParseHex(rest, 0xff, bus)) return invalid();
  return PciAddress{domain, static_cast<std::uint8_t>(bus), static_cast<std::uint8_t>(device),
                    static_cast<std::uint8_t>(function)};
}

}  // namespace pitcrew::gpu
