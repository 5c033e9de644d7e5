#include "node/validator/node_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "api/qualification.h"
#include "base/log.h"
#include "host/pci.h"
#include "host/root.h"
#include "node/own_node/own_node.h"
#include "prom/process.h"

namespace pitcrew::node::validator {
namespace {

// Upstream's interval. Status files are seen at once.
constexpr std::chrono::seconds kDevicePeriod{30};
constexpr std::uint16_t kNvidia = 0x10de;

double Now() {
  const std::chrono::duration<double> since = base::WallClock::now().time_since_epoch();
  return std::floor(since.count());
}

// Devices of the resources that are GPUs or parts of them.
std::int64_t SumOfDevices(const codec::Json& capacity) {
  std::int64_t sum = 0;
  for (const auto& [resource, quantity] : capacity.items()) {
    if (!resource.starts_with("nvidia.com/gpu") && !resource.starts_with("nvidia.com/mig-")) {
      continue;
    }
    const auto text = quantity.is_string() ? quantity.get<std::string>() : quantity.dump();
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    sum += number;
  }
  return sum;
}

}  // namespace

NodeStatus::NodeStatus(const Options& options, Cluster& cluster)
    : options_(options), cluster_(cluster) {}

void NodeStatus::Set(prom::Gauge* gauge, double value) { gauge->Set(value, {options_.node_name}); }

base::Status NodeStatus::MakeMetrics() {
  struct Metric {
    prom::Gauge** gauge;
    const char* name;
    const char* help;
  };
  const std::array<Metric, 10> metrics = {
      {{&started_, "gpu_operator_node_metrics_ready_ts_seconds",
        "Unix time at which this exporter started"},
       {&driver_ready_, "gpu_operator_node_driver_ready",
        "1 if the driver was validated on this node"},
       {&toolkit_ready_, "gpu_operator_node_toolkit_ready",
        "1 if the container toolkit was validated on this node"},
       {&plugin_ready_, "gpu_operator_node_plugin_ready",
        "1 if the device plugin was validated on this node"},
       {&cuda_ready_, "gpu_operator_node_cuda_ready", "1 if CUDA was validated on this node"},
       {&driver_valid_, "gpu_operator_node_driver_validation",
        "1 if the driver works at the moment"},
       {&driver_valid_at_, "gpu_operator_node_driver_validation_last_success_ts_seconds",
        "Unix time at which the driver worked last; 0 before"},
       {&devices_, "gpu_operator_node_device_plugin_devices_total",
        "GPU devices in the node's capacity; -1 when the node cannot be read"},
       {&devices_at_, "gpu_operator_node_device_plugin_validation_last_success_ts_seconds",
        "Unix time at which the node had devices last; 0 before"},
       {&pci_devices_, "gpu_operator_nvidia_pci_devices_total",
        "NVIDIA's PCI devices in this machine; -1 when they cannot be read"}}};
  for (const auto& metric : metrics) {
    TRY_ASSIGN(*metric.gauge, registry_.MakeGauge(metric.name, metric.help, {"node"}));
    Set(*metric.gauge, 0);
  }
  TRY_ASSIGN(qualification_state_,
             registry_.MakeGauge("gpu_operator_node_qualification_state",
                                 "1 for the state of the qualification of the node's GPUs: "
                                 "pending, running, passed or failed",
                                 {"node", "state"}));
  TRY_ASSIGN(qualification_at_,
             registry_.MakeGauge("gpu_operator_node_qualification_ts_seconds",
                                 "Unix time at which that state began", {"node"}));
  TRY_ASSIGN(qualified_gpus_,
             registry_.MakeGauge("gpu_operator_node_qualification_gpu_passed",
                                 "1 if the GPU passed its last qualification, 0 if it failed",
                                 {"node", "gpu", "UUID"}));
  collecting_ = registry_.Collect(prom::ExposeProcess);
  Set(started_, Now());
  return {};
}

base::Status NodeStatus::Listen() {
  const auto metrics = [this] {
    return io::HttpAnswer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = registry_.Render()};
  };
  TRY_ASSIGN(server_, io::HttpServer::Start(fmt::format(":{}", options_.metrics_port),
                                            {{"/metrics", metrics}}));
  port_ = server_->port();
  base::LogInfo("listening", {{"port", server_->port()}});
  return {};
}

// One that does not exist yet comes: then its nearest existing parent is watched meanwhile.
void NodeStatus::WatchFolder() {
  auto folder = options_.output_folder;
  while (!watcher_->Watch(folder) && folder.has_relative_path()) folder = folder.parent_path();
}

void NodeStatus::LookAtFiles() {
  const std::pair<const char*, prom::Gauge*> files[] = {{kDriverReady, driver_ready_},
                                                        {kToolkitReady, toolkit_ready_},
                                                        {kPluginReady, plugin_ready_},
                                                        {kCudaReady, cuda_ready_}};
  for (const auto& [name, gauge] : files) {
    const auto there = StatusFolder(options_.output_folder).Has(name);
    if (there) {
      Set(gauge, *there ? 1 : 0);
    } else {
      // Unknown is not absent: what was known stands.
      base::LogWarning("a status file cannot be looked at", there.error());
    }
  }
}

void NodeStatus::CountDevices(const io::StopToken& stop) {
  const auto node = [&]() -> base::Result<codec::Json> {
    TRY_ASSIGN(const auto client, cluster_.client());
    return client->Get(kube::kNodes, {"", options_.node_name}, stop);
  }();
  if (!node) {
    if (node.error().code == base::Code::kCancelled) return;
    base::LogWarning("the node's devices are not known", node.error());
    Set(devices_, -1);
    return;
  }
  const auto capacity =
      node->value("/status/capacity"_json_pointer, codec::Json(codec::Json::object()));
  const auto devices = SumOfDevices(capacity);
  Set(devices_, static_cast<double>(devices));
  if (devices != 0) Set(devices_at_, Now());
  TellQualification(*node);
}

void NodeStatus::TellQualification(const codec::Json& node) {
  for (auto* gauge : {qualification_state_, qualification_at_}) gauge->Clear();
  const auto told = api::ParseQualification(own_node::AnnotationOf(node, api::kQualification));
  // While GPUs are tested again, what they passed before is told no more.
  qualified_gpus_->Clear();
  if (!told) return;
  qualification_state_->Set(1, {options_.node_name, std::string(ToString(told->state))});
  if (const auto time = base::ParseRfc3339(told->time)) {
    const std::chrono::duration<double> since = time->time_since_epoch();
    Set(qualification_at_, since.count());
  }
  for (const auto& gpu : told->gpus) {
    qualified_gpus_->Set(gpu.passed ? 1 : 0,
                         {options_.node_name, std::to_string(gpu.index), gpu.uuid});
  }
}

void NodeStatus::CountPciDevices() {
  const auto scan = host::ReadPciDevices(options_.pci_devices);
  if (!scan) {
    base::LogWarning("PCI devices cannot be read", scan.error());
    Set(pci_devices_, -1);
    return;
  }
  Set(pci_devices_,
      static_cast<double>(std::ranges::count(scan->devices, kNvidia, &host::PciDevice::vendor)));
}

void NodeStatus::CheckTheDriver(const io::StopToken& stop) {
  const auto works = CheckDriver(options_, cluster_, stop);
  if (!works && works.error().code == base::Code::kCancelled) return;
  if (!works && !SaysNoDriver(works.error())) {
    // Unknown is not absent: what was known stands.
    base::LogWarning("whether the driver works is not known", works.error());
    return;
  }
  if (!works) base::LogWarning("the driver does not work", works.error());
  Set(driver_valid_, works ? 1 : 0);
  if (works) Set(driver_valid_at_, Now());
}

base::Status NodeStatus::Run(const io::StopToken& stop) {
  TRY(MakeMetrics());
  TRY_ASSIGN(watcher_, io::FileWatcher::Create());
  WatchFolder();
  LookAtFiles();
  TRY(Listen());
  auto devices = base::Deadline::After({});
  auto driver = base::Deadline::After({});
  while (true) {
    const auto ready = io::WaitReadable({watcher_->fd()}, stop, std::min(devices, driver));
    if (!ready && ready.error().code == base::Code::kCancelled) return {};
    if (!ready && ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
    if (ready) {
      TRY_ASSIGN(const auto changes, watcher_->Take());
      WatchFolder();
      LookAtFiles();
    }
    if (devices.passed()) {
      devices = base::Deadline::After(kDevicePeriod);
      CountDevices(stop);
      // Also what no event tells of: a folder whose file system was mounted over.
      WatchFolder();
      LookAtFiles();
    }
    if (driver.passed()) {
      driver = base::Deadline::After(options_.driver_period);
      CountPciDevices();
      CheckTheDriver(stop);
    }
  }
}

base::Status ExportNodeStatus(const Options& options, Cluster& cluster, const io::StopToken& stop) {
  return NodeStatus(options, cluster).Run(stop);
}

}  // namespace pitcrew::node::validator
