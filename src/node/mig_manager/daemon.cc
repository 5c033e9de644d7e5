#include "node/mig_manager/daemon.h"

#include <algorithm>
#include <utility>

#include "api/labels.h"
#include "api/mig_progress.h"
#include "base/log.h"
#include "node/mig_manager/decision.h"

namespace pitcrew::node::mig_manager {
namespace {

mig::NodeSettings SettingsOf(const Options& options) {
  mig::NodeSettings settings;
  settings.root = host::Root(options.sys_root);
  settings.driver_roots = {options.driver_root_container};
  return settings;
}

}  // namespace

Daemon::Daemon(const Options& options, std::shared_ptr<kube::Client> client, io::StopToken stop)
    : options_(options),
      client_(client),
      stop_(std::move(stop)),
      node_(client, {.node_name = options.node_name,
                     .component = "mig-manager",
                     .pod_name = options.pod_name}),
      gpus_(SettingsOf(options)),
      configs_(options, client, gpus_),
      progress_(std::move(client), options.node_name, "mig-manager",
                std::string(api::kMigConfigProgress)) {}

Context Daemon::ContextOfChange() {
  return {options_, node_, *labels_, gpus_, configs_, progress_, stop_};
}

base::Status Daemon::Run() {
  TRY(configs_.Load(stop_));
  TRY_ASSIGN(files_, io::FileWatcher::Create());
  if (!options_.config_file.empty()) TRY(files_->Watch(options_.config_file.parent_path()));
  if (auto kernel = host::UeventReceiver::Create()) {
    kernel_ = *std::move(kernel);
  } else {
    base::LogInfo("New GPUs are seen at the next change of the label only",
                  {{"why", kernel.error().ToString()}});
  }
  TRY_ASSIGN(labels_, own_node::LabelWatch::Start(client_, options_.node_name,
                                                  {std::string(api::kMigConfig)}));
  if (const auto known = labels_->WaitUntilKnown(stop_); !known) {
    return stop_.stopped() ? base::Status() : known;
  }
  own_node::FollowSettings follow;
  follow.label = api::kMigConfig;
  follow.first_retry = options_.first_retry;
  follow.longest_retry = options_.longest_retry;
  follow.apply = [this](const std::string& wanted) { return Make(wanted); };
  follow.nothing_wanted = [this] {
    // What a manager that died has left, or one that was in the middle when the label went away.
    const auto tidied = TidyUp(ContextOfChange());
    if (!tidied) base::LogWarning("An earlier change is not tidied up yet", tidied.error());
    gpus_.Close();
    return tidied;
  };
  follow.fds = {files_->fd(), kernel_ ? kernel_->fd() : -1};
  follow.take = [this] { return TakeChanges(); };
  return own_node::FollowLabel(*labels_, follow, stop_);
}

own_node::Followed Daemon::Make(const std::string& wanted) {
  const End end = ApplyLabel(ContextOfChange(), wanted);
  // NVML is open only while it is needed: an open one can keep a MIG mode from changing.
  gpus_.Close();
  switch (end.kind) {
    case End::Kind::kSuccess:
    case End::Kind::kRebooting:
      return own_node::Followed::kDone;
    case End::Kind::kAbandoned:
      return own_node::Followed::kAbandoned;
    case End::Kind::kFailed:
      break;
  }
  return MayPass(*end.error) ? own_node::Followed::kMayPass : own_node::Followed::kFailed;
}

base::Result<bool> Daemon::TakeChanges() {
  TRY_ASSIGN(const auto changes, files_->Take());
  bool changed = std::ranges::any_of(changes, [&](const auto& change) {
    return own_node::IsChangeOf(options_.config_file, change);
  });
  if (kernel_) {
    TRY_ASSIGN(const auto batch, kernel_->Take());
    const bool gpus = batch.lost || std::ranges::any_of(batch.events, [](const auto& event) {
                        return TellsOfGpus(event);
                      });
    if (gpus && options_.config_file.empty()) {
      if (const auto loaded = configs_.Load(stop_); !loaded) {
        base::LogWarning("The configurations of this node stay as they are", loaded.error());
      }
      gpus_.Close();
    }
    changed = changed || gpus;
  }
  return changed;
}

}  // namespace pitcrew::node::mig_manager
