#include "node/sandbox_device_plugin/reporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "prom/process.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

const std::vector<OfferedDevice>& Of(const Resources& resources, const std::string& resource) {
  static const std::vector<OfferedDevice> kNone;
  const auto found = resources.find(resource);
  return found == resources.end() ? kNone : found->second;
}

}  // namespace

base::Result<std::unique_ptr<Reporter>> Reporter::Create(const Options& options) {
  std::unique_ptr<Reporter> reporter(new Reporter());
  TRY(reporter->MakeMetrics());
  TRY(reporter->reporting_.ServeMetrics(options.metrics_address));
  reporter->reporting_.SendEvents(options.kubeconfig,
                                  {.node_name = options.node_name,
                                   .component = std::string(ProgramName(options.client)),
                                   .pod_name = options.pod_name});
  return reporter;
}

base::Status Reporter::MakeMetrics() {
  auto& registry = reporting_.registry();
  TRY_ASSIGN(devices_, registry.MakeGauge("pitcrew_sandbox_device_plugin_devices",
                                          "Devices for virtual machines as the kubelet is told of "
                                          "them",
                                          {"resource", "health"}));
  return {};
}

void Reporter::Changed(const Resources& before, const Resources& now) {
  for (const auto& [resource, devices] : now) {
    Compare(resource, Of(before, resource), devices);
    const auto unfit = std::ranges::count_if(
        devices, [](const OfferedDevice& device) { return !device.unfit.empty(); });
    devices_->Set(static_cast<double>(devices.size()) - static_cast<double>(unfit),
                  {resource, "healthy"});
    devices_->Set(static_cast<double>(unfit), {resource, "unhealthy"});
  }
  for (const auto& [resource, devices] : before) {
    if (now.contains(resource)) continue;
    Compare(resource, devices, {});
    devices_->Remove({resource, "healthy"});
    devices_->Remove({resource, "unhealthy"});
  }
}

void Reporter::Compare(const std::string& resource, const std::vector<OfferedDevice>& before,
                       const std::vector<OfferedDevice>& now) {
  for (const auto& device : now) {
    const auto old = std::ranges::find(before, device.id, &OfferedDevice::id);
    const bool is_new = old == before.end();
    if (!is_new && old->unfit == device.unfit) continue;
    if (!device.unfit.empty()) {
      base::LogWarning("no virtual machine can have a device",
                       {{"resource", resource}, {"device", device.id}, {"why", device.unfit}});
      reporting_.Record(kube::EventType::kWarning, "SandboxDeviceUnhealthy",
                        fmt::format("device {} of {} gets to no virtual machine: {}", device.id,
                                    resource, device.unfit));
    } else {
      base::LogInfo(is_new ? "offered" : "fit again",
                    {{"resource", resource}, {"device", device.id}});
      if (!is_new) {
        reporting_.Record(
            kube::EventType::kNormal, "SandboxDeviceHealthy",
            fmt::format("device {} of {} is fit for virtual machines again", device.id, resource));
      }
    }
  }
  for (const auto& device : before) {
    if (std::ranges::find(now, device.id, &OfferedDevice::id) != now.end()) continue;
    base::LogInfo("no longer there", {{"resource", resource}, {"device", device.id}});
  }
  if (before.size() == now.size()) return;
  reporting_.Record(kube::EventType::kNormal, "SandboxDevicesChanged",
                    fmt::format("{} has {} device{} for virtual machines now, {} before", resource,
                                now.size(), now.size() == 1 ? "" : "s", before.size()));
}

void Reporter::Warn(const std::vector<std::string>& warnings) {
  for (const auto& warning : warnings) {
    if (std::ranges::find(warned_, warning) != warned_.end()) continue;
    base::LogWarning(warning);
    reporting_.Record(kube::EventType::kWarning, "SandboxDevicesWarning", warning);
  }
  warned_ = warnings;
}

}  // namespace pitcrew::node::sandbox_device_plugin
