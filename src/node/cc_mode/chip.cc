#include "node/cc_mode/chip.h"

namespace pitcrew::node::cc_mode {
namespace {

constexpr Chip kHopper = {.name = "GH100",
                          .confidential = true,
                          .protected_pcie = true,
                          .decoupler = true,
                          .firewall = false,
                          .channel = Channel::kMemory,
                          .boot = 0x200bc,
                          .boot_patience = 1,
                          .mode = 0x1182cc,
                          .protection = 0x1182cc,
                          .protection_bit = 0x20};

constexpr Chip Blackwell(std::string_view name, std::size_t boot) {
  return {.name = name,
          .confidential = true,
          .protected_pcie = false,
          .decoupler = false,
          .firewall = true,
          .channel = Channel::kMailbox,
          .boot = boot,
          .boot_patience = 2,
          .mode = 0x590,
          .protection = 0,
          .protection_bit = 0};
}

constexpr std::size_t kBoot100 = 0x200bc;
constexpr std::size_t kBoot202 = 0xad00bc;
constexpr Chip kBlackwell100 = Blackwell("GB100", kBoot100);
constexpr Chip kBlackwell102 = Blackwell("GB102", kBoot100);
constexpr Chip kBlackwell110 = Blackwell("GB110", kBoot100);
constexpr Chip kBlackwell112 = Blackwell("GB112", kBoot100);
constexpr Chip kBlackwell202 = Blackwell("GB202", kBoot202);
constexpr Chip kBlackwell203 = Blackwell("GB203", kBoot202);
constexpr Chip kBlackwell205 = Blackwell("GB205", kBoot202);
constexpr Chip kBlackwell206 = Blackwell("GB206", kBoot202);
constexpr Chip kBlackwell207 = Blackwell("GB207", kBoot202);

constexpr std::uint32_t kThirdSwitchId = 0x7000a1;
constexpr Chip kThirdSwitch = {.name = "third NVSwitch",
                               .confidential = false,
                               .protected_pcie = true,
                               .decoupler = false,
                               .firewall = false,
                               .channel = Channel::kMemory,
                               .boot = 0x660bc,
                               .boot_patience = 1,
                               .mode = 0,
                               .protection = 0x28c50,
                               .protection_bit = 0x1};

// PCI device ids from and to, of a chip.
struct Range {
  std::uint16_t first;
  std::uint16_t last;
  const Chip* chip;
};
constexpr Range kRanges[] = {{0x22f0, 0x237f, &kHopper},       {0x2900, 0x297f, &kBlackwell100},
                             {0x2980, 0x29ff, &kBlackwell102}, {0x2b80, 0x2bff, &kBlackwell202},
                             {0x2c00, 0x2c7f, &kBlackwell203}, {0x2d00, 0x2d7f, &kBlackwell206},
                             {0x2d80, 0x2dff, &kBlackwell207}, {0x2f00, 0x2f7f, &kBlackwell205},
                             {0x3180, 0x31ff, &kBlackwell110}, {0x3200, 0x327f, &kBlackwell112}};

}  // namespace

const Chip* GpuChip(std::uint16_t device) {
  for (const auto& range : kRanges) {
    if (device >= range.first && device <= range.last) return range.chip;
  }
  return nullptr;
}

const Chip* SwitchChip(std::uint32_t boot_id) {
  return boot_id == kThirdSwitchId ? &kThirdSwitch : nullptr;
}

}  // namespace pitcrew::node::cc_mode
