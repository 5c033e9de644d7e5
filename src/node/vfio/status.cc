#include "node/vfio/status.h"

#include <algorithm>

#include "host/iommu.h"
#include "host/vfio_device.h"
#include "node/vfio/bundle.h"
#include "node/vfio/preflight.h"
#include "node/vfio/users.h"
#include "node/vfio/variants.h"

namespace pitcrew::node::vfio {
namespace {

// Obstacles of everything that changes hands together.
base::Result<std::vector<base::Error>> ObstaclesOf(const Settings& settings, const Node& node,
                                                   const Bundle& bundle) {
  std::vector<base::Error> obstacles;
  if (const auto off = CheckTranslation(node.translation)) {
    obstacles.push_back(*off);
  } else if (const auto groups = CheckGroups(node, bundle)) {
    obstacles.push_back(*groups);
  }
  TRY_ASSIGN(const auto console, CheckConsole(settings.root, bundle));
  if (console) obstacles.push_back(*console);
  for (const auto& unit : bundle.units) {
    const auto* driver = unit.device.driver.value();
    if (driver == nullptr || !host::IsVfioDriver(*driver)) continue;
    TRY_ASSIGN(const auto framebuffer, CheckFramebuffer(settings.root, unit.device));
    if (framebuffer) obstacles.push_back(*framebuffer);
  }
  return obstacles;
}

bool IsWithVfio(const host::PciDevice& function) {
  const auto* driver = function.driver.value();
  return driver != nullptr && host::IsVfioDriver(*driver);
}

}  // namespace

base::Result<NodeStatus> ReadStatus(const Settings& settings) {
  TRY_ASSIGN(const auto node, ReadNode(settings));
  TRY_ASSIGN(const auto devices, SelectDevices(node, {.device = {}, .switches = true}));
  const auto variants = Variants::Read(settings);
  NodeStatus all{.devices = {}, .failures = node.unread};
  for (const auto& bundle : MakeBundles(node, devices)) {
    TRY_ASSIGN(const auto obstacles, ObstaclesOf(settings, node, bundle));
    for (const auto& unit : bundle.units) {
      DeviceStatus status;
      status.device = unit.device;
      status.companions = unit.companions;
      status.obstacles = obstacles;
      if (variants) status.best_module = variants->ModuleFor(unit.device).value_or("");
      if (const auto* group = unit.device.iommu_group.value()) {
        for (const auto& member : node.groups.at(*group)) {
          const bool own = member == unit.device.address ||
                           std::ranges::find(unit.companions, member, &host::PciDevice::address) !=
                               unit.companions.end();
          if (!own) status.sharing.push_back(member);
        }
      }
      std::vector<host::PciDevice> functions = unit.companions;
      functions.push_back(unit.device);
      TRY_ASSIGN(status.users, FindUsers(settings, functions));
      status.ready = obstacles.empty() && std::ranges::all_of(functions, IsWithVfio);
      all.devices.push_back(std::move(status));
    }
  }
  std::ranges::sort(all.devices, {}, [](const DeviceStatus& each) { return each.device.address; });
  return all;
}

}  // namespace pitcrew::node::vfio
