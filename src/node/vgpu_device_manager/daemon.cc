#include "node/vgpu_device_manager/daemon.h"

#include <algorithm>
#include <utility>

#include "api/vgpu_config.h"
#include "base/log.h"
#include "node/vgpu_device_manager/change.h"

namespace pitcrew::node::vgpu_device_manager {
namespace {

constexpr const char* kComponent = "vgpu-device-manager";

vgpu::NodeSettings VgpuSettings(const Options& options) {
  return {.root = host::Root(options.sys_root),
          .processes = host::Root(options.host_root),
          .driver_roots = {host::Root(options.driver_root), host::Root(options.host_root)},
          .known_types = options.known_types()};
}

mig::NodeSettings MigSettings(const Options& options) {
  return {.root = host::Root(options.sys_root), .driver_roots = {options.driver_root}};
}

// GPUs and functions that come and go or change their driver, vGPUs, and the driver itself. A
// process that leaves a vGPU is told by nobody.
bool TellsOfVgpus(const host::Uevent& event) {
  const auto subsystem = event.subsystem();
  if (subsystem == "module") return event.device_path.find("/nvidia") != std::string::npos;
  return subsystem == "pci" || subsystem == "mdev";
}

}  // namespace

Daemon::Daemon(const Options& options, std::shared_ptr<kube::Client> client, io::StopToken stop)
    : options_(options),
      client_(client),
      stop_(std::move(stop)),
      node_(client, {.node_name = options.node_name, .component = kComponent, .pod_name = ""}),
      vgpus_(VgpuSettings(options)),
      mig_(MigSettings(options)),
      progress_(std::move(client), options.node_name, kComponent,
                std::string(api::kVgpuConfigProgress)) {}

base::Status Daemon::Run() {
  TRY_ASSIGN(files_, io::FileWatcher::Create());
  TRY(files_->Watch(options_.config_file.parent_path()));
  if (auto kernel = host::UeventReceiver::Create()) {
    kernel_ = *std::move(kernel);
  } else {
    base::LogInfo("New GPUs are seen at the next change of the label only",
                  {{"why", kernel.error().ToString()}});
  }
  TRY_ASSIGN(labels_, own_node::LabelWatch::Start(client_, options_.node_name,
                                                  {std::string(api::kVgpuConfig)}));
  if (const auto known = labels_->WaitUntilKnown(stop_); !known) {
    return stop_.stopped() ? base::Status() : known;
  }
  own_node::FollowSettings follow;
  follow.label = api::kVgpuConfig;
  follow.fallback = options_.default_config;
  follow.first_retry = options_.first_retry;
  follow.longest_retry = options_.longest_retry;
  follow.apply = [this](const std::string& wanted) { return Make(wanted); };
  follow.fds = {files_->fd(), kernel_ ? kernel_->fd() : -1};
  follow.take = [this] { return TakeChanges(); };
  return own_node::FollowLabel(*labels_, follow, stop_);
}

own_node::Followed Daemon::Make(const std::string& wanted) {
  const End end = ApplyConfig({options_, node_, *labels_, vgpus_, mig_, progress_, stop_}, wanted);
  // An open NVML can keep a MIG mode from changing, and the driver from being exchanged.
  mig_.Close();
  switch (end.kind) {
    case End::Kind::kSuccess:
      return own_node::Followed::kDone;
    case End::Kind::kAbandoned:
      return own_node::Followed::kAbandoned;
    case End::Kind::kFailed:
      break;
  }
  return own_node::AfterFailure(*end.error);
}

base::Result<bool> Daemon::TakeChanges() {
  TRY_ASSIGN(const auto changes, files_->Take());
  const bool config = std::ranges::any_of(changes, [&](const auto& change) {
    return own_node::IsChangeOf(options_.config_file, change);
  });
  if (!kernel_) return config;
  TRY_ASSIGN(const auto batch, kernel_->Take());
  return config || batch.lost || std::ranges::any_of(batch.events, TellsOfVgpus);
}

}  // namespace pitcrew::node::vgpu_device_manager
