#include "node/vfio_manager/conclude.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "node/own_node/own_node.h"

namespace pitcrew::node::vfio_manager {
namespace {

std::vector<std::string> NamesIf(const vfio::Report& report, auto&& condition) {
  std::vector<std::string> names;
  for (const auto& device : report.devices) {
    if (condition(device)) names.push_back(device.device.SysfsName());
  }
  return names;
}

// What people read with `kubectl describe node`. The GPUs are changed already: that the API server
// cannot be told is no failure of theirs.
void TellNode(const Options& options, const vfio::Report& report) {
  if (options.node_name.empty()) return;
  const auto node = own_node::OwnNode::Open(
      options.kubeconfig,
      {.node_name = options.node_name, .component = "vfio-manager", .pod_name = ""});
  if (!node) {
    base::LogInfo("The node gets no Events", {{"reason", node.error().message}});
    return;
  }
  // One Event for what several devices have in common.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> failures;
  for (const auto& device : report.devices) {
    if (!device.failure) continue;
    failures[{device.failure->reason, device.failure->message}].push_back(
        device.device.SysfsName());
  }
  for (const auto& failure : report.failures) failures[{failure.reason, failure.message}] = {};
  for (const auto& [what, devices] : failures) {
    const auto names = base::Join(devices, ", ");
    (*node)->Record(kube::EventType::kWarning, what.first,
                    names.empty() ? what.second : fmt::format("{}: {}", names, what.second));
  }
  const auto changed = NamesIf(report, [](const auto& device) { return device.changed; });
  if (changed.empty()) return;
  const bool bound = options.action == Action::kBind;
  (*node)->Record(kube::EventType::kNormal, bound ? "BoundToVfio" : "TakenFromVfio",
                  fmt::format("{} {}", base::Join(changed, ", "),
                              bound ? "can be given to virtual machines"
                                    : "can be used by the node's driver again"));
}

}  // namespace

base::Status Conclude(const Options& options, const vfio::Report& report) {
  const std::string verb = options.action == Action::kBind ? "bind" : "unbind";
  for (const auto& failure : report.failures) {
    base::LogWarning(fmt::format("Failed to {} a device", verb), failure);
  }
  for (const auto& device : report.devices) {
    const auto name = device.device.SysfsName();
    if (device.failure) {
      base::LogWarning(fmt::format("Failed to {} device {}", verb, name), *device.failure);
    } else {
      base::LogInfo(fmt::format("Device {} is done", name),
                    {{"driver", device.driver.empty() ? "none" : device.driver},
                     {"changed", device.changed}});
    }
  }
  TellNode(options, report);
  if (report.done()) return {};
  if (!options.all && report.devices.size() == 1) {
    return base::Fail(report.devices.front().failure->Within(
        options.action == Action::kBind
            ? fmt::format("failed to bind device {} to vfio driver", options.device)
            : fmt::format("failed to unbind device {} from driver", options.device)));
  }
  auto failed = NamesIf(report, [](const auto& device) { return device.failure.has_value(); });
  if (!report.failures.empty()) failed.emplace_back("devices that cannot be read");
  return base::Fail(base::Unavailable(
      "DevicesFailed", fmt::format("failed to {} {}; each is named above with its reason", verb,
                                   base::Join(failed, ", "))));
}

}  // namespace pitcrew::node::vfio_manager
