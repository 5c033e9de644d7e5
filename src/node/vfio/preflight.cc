#include "node/vfio/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "host/iommu.h"
#include "host/sysfs.h"

namespace pitcrew::node::vfio {
namespace {

using host::PciDevice;

base::Error Obstacle(std::string_view reason, std::string message) {
  return base::Unavailable(std::string(reason), std::move(message));
}

// The argument that switches the IOMMU off; of one that stands several times the last counts.
std::optional<std::string> SwitchedOffBy(const Translation& translation) {
  constexpr std::array<std::string_view, 3> kArguments = {"iommu=", "intel_iommu=", "amd_iommu="};
  for (const auto name : kArguments) {
    std::optional<std::string> off;
    for (const auto& argument : translation.arguments) {
      if (!argument.starts_with(name)) continue;
      const auto values = base::Split(std::string_view(argument).substr(name.size()), ',');
      if (std::ranges::find(values, "off") != values.end()) off = argument;
      if (std::ranges::find(values, "on") != values.end()) off.reset();
    }
    if (off) return off;
  }
  return std::nullopt;
}

std::string_view FirmwareSetting(Cpu cpu) {
  switch (cpu) {
    case Cpu::kIntel:
      return "Intel VT-d";
    case Cpu::kAmd:
      return "AMD-Vi (IOMMU)";
    case Cpu::kArm:
      return "SMMU";
    case Cpu::kOther:
      return "IOMMU (Intel VT-d, AMD-Vi)";
  }
  return "";
}

base::Error NotInFirmware(const Translation& translation) {
  if (translation.is_virtual_machine) {
    return Obstacle(kIommuMissing,
                    "this node is a virtual machine without an IOMMU: give it a virtual one in its "
                    "hypervisor (QEMU: -machine q35,kernel-irqchip=split -device "
                    "intel-iommu,intremap=on), or take a machine of metal");
  }
  return Obstacle(kIommuMissing,
                  fmt::format("the firmware offers no IOMMU: switch {} on in the firmware's setup, "
                              "and restart the node",
                              FirmwareSetting(translation.cpu)));
}

base::Error NotEnabled(const Translation& translation) {
  switch (translation.cpu) {
    case Cpu::kAmd:
      return Obstacle(kIommuNotEnabled,
                      "the firmware has an AMD IOMMU and the kernel does not use it: it needs no "
                      "kernel argument (amd_iommu=on has no meaning); dmesg | grep -i AMD-Vi tells "
                      "why, mostly an old firmware");
    case Cpu::kArm:
      return Obstacle(kIommuNotEnabled,
                      "the firmware describes its SMMU and the kernel does not use it: it needs a "
                      "kernel with CONFIG_ARM_SMMU_V3; dmesg | grep -i smmu tells more");
    default:
      return Obstacle(
          kIommuNotEnabled,
          "the kernel does not use the IOMMU: set the kernel argument intel_iommu=on "
          "(OpenShift: MachineConfig with spec.kernelArguments: [intel_iommu=on], for a "
          "pool of these nodes only), and restart the node");
  }
}

std::string Describe(const PciDevice& device) {
  const auto* driver = device.driver.value();
  return fmt::format("{} (class {:04x}, {})", device.address.SysfsName(), device.base_class(),
                     driver != nullptr ? "driver " + *driver : "driver not known");
}

// Names of entries that begin with `prefix`; none where there is no such folder.
base::Result<std::vector<std::string>> EntriesWith(const std::filesystem::path& folder,
                                                   std::string_view prefix) {
  auto names = host::ListFolder(folder);
  if (!names && names.error().code == base::Code::kNotFound) return std::vector<std::string>();
  TRY(names);
  std::erase_if(*names, [&](const auto& name) { return !name.starts_with(prefix); });
  return names;
}

base::Result<bool> HasFramebufferConsole(const host::Root& root) {
  const auto folder = root.At("/sys/class/vtconsole");
  TRY_ASSIGN(const auto consoles, EntriesWith(folder, "vtcon"));
  for (const auto& console : consoles) {
    TRY_ASSIGN(const auto name, host::ReadAttribute(folder / console / "name"));
    TRY_ASSIGN(const auto bound, host::ReadAttribute(folder / console / "bind"));
    if (name.find("frame buffer") != std::string::npos && bound == "1") return true;
  }
  return false;
}

std::optional<std::uint64_t> ParseHex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<base::Error> CheckTranslation(const Translation& translation) {
  if (!translation.iommus.empty() || translation.unsafe_without) return std::nullopt;
  if (const auto argument = SwitchedOffBy(translation)) {
    return Obstacle(
        kIommuSwitchedOff,
        fmt::format("the kernel argument {} switches the IOMMU off: take it away "
                    "(OpenShift: out of the MachineConfig that sets it), and restart the "
                    "node",
                    *argument));
  }
  const auto* in_firmware = translation.in_firmware.value();
  if (in_firmware != nullptr && !*in_firmware) return NotInFirmware(translation);
  return NotEnabled(translation);
}

std::optional<base::Error> CheckGroups(const Node& node, const Bundle& bundle) {
  std::set<std::uint32_t> groups;
  for (const auto& function : bundle.functions()) {
    if (const auto* group = function.iommu_group.value()) {
      groups.insert(*group);
    } else if (!node.translation.unsafe_without) {
      return Obstacle(kNoIommuGroup,
                      fmt::format("the IOMMU does not translate for {}: it has no IOMMU group; is "
                                  "the firmware's IOMMU on for its root port?",
                                  function.address.SysfsName()));
    }
  }
  for (const auto group : groups) {
    std::vector<std::string> others;
    for (const auto& member : node.groups.at(group)) {
      if (bundle.Has(member)) continue;
      const auto* device = node.Find(member);
      if (device == nullptr) {
        others.push_back(member.SysfsName() + " (cannot be read)");
      } else if (!host::HoldersOfGroup({*device}).empty()) {
        others.push_back(Describe(*device));
      }
    }
    if (others.empty()) continue;
    return Obstacle(
        kGroupShared,
        fmt::format("IOMMU group {} of {} also has {}: a virtual machine gets a group whole or not "
                    "at all. Switch ACS on in the firmware, put the GPU into another slot, or take "
                    "the others from their drivers (another GPU: bind both, by --all)",
                    group, bundle.Name(), base::Join(others, ", ")));
  }
  return std::nullopt;
}

base::Result<std::optional<base::Error>> CheckConsole(const host::Root& root,
                                                      const Bundle& bundle) {
  for (const auto& function : bundle.functions()) {
    const auto* driver = function.driver.value();
    if (driver == nullptr || host::IsPassthroughDriver(*driver)) continue;
    TRY_ASSIGN(const auto framebuffers, EntriesWith(function.folder / "graphics", "fb"));
    if (framebuffers.empty()) continue;
    TRY_ASSIGN(const bool console, HasFramebufferConsole(root));
    if (!console) continue;
    // The driver of the PCI function is nvidia, that of its display nvidia-drm.
    const std::string argument = (*driver == "nvidia" ? "nvidia-drm" : *driver) + ".modeset=0";
    return Obstacle(
        kConsoleOnGpu,
        fmt::format("the node's text console is on {} ({} of driver {}): make another "
                    "display the first one in the firmware's setup, or set the kernel "
                    "argument {}, and restart the node",
                    function.address.SysfsName(), framebuffers.front(), *driver, argument));
  }
  return std::nullopt;
}

std::vector<MemoryRange> ParseFramebuffers(std::string_view iomem) {
  constexpr std::array<std::string_view, 6> kNames = {
      "BOOTFB", "efifb", "vesafb", "simple-framebuffer", "simplefb", "simpledrm"};
  std::vector<MemoryRange> ranges;
  for (const auto& line : base::Split(iomem, '\n')) {
    const auto dash = line.find('-');
    const auto colon = line.find(" : ");
    if (dash == std::string::npos || colon == std::string::npos || dash > colon) continue;
    const auto name = base::Trim(std::string_view(line).substr(colon + 3));
    const bool known =
        std::ranges::any_of(kNames, [&](auto each) { return name.starts_with(each); });
    const auto first = ParseHex(base::Trim(std::string_view(line).substr(0, dash)));
    const auto last = ParseHex(std::string_view(line).substr(dash + 1, colon - dash - 1));
    // Without the right to see addresses they all are zero.
    if (known && first && last && *last != 0) ranges.push_back({*first, *last, std::string(name)});
  }
  return ranges;
}

std::vector<MemoryRange> ParseResources(std::string_view resource) {
  constexpr std::uint64_t kMemory = 0x200;  // IORESOURCE_MEM
  std::vector<MemoryRange> ranges;
  for (const auto& line : base::Split(resource, '\n')) {
    const auto words = base::SplitTrimmed(line, ' ');
    if (words.size() != 3) continue;
    const auto first = ParseHex(words[0]);
    const auto last = ParseHex(words[1]);
    const auto flags = ParseHex(words[2]);
    if (!first || !last || !flags || (*flags & kMemory) == 0 || *first == 0) continue;
    ranges.push_back({*first, *last, ""});
  }
  return ranges;
}

base::Result<std::optional<base::Error>> CheckFramebuffer(const host::Root& root,
                                                          const PciDevice& device) {
  const auto iomem = base::ReadFile(root.At("/proc/iomem"));
  const auto resource = base::ReadFile(device.folder / "resource");
  for (const auto* text : {&iomem, &resource}) {
    if (*text) continue;
    if (text->error().code == base::Code::kNotFound) return std::nullopt;
    return base::Fail(text->error());
  }
  const auto regions = ParseResources(*resource);
  for (const auto& framebuffer : ParseFramebuffers(*iomem)) {
    const bool inside = std::ranges::any_of(regions, [&](const auto& region) {
      return framebuffer.first <= region.last && region.first <= framebuffer.last;
    });
    if (!inside) continue;
    return Obstacle(kFramebufferOnGpu,
                    fmt::format("the firmware's framebuffer ({}) holds memory of {}, so no virtual "
                                "machine can map it: make another display the first one in the "
                                "firmware's setup, or set the kernel argument "
                                "initcall_blacklist=sysfb_init (before Linux 5.15: "
                                "video=efifb:off), and restart the node",
                                framebuffer.name, device.address.SysfsName()));
  }
  return std::nullopt;
}

}  // namespace pitcrew::node::vfio
