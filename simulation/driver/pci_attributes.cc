#include "simulation/driver/pci_attributes.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace pitcrew::simulation {

std::string PciResource(const GpuState& gpu, std::uint32_t index) {
  std::string text;
  const auto line = [&](std::uint64_t start, std::uint64_t size, std::uint64_t flags) {
    char one[64];
    std::snprintf(one, sizeof(one), "0x%016llx 0x%016llx 0x%016llx\n",
                  static_cast<unsigned long long>(start),
                  static_cast<unsigned long long>(size == 0 ? 0 : start + size - 1),
                  static_cast<unsigned long long>(flags));
    text += one;
  };
  constexpr std::uint64_t kMib = 1ull << 20;
  const std::uint64_t bar1 = std::bit_ceil(std::max(gpu.bar1_total, kMib));
  line(0x90000000ull + index * 16 * kMib, 16 * kMib, 0x40200);
  line(0x20000000000ull + index * 4 * bar1, bar1, 0x14220c);
  line(0, 0, 0);
  line(0x30000000000ull + index * 32 * kMib, 32 * kMib, 0x14220c);
  for (int rest = 0; rest < 9; ++rest) line(0, 0, 0);
  return text;
}

std::string PciConfig(std::uint32_t device, std::uint32_t subsystem, std::uint32_t class_code) {
  std::string bytes(256, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> 8 * i & 0xff);
    }
  };
  put(0x00, device & 0xffff, 2);
  put(0x02, device >> 16, 2);
  put(0x04, 0x0006, 2);
  put(0x08, 0xa1, 1);
  put(0x09, class_code, 3);
  put(0x2c, subsystem & 0xffff, 2);
  put(0x2e, subsystem >> 16, 2);
  return bytes;
}

}  // namespace pitcrew::simulation
