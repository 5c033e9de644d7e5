#include "node/vfio/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/strings.h"
#include "node/vfio/bundle.h"
#include "node/vfio/preflight.h"

namespace pitcrew::node::vfio {
namespace {

using gpu::PciAddress;

base::Status CheckGroupsOfSides(const Node& node, const std::vector<host::PciDevice>& gpus,
                                const std::set<PciAddress>& chosen) {
  for (const auto& bundle : MakeBundles(node, gpus)) {
    const auto is_chosen = [&](const Unit& unit) { return chosen.contains(unit.device.address); };
    const auto count = std::ranges::count_if(bundle.units, is_chosen);
    if (count == 0 || static_cast<std::size_t>(count) == bundle.units.size()) continue;
    return base::Fail(base::Invalid(
        std::string(kGroupShared),
        fmt::format(
            "{} share an IOMMU group, which a virtual machine gets whole or not at all: name "
            "all of them, or none; or switch ACS on in the firmware",
            bundle.Name())));
  }
  return {};
}

}  // namespace

base::Result<std::set<PciAddress>> ReadSplit(const Node& node, std::string_view list) {
  TRY_ASSIGN(const auto gpus, SelectDevices(node, {}));
  std::set<PciAddress> there;
  std::vector<std::string> names;
  for (const auto& gpu : gpus) {
    there.insert(gpu.address);
    names.push_back(gpu.address.SysfsName());
  }
  std::set<PciAddress> chosen;
  for (const auto& word : base::SplitTrimmed(list, ',')) {
    TRY_ASSIGN(const auto address, PciAddress::Parse(word));
    if (!there.contains(address)) {
      return base::Fail(base::Invalid(
          "UnknownGpu", fmt::format("this node has no GPU {}; it has {}", address.SysfsName(),
                                    names.empty() ? "none" : base::Join(names, ", "))));
    }
    chosen.insert(address);
  }
  if (!there.empty() && chosen == there) {
    return base::Fail(base::Invalid("NoGpuForContainers",
                                    "all GPUs of this node would be for virtual machines: that is "
                                    "the workload vm-passthrough"));
  }
  TRY(CheckGroupsOfSides(node, gpus, chosen));
  return chosen;
}

}  // namespace pitcrew::node::vfio
