#include "node/device_plugin/reporter.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "prom/process.h"

namespace pitcrew::node::device_plugin {
namespace {

constexpr const char* kComponent = "nvidia-device-plugin";

}  // namespace

base::Result<std::unique_ptr<Reporter>> Reporter::Create(const Options& options) {
  std::unique_ptr<Reporter> reporter(new Reporter());
  TRY(reporter->MakeMetrics());
  TRY(reporter->reporting_.ServeMetrics(options.metrics_address));
  reporter->reporting_.SendEvents(
      options.kubeconfig,
      {.node_name = options.node_name, .component = kComponent, .pod_name = options.pod_name});
  return reporter;
}

base::Status Reporter::MakeMetrics() {
  auto& registry = reporting_.registry();
  TRY_ASSIGN(gpu_healthy_,
             registry.MakeGauge("pitcrew_device_plugin_gpu_healthy",
                                "1 for a GPU that is fit for work, 0 for one that is not, since "
                                "something was first wrong with it",
                                {"gpu"}));
  TRY_ASSIGN(xids_, registry.MakeCounter("pitcrew_device_plugin_xid_errors_total",
                                         "XIDs that made a GPU unfit, or its state worse",
                                         {"gpu", "xid"}));
  TRY_ASSIGN(devices_, registry.MakeGauge("pitcrew_device_plugin_devices",
                                          "Devices as the kubelet is told of them, replicas "
                                          "counted",
                                          {"resource", "health"}));
  TRY_ASSIGN(refused_, registry.MakeCounter("pitcrew_device_plugin_refused_configurations_total",
                                            "Reloads that kept the configuration of before"));
  return {};
}

void Reporter::GpuChanged(const HealthChange& change) {
  gpu_healthy_->Set(change.healthy ? 1 : 0, {change.gpu_uuid});
  if (change.xid != 0) xids_->Add(1, {change.gpu_uuid, std::to_string(change.xid)});
  if (change.healthy) {
    reporting_.Record(kube::EventType::kNormal, "GpuHealthy",
                      fmt::format("GPU {} is fit for work again", change.gpu_uuid));
  } else {
    reporting_.Record(kube::EventType::kWarning, "GpuUnhealthy",
                      fmt::format("GPU {} gets no new pods: {}", change.gpu_uuid, change.reason));
  }
}

void Reporter::Unreadable(const std::map<std::string, std::string>& gpus) {
  for (const auto& [gpu, reason] : gpus) {
    if (unreadable_.contains(gpu)) continue;
    base::LogWarning("GPU cannot be read", {{"gpu", gpu}, {"reason", reason}});
    gpu_healthy_->Set(0, {gpu});
    reporting_.Record(
        kube::EventType::kWarning, "GpuUnreadable",
        fmt::format("GPU {} cannot be read and is listed unhealthy: {}", gpu, reason));
  }
  for (const auto& [gpu, reason] : unreadable_) {
    if (gpus.contains(gpu)) continue;
    base::LogInfo("GPU can be read again", {{"gpu", gpu}});
    gpu_healthy_->Remove({gpu});
    reporting_.Record(kube::EventType::kNormal, "GpuReadable",
                      fmt::format("GPU {} can be read again", gpu));
  }
  unreadable_ = gpus;
}

void Reporter::SettingsRefused(const base::Error& error) {
  // The same again comes of a second try, not of a second configuration.
  if (std::exchange(refused_last_, error.ToString()) == error.ToString()) return;
  refused_->Add();
  base::LogError("the configuration is not taken; the one of before goes on", error);
  reporting_.Record(kube::EventType::kWarning, "DevicePluginConfigRefused",
                    fmt::format("the device plugin goes on with its last good configuration: {}",
                                error.ToString()));
}

void Reporter::SettingsTaken() {
  if (std::exchange(refused_last_, "").empty()) return;
  reporting_.Record(kube::EventType::kNormal, "DevicePluginConfigTaken",
                    "the device plugin's configuration is good again, and in force");
}

void Reporter::Listed(const std::string& resource, std::size_t healthy, std::size_t unhealthy) {
  devices_->Set(static_cast<double>(healthy), {resource, "healthy"});
  devices_->Set(static_cast<double>(unhealthy), {resource, "unhealthy"});
}

void Reporter::Withdrawn(const std::string& resource) {
  devices_->Remove({resource, "healthy"});
  devices_->Remove({resource, "unhealthy"});
}

}  // namespace pitcrew::node::device_plugin
