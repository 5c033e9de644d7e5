#include "host/mdev.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "host/folder.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;
using gpu::PciAddress;

base::Error NoMdev(const fs::path& folder) {
  return base::NotFound(
      "NoMdev",
      fmt::format("the kernel has no mediated devices ({} is missing): the vGPU driver is "
                  "not loaded, or uses the vendor-specific VFIO framework",
                  folder.string()));
}

base::Result<std::vector<std::string>> ListOf(const fs::path& folder) {
  auto names = ListFolder(folder);
  if (!names && names.error().code == base::Code::kNotFound) return base::Fail(NoMdev(folder));
  return names;
}

fs::path ParentFolder(const Root& root, const PciAddress& parent) {
  return root.At("/sys/class/mdev_bus") / parent.SysfsName();
}

// "num_heads=4, frl_config=60, framebuffer=4096M, max_resolution=4096x2160, max_instance=6".
std::optional<std::uint64_t> MostInstances(std::string_view description) {
  constexpr std::string_view kMost = "max_instance=";
  for (const auto& part : base::SplitTrimmed(description, ',')) {
    if (!part.starts_with(kMost)) continue;
    const auto number = base::ParseUnsigned(std::string_view(part).substr(kMost.size()));
    if (number) return *number;
  }
  return std::nullopt;
}

base::Result<std::string> LinkName(const fs::path& link) {
  TRY_ASSIGN(const auto target, ReadLink(link));
  return fs::path(target).filename().string();
}

base::Result<std::uint32_t> ReadGroup(const fs::path& link) {
  TRY_ASSIGN(const auto name, LinkName(link));
  TRY_ASSIGN(const auto number, base::ParseUnsigned(name));
  return static_cast<std::uint32_t>(number);
}

// Nothing when its parent is of another bus.
base::Result<std::optional<MdevDevice>> ReadMdev(const fs::path& link) {
  // It leads to .../<parent's address>/<uuid>.
  TRY_ASSIGN(const auto target, ReadLink(link));
  const auto parent = PciAddress::Parse(fs::path(target).parent_path().filename().string());
  if (!parent) return std::nullopt;
  MdevDevice device;
  device.uuid = link.filename().string();
  device.parent = *parent;
  TRY_ASSIGN(device.type_name, ReadAttribute(link / "mdev_type/name"));
  device.driver = base::Observed<std::string>::From(LinkName(link / "driver"));
  device.iommu_group = base::Observed<std::uint32_t>::From(ReadGroup(link / "iommu_group"));
  return device;
}

}  // namespace

base::Result<std::vector<PciAddress>> ListMdevParents(const Root& root) {
  TRY_ASSIGN(const auto names, ListOf(root.At("/sys/class/mdev_bus")));
  std::vector<PciAddress> parents;
  for (const auto& name : names) {
    // Of other buses, for example channels of mainframes.
    if (const auto address = PciAddress::Parse(name)) parents.push_back(*address);
  }
  std::ranges::sort(parents);
  return parents;
}

base::Result<std::vector<MdevType>> ListMdevTypes(const Root& root, const PciAddress& parent) {
  const auto path = ParentFolder(root, parent) / "mdev_supported_types";
  TRY_ASSIGN(const auto ids, ListOf(path));
  TRY_ASSIGN(const auto folder, Folder::Open(path));
  std::vector<MdevType> types;
  for (const auto& id : ids) {
    MdevType type;
    type.id = id;
    TRY_ASSIGN(const auto name, folder.Read(fs::path(id) / "name"));
    type.name = base::Trim(name);
    TRY_ASSIGN(const auto available, folder.Read(fs::path(id) / "available_instances"));
    TRY_ASSIGN(type.available, base::ParseUnsigned(base::Trim(available)));
    // Optional in the kernel's ABI.
    if (const auto text = folder.Read(fs::path(id) / "description")) {
      type.most = MostInstances(base::Trim(*text));
    }
    types.push_back(std::move(type));
  }
  return types;
}

base::Result<MdevScan> ScanMdevs(const Root& root) {
  const auto folder = root.At("/sys/bus/mdev/devices");
  TRY_ASSIGN(const auto uuids, ListOf(folder));
  MdevScan scan;
  for (const auto& uuid : uuids) {
    auto device = ReadMdev(folder / uuid);
    if (device) {
      if (*device) scan.devices.push_back(**std::move(device));
      continue;
    }
    const auto still_there = Exists(folder / uuid);
    if (still_there && !*still_there) continue;
    scan.unreadable.emplace(uuid, std::move(device).error());
  }
  return scan;
}

base::Result<std::vector<MdevDevice>> ListMdevs(const Root& root) {
  TRY_ASSIGN(auto scan, ScanMdevs(root));
  if (!scan.unreadable.empty()) return base::Fail(scan.unreadable.begin()->second);
  return std::move(scan.devices);
}

base::Status CreateMdev(const Root& root, const PciAddress& parent, std::string_view type_id,
                        std::string_view uuid) {
  TRY_ASSIGN(const bool taken, Exists(root.At("/sys/bus/mdev/devices") / fs::path(uuid)));
  if (taken) {
    return base::Fail(base::Error{base::Code::kConflict, "MdevExists",
                                  fmt::format("there is a mediated device {} already", uuid)});
  }
  return WriteAttribute(
      ParentFolder(root, parent) / "mdev_supported_types" / fs::path(type_id) / "create", uuid,
      fmt::format("make a {} on {}", type_id, parent.SysfsName()));
}

base::Status RemoveMdev(const Root& root, std::string_view uuid) {
  const auto folder = root.At("/sys/bus/mdev/devices") / fs::path(uuid);
  TRY_ASSIGN(const bool there, Exists(folder));
  if (!there) return {};
  return WriteAttribute(folder / "remove", "1", fmt::format("remove mediated device {}", uuid));
}

}  // namespace pitcrew::host
