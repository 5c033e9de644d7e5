#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "host/root.h"
#include "node/nfd/sources.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pitcrew::node::nfd {
namespace {

struct NamedCode {
  std::string_view code;
  std::string_view name;
};

#if defined(__x86_64__)

constexpr NamedCode kVendors[] = {
    {"GenuineIntel", "Intel"}, {"AuthenticAMD", "AMD"}, {"AMDisbetter!", "AMD"},
    {"HygonGenuine", "Hygon"}, {"CentaurHauls", "VIA"}, {"VIA VIA VIA ", "VIA"},
};
constexpr NamedCode kHypervisors[] = {
    {"KVMKVMKVM", "kvm"},       {"Microsoft Hv", "msvm"},  {"VMwareVMware", "vmware"},
    {"XenVMMXenVMM", "xenhvm"}, {"bhyve bhyve ", "bhyve"}, {"TCGTCGTCGTCG", "qemu"},
    {"ACRNACRNACRN", "acrn"},
};

struct Registers {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::uint32_t d = 0;
};

Registers Cpuid(std::uint32_t leaf) {
  Registers r;
  __cpuid_count(leaf, 0, r.a, r.b, r.c, r.d);
  return r;
}

// Three registers spell a vendor, padded with zeros.
std::string Spell(std::uint32_t first, std::uint32_t second, std::uint32_t third) {
  std::array<char, 12> text;
  std::memcpy(text.data(), &first, 4);
  std::memcpy(text.data() + 4, &second, 4);
  std::memcpy(text.data() + 8, &third, 4);
  std::string result(text.data(), text.size());
  if (const auto end = result.find('\0'); end != std::string::npos) result.resize(end);
  return result;
}

std::string_view NameOf(std::string_view code, std::span<const NamedCode> names,
                        std::string_view fallback) {
  for (const auto& entry : names) {
    if (entry.code == code) return entry.name;
  }
  return fallback;
}

std::string Hypervisor(const Registers& leaf1) {
  constexpr std::uint32_t kRunsUnderHypervisor = 1U << 31;
  if ((leaf1.c & kRunsUnderHypervisor) == 0) return "none";
  const auto leaf = Cpuid(0x40000000);
  const auto vendor = Spell(leaf.b, leaf.c, leaf.d);
  if (vendor.empty()) return "unknown";
  const auto known = NameOf(vendor, kHypervisors, "");
  if (!known.empty()) return std::string(known);
  std::string cleaned;
  for (const char c : vendor) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
    if (allowed) {
      cleaned.push_back(c);
    } else if (cleaned.empty() || cleaned.back() != '_') {
      cleaned.push_back('_');
    }
  }
  return cleaned;
}

Attributes ReadModel(const HostPaths&) {
  const auto leaf0 = Cpuid(0);
  const auto leaf1 = Cpuid(1);
  const std::uint32_t base_family = (leaf1.a >> 8) & 0xf;
  std::uint32_t family = base_family;
  std::uint32_t model = (leaf1.a >> 4) & 0xf;
  if (base_family == 0xf) family += (leaf1.a >> 20) & 0xff;
  if (base_family == 0x6 || base_family == 0xf) model += ((leaf1.a >> 16) & 0xf) << 4;
  return {{"vendor_id",
           std::string(NameOf(Spell(leaf0.b, leaf0.d, leaf0.c), kVendors, "VendorUnknown"))},
          {"family", fmt::format("{}", family)},
          {"id", fmt::format("{}", model)},
          {"hypervisor", Hypervisor(leaf1)}};
}

#else

struct Implementer {
  std::uint32_t code;
  std::string_view name;
};
constexpr Implementer kImplementers[] = {
    {0xC0, "Ampere"},   {0x41, "ARM"},      {0x42, "Broadcom"}, {0x43, "Cavium"}, {0x44, "DEC"},
    {0x46, "Fujitsu"},  {0x49, "Infineon"}, {0x4D, "Motorola"}, {0x4E, "NVIDIA"}, {0x50, "AMCC"},
    {0x51, "Qualcomm"}, {0x56, "Marvell"},  {0x69, "Intel"}};

// The main identification register of the first processor names its maker in bits 31:24.
Attributes ReadModel(const HostPaths& paths) {
  const auto text =
      base::ReadFile(paths.sys / "devices/system/cpu/cpu0/regs/identification/midr_el1");
  if (!text) return {};
  const auto value = std::strtoull(text->c_str(), nullptr, 16);
  for (const auto& maker : kImplementers) {
    if (maker.code == ((value >> 24) & 0xff)) return {{"vendor_id", std::string(maker.name)}};
  }
  return {{"vendor_id", "VendorUnknown"}};
}

#endif

base::Result<Attributes> ReadTopology(const std::filesystem::path& folder) {
  TRY_ASSIGN(const auto processors, host::ListFolder(folder));
  bool several_threads = false;
  std::set<std::string> sockets;
  for (const auto& processor : processors) {
    const auto topology = folder / processor / "topology";
    TRY_ASSIGN(const auto siblings, base::ReadFile(topology / "thread_siblings_list"));
    TRY_ASSIGN(const auto socket, base::ReadFile(topology / "physical_package_id"));
    if (siblings.find_first_of(",-") != std::string::npos) several_threads = true;
    sockets.emplace(base::Trim(socket));
  }
  return Attributes{{"hardware_multithreading", several_threads ? "true" : "false"},
                    {"socket_count", fmt::format("{}", sockets.size())}};
}

}  // namespace

base::Result<Discovery> DiscoverCpu(const HostPaths& paths) {
  Discovery found;
  auto model = ReadModel(paths);
  for (const auto& [key, value] : model) found.labels["model." + key] = value;
  if (!model.empty()) found.features.attributes["cpu.model"] = std::move(model);
  // A processor that is being taken offline lacks these files: then the feature is left out.
  const auto topology = ReadTopology(paths.sys / "bus/cpu/devices");
  if (topology) {
    found.labels["hardware_multithreading"] = topology->at("hardware_multithreading");
    found.features.attributes["cpu.topology"] = *topology;
  } else if (topology.error().code != base::Code::kNotFound) {
    return base::Fail(topology.error());
  }
  return found;
}

}  // namespace pitcrew::node::nfd
