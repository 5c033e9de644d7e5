#include "node/feature_discovery/vgpu.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "base/file.h"
#include "host/pci.h"

namespace pitcrew::node::feature_discovery {
namespace {

using base::Observed;
using base::Result;

// PCI local bus specification: configuration space and its list of capabilities.
constexpr std::size_t kConfigSize = 256;
constexpr std::size_t kStatus = 0x06;
constexpr unsigned kHasCapabilities = 0x10;
constexpr std::size_t kFirstCapability = 0x34;
constexpr unsigned kVendorSpecific = 0x09;
constexpr unsigned kNoCapability = 0xff;

// The vendor capability of a virtual GPU: id, next, length, 'V', 'F', records.
constexpr std::size_t kRecords = 5;
constexpr unsigned kHostDriverRecord = 0;
constexpr std::size_t kTextSize = 10;

unsigned ByteAt(std::string_view bytes, std::size_t offset) {
  return static_cast<unsigned char>(bytes[offset]);
}

// Up to the zeros around it.
std::string TextAt(std::string_view bytes, std::size_t offset) {
  auto text = bytes.substr(offset, kTextSize);
  while (!text.empty() && text.front() == '\0') text.remove_prefix(1);
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

std::string_view FindVendorCapability(std::string_view config) {
  if (config.size() < kConfigSize || (ByteAt(config, kStatus) & kHasCapabilities) == 0) return {};
  std::set<std::size_t> visited;
  std::size_t offset = ByteAt(config, kFirstCapability);
  while (offset != 0 && offset + 3 <= kConfigSize && visited.insert(offset).second) {
    const unsigned id = ByteAt(config, offset);
    if (id == kNoCapability) break;
    if (id == kVendorSpecific) return config.substr(offset, ByteAt(config, offset + 2));
    offset = ByteAt(config, offset + 1);
  }
  return {};
}

Result<std::optional<Vgpu>> ReadVgpu(std::string_view capability) {
  if (capability.size() < kRecords || capability[3] != 'V' || capability[4] != 'F') {
    return std::nullopt;
  }
  std::size_t offset = kRecords;
  while (offset + 2 <= capability.size()) {
    const auto length = ByteAt(capability, offset + 1);
    if (ByteAt(capability, offset) == kHostDriverRecord) {
      if (offset + 2 + 2 * kTextSize > capability.size()) break;
      return Vgpu{.host_driver_version = TextAt(capability, offset + 2),
                  .host_driver_branch = TextAt(capability, offset + 2 + kTextSize)};
    }
    if (length == 0) break;
    offset += length;
  }
  return base::Fail(base::Invalid("VgpuRecordMissing",
                                  "a virtual GPU does not name its host's driver in its PCI "
                                  "configuration space"));
}

Observed<Vgpu> FindVgpu(const std::filesystem::path& pci_devices) {
  const auto scan = host::ReadPciDevices(pci_devices);
  if (!scan) {
    return scan.error().code == base::Code::kNotFound ? Observed<Vgpu>::Missing()
                                                      : Observed<Vgpu>::Unknown(scan.error());
  }
  if (!scan->failures.empty()) return Observed<Vgpu>::Unknown(scan->failures.front());
  std::optional<Vgpu> found;
  for (const auto& device : scan->devices) {
    if (device.vendor != host::kVendorNvidia) continue;
    const auto file = device.folder / "config";
    const auto config = base::ReadFile(file);
    if (!config) return Observed<Vgpu>::Unknown(config.error());
    if (config->size() < kConfigSize) {
      return Observed<Vgpu>::Unknown(base::Error{
          .code = base::Code::kDenied,
          .reason = "PciConfigTruncated",
          .message = fmt::format("{} gives {} of {} bytes: it takes privileges to read it all",
                                 file.string(), config->size(), kConfigSize)});
    }
    auto vgpu = ReadVgpu(FindVendorCapability(*config));
    if (!vgpu) return Observed<Vgpu>::Unknown(vgpu.error().Within(file.string()));
    if (*vgpu) found = **std::move(vgpu);
  }
  return found ? Observed<Vgpu>::Present(*std::move(found)) : Observed<Vgpu>::Missing();
}

}  // namespace pitcrew::node::feature_discovery
