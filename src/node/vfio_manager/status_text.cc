#include "node/vfio_manager/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "host/iommu.h"
#include "host/vfio_device.h"
#include "node/vfio/users.h"

namespace pitcrew::node::vfio_manager {
namespace {

using codec::Json;
using vfio::DeviceStatus;
using Row = std::array<std::string, 6>;

std::string KindOf(const DeviceStatus& status) {
  return host::IsNvSwitch(status.device) ? "nvswitch" : "gpu";
}

template <class T>
std::string TextOf(const base::Observed<T>& value) {
  if (value.is_unknown()) return "?";
  return value.is_present() ? fmt::format("{}", *value.value()) : "-";
}

template <class T>
Json JsonOf(const base::Observed<T>& value) {
  return value.is_present() ? Json(*value.value()) : Json();
}

std::string StateOf(const DeviceStatus& status) {
  if (!status.obstacles.empty()) return status.obstacles.front().reason;
  if (status.ready) return status.users.empty() ? "ready" : "ready, in use";
  const auto* driver = status.device.driver.value();
  if (driver == nullptr) return "free";
  // The GPU is with VFIO, a companion of it is not.
  if (host::IsVfioDriver(*driver)) return "incomplete";
  return status.users.empty() ? "with its driver" : "with its driver, in use";
}

std::vector<std::string> NamesOf(const std::vector<gpu::PciAddress>& addresses) {
  std::vector<std::string> names;
  names.reserve(addresses.size());
  for (const auto& address : addresses) names.push_back(address.SysfsName());
  return names;
}

Json ErrorJson(const base::Error& error) {
  return {{"reason", error.reason}, {"message", error.message}};
}

Json DeviceJson(const DeviceStatus& status) {
  Json device = {{"address", status.device.address.SysfsName()},
                 {"kind", KindOf(status)},
                 {"id", fmt::format("{:04x}:{:04x}", status.device.vendor, status.device.device)},
                 {"driver", JsonOf(status.device.driver)},
                 {"vfioModule", status.best_module},
                 {"iommuGroup", JsonOf(status.device.iommu_group)},
                 {"companions", Json::array()},
                 {"sharesGroupWith", NamesOf(status.sharing)},
                 {"ready", status.ready},
                 {"obstacles", Json::array()},
                 {"users", Json::array()}};
  for (const auto& companion : status.companions) {
    device["companions"].push_back(
        {{"address", companion.address.SysfsName()}, {"driver", JsonOf(companion.driver)}});
  }
  for (const auto& obstacle : status.obstacles) device["obstacles"].push_back(ErrorJson(obstacle));
  for (const auto& user : status.users) {
    device["users"].push_back(
        {{"process", user.pid}, {"program", user.program}, {"files", user.files}});
  }
  return device;
}

}  // namespace

std::string ToTable(const vfio::NodeStatus& status) {
  std::vector<Row> rows = {{"DEVICE", "KIND", "DRIVER", "VFIO MODULE", "GROUP", "STATE"}};
  for (const auto& device : status.devices) {
    rows.push_back({device.device.address.SysfsName(), KindOf(device), TextOf(device.device.driver),
                    device.best_module.empty() ? "?" : device.best_module,
                    TextOf(device.device.iommu_group), StateOf(device)});
  }
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      text += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += row.back() + "\n";
  }
  for (const auto& device : status.devices) {
    const auto name = device.device.address.SysfsName();
    for (const auto& obstacle : device.obstacles) {
      text += fmt::format("\n{}: {}: {}\n", name, obstacle.reason, obstacle.message);
    }
    if (!device.users.empty()) {
      text += fmt::format("\n{} is in use by {}\n", name, vfio::NamesOf(device.users));
    }
  }
  for (const auto& failure : status.failures) text += fmt::format("\n{}\n", failure.ToString());
  return text;
}

Json ToJson(const vfio::NodeStatus& status) {
  Json json = {{"devices", Json::array()}, {"failures", Json::array()}};
  for (const auto& device : status.devices) json["devices"].push_back(DeviceJson(device));
  for (const auto& failure : status.failures) json["failures"].push_back(ErrorJson(failure));
  return json;
}

}  // namespace pitcrew::node::vfio_manager
