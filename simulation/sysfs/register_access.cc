#include "simulation/sysfs/register_access.h"

namespace pitcrew::simulation::sysfs {
namespace {

constexpr std::uint8_t kLoad = 0x8b;
constexpr std::uint8_t kStore = 0x89;
constexpr std::uint8_t kStoreConstant = 0xc7;

constexpr unsigned kWide = 8;      // of a REX prefix: 64 bits
constexpr unsigned kRegister = 4;  // and: the register's number goes on at 8

// The bytes behind ModR/M that say where in memory; nothing where it names no memory.
std::optional<std::size_t> AddressBytes(std::span<const std::uint8_t> code, std::size_t at) {
  const unsigned mode = code[at] >> 6U;
  const unsigned base = code[at] & 7U;
  if (mode == 3) return std::nullopt;
  std::size_t bytes = mode == 1 ? 1 : mode == 2 ? 4 : 0;
  const bool has_index = base == 4;
  if (has_index) {
    if (at + 1 >= code.size()) return std::nullopt;
    ++bytes;
  }
  const unsigned from = has_index ? code[at + 1] & 7U : base;
  if (mode == 0 && from == 5) bytes += 4;
  return bytes;
}

}  // namespace

std::optional<RegisterAccess> DecodeAccess(std::span<const std::uint8_t> code) {
  std::size_t at = 0;
  unsigned prefix = 0;
  if (!code.empty() && (code[0] & 0xf0U) == 0x40) prefix = code[at++] & 0xfU;
  if ((prefix & kWide) != 0 || at + 1 >= code.size()) return std::nullopt;
  const std::uint8_t operation = code[at++];
  const unsigned middle = code[at] >> 3U & 7U;
  const auto address = AddressBytes(code, at);
  if (!address) return std::nullopt;
  RegisterAccess access;
  access.length = at + 1 + *address;
  access.general_register = middle | ((prefix & kRegister) != 0 ? 8U : 0U);
  if (operation == kStoreConstant && middle == 0) {
    access.length += 4;
    if (access.length > code.size()) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = access.length; i-- > access.length - 4;) value = value << 8U | code[i];
    access.value = value;
  } else if (operation != kLoad && operation != kStore) {
    return std::nullopt;
  }
  access.is_write = operation != kLoad;
  if (access.length > code.size()) return std::nullopt;
  return access;
}

}  // namespace pitcrew::simulation::sysfs
