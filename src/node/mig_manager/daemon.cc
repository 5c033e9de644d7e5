#include "node/mig_manager/daemon.h"

#include <algorithm>
#include <utility>

#include "api/labels.h"
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

// GPUs that come and go, and the driver.
bool TellsOfGpus(const host::Uevent& event) {
  if (event.subsystem() == "module") return event.device_path.ends_with("/nvidia");
  return event.subsystem() == "pci" && event.action != "change";
}

// The file itself, or what the kubelet replaces when a ConfigMap has changed; not, for example, a
// log that somebody keeps in the same folder. An empty name: changes were lost.
bool TellsOfConfig(const io::FileChange& change, const std::filesystem::path& config) {
  return change.name.empty() || change.name == "..data" || change.name == config.filename();
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
      progress_(std::move(client), options.node_name) {}

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
  while (true) {
    FollowLabel();
    if (stop_.stopped()) return {};
    // Another value may have come in the middle of a change; nothing rings for it again.
    const auto value = labels_->Value(api::kMigConfig);
    if (!value.is_unknown() && (value.is_present() ? *value.value() : "") != last_) continue;
    TRY_ASSIGN(const bool go_on, WaitForReason());
    if (!go_on) return {};
  }
}

void Daemon::FollowLabel() {
  // NVML is open only while it is needed: an open one can keep a MIG mode from changing.
  struct Close {
    mig::NodeGpus& gpus;
    ~Close() { gpus.Close(); }
  } close{gpus_};
  labels_->Take();
  const auto value = labels_->Value(api::kMigConfig);
  if (value.is_unknown()) return;
  const std::string wanted = value.is_present() ? *value.value() : "";
  if (wanted.empty()) {
    // What a manager that died has left, or one that was in the middle when the label went away.
    if (const auto tidied = TidyUp(ContextOfChange()); !tidied) {
      base::LogWarning("An earlier change is not tidied up", tidied.error());
    }
    last_.clear();
    failed_ = false;
    return;
  }
  const bool same = wanted == last_;
  if (same && !(failed_ && look_again_)) return;
  if (!same) failures_ = 0;
  look_again_ = false;
  last_ = wanted;
  const End end = ApplyLabel(ContextOfChange(), wanted);
  if (end.kind == End::Kind::kAbandoned) last_.clear();
  failed_ = end.kind == End::Kind::kFailed;
  failures_ = failed_ && MayPass(*end.error) ? failures_ + 1 : 0;
}

base::Result<bool> Daemon::TakeChanges() {
  TRY_ASSIGN(const auto changes, files_->Take());
  bool changed = std::ranges::any_of(
      changes, [&](const auto& change) { return TellsOfConfig(change, options_.config_file); });
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

base::Result<bool> Daemon::WaitForReason() {
  base::Deadline retry;
  if (failures_ > 0) {
    retry = base::Deadline::After(std::min(
        options_.first_retry * (1 << std::min(failures_ - 1, 10)), options_.longest_retry));
  }
  while (true) {
    const auto ready =
        io::WaitReadable({labels_->fd(), files_->fd(), kernel_ ? kernel_->fd() : -1}, stop_, retry);
    if (!ready && ready.error().code == base::Code::kCancelled) return false;
    if (!ready && ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
    if (ready && *ready != 0) {
      TRY_ASSIGN(const bool changed, TakeChanges());
      if (!changed || !failed_) continue;
    }
    // A person who sets the label again after a failure, a repaired file, the time.
    look_again_ = true;
    return true;
  }
}

}  // namespace pitcrew::node::mig_manager
