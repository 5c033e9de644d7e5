#include "host/vfio_device.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEgmPrefix = "egm";

std::vector<std::string> Words(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return base::SplitTrimmed(text, ' ');
}

// A folder that is not there is empty.
base::Result<std::vector<std::string>> ListOrNothing(const fs::path& folder) {
  auto names = ListFolder(folder);
  if (!names && names.error().code == base::Code::kNotFound) return std::vector<std::string>();
  return names;
}

}  // namespace

bool IsVfioDriver(std::string_view driver) {
  return driver.ends_with("vfio-pci") || driver.ends_with("vfio_pci");
}

base::Result<std::set<std::string>> ListVfioNodes(const Root& root) {
  const auto folder = root.At("/dev/vfio");
  TRY_ASSIGN(const auto names, ListFolder(folder));
  std::set<std::string> nodes(names.begin(), names.end());
  if (nodes.erase("devices") == 0) return nodes;
  TRY_ASSIGN(const auto devices, ListOrNothing(folder / "devices"));
  for (const auto& name : devices) nodes.insert("devices/" + name);
  return nodes;
}

base::Result<std::vector<std::string>> VfioNodes(const fs::path& device) {
  std::vector<std::string> nodes;
  const auto group = ReadLink(device / "iommu_group");
  if (group) nodes.push_back(fs::path(*group).filename().string());
  if (!group && group.error().code != base::Code::kNotFound) return base::Fail(group.error());
  TRY_ASSIGN(const auto character_devices, ListOrNothing(device / "vfio-dev"));
  for (const auto& name : character_devices) nodes.push_back("devices/" + name);
  return nodes;
}

base::Result<EgmScan> ReadEgmDevices(const Root& root) {
  const auto folder = root.At("/sys/class/egm");
  TRY_ASSIGN(const auto names, ListOrNothing(folder));
  EgmScan scan;
  for (const auto& name : names) {
    if (!name.starts_with(kEgmPrefix)) continue;
    auto gpus = ReadAttribute(folder / name / "gpu_devices");
    if (!gpus) {
      scan.failures.push_back(std::move(gpus).error());
      continue;
    }
    EgmDevice device{name, Words(*std::move(gpus))};
    if (!device.gpus.empty()) scan.devices.push_back(std::move(device));
  }
  return scan;
}

}  // namespace pitcrew::host
