#include "node/device_plugin/mps.h"

#include <fmt/format.h>

#include <algorithm>

namespace pitcrew::node::device_plugin {

base::Result<std::set<std::string>> MpsResources(const ResourceMap& devices,
                                                 const api::Sharing& sharing) {
  std::set<std::string> resources;
  if (sharing.strategy() != api::SharingStrategy::kMps) return resources;
  for (const auto& [resource, offered] : devices) {
    if (std::ranges::none_of(offered, &OfferedDevice::IsReplica)) continue;
    const auto mig = std::ranges::find_if(offered, &OfferedDevice::IsMig);
    if (mig != offered.end()) {
      return base::Fail(base::Invalid(
          "MpsWithMig",
          fmt::format("sharing using MPS is not supported for MIG devices: {} has {}; "
                      "share it by time-slicing, or switch MIG off",
                      resource, mig->uuid)));
    }
    resources.insert(resource);
  }
  return resources;
}

}  // namespace pitcrew::node::device_plugin
