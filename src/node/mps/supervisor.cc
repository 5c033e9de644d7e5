#include "node/mps/supervisor.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "host/children.h"

namespace pitcrew::node::mps {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kDriverRetry = 30s;

}  // namespace

Supervisor::Supervisor(Options options, NodePaths paths, const io::SignalReceiver& reload,
                       const io::SignalReceiver& children, io::StopToken stop)
    : options_(std::move(options)),
      paths_(std::move(paths)),
      folder_(paths_.mps_folder),
      reload_(reload),
      children_(children),
      stop_(std::move(stop)) {}

base::Status Supervisor::Run() {
  // The control daemons put themselves into the background: their ends must still be told to us.
  TRY(host::AdoptOrphans());
  TRY_ASSIGN(watcher_, io::FileWatcher::Create());
  TRY_ASSIGN(const auto sign, mps_folder::LifeSign::Give(folder_));
  const auto status = Serve();
  RemoveReadyFile();
  for (const auto& server : servers_) server->Stop();
  servers_.clear();
  return status;
}

base::Status Supervisor::Serve() {
  TRY(Load());
  while (true) {
    ReapChildren();
    Start();
    TellWhetherReady();
    const auto ready = io::WaitReadable({reload_.fd(), children_.fd(), watcher_->fd()}, stop_,
                                        std::min(NextStart(), next_load_));
    if (!ready && ready.error().code == base::Code::kCancelled) return {};
    if (!ready && ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
    if (ready && *ready == 0 && reload_.Take()) {
      base::LogInfo("reloading on SIGHUP");
      Reload();
    } else if (ready && *ready == 1) {
      while (children_.Take()) {
      }
    } else if (ready && *ready == 2) {
      HandleFileChanges();
    } else if (next_load_.passed()) {
      Reload();
    }
  }
}

base::Status Supervisor::Load() {
  WatchFolders();
  TRY_ASSIGN(const auto settings, ReadSettings(options_));
  auto plan = ReadPlan(settings);
  next_load_ = base::Deadline::Never();
  if (!plan) {
    // A configuration that cannot be is wrong however long one waits.
    const bool wait =
        plan.error().code != base::Code::kInvalid && (loaded_ || !settings.fail_on_init_error);
    if (!wait) return base::Fail(plan.error());
    base::LogWarning("the driver does not answer: what runs goes on", plan.error());
    next_load_ = base::Deadline::After(kDriverRetry);
    return {};
  }
  loaded_ = true;
  Apply(*std::move(plan));
  return {};
}

base::Result<Plan> Supervisor::ReadPlan(const Settings& settings) const {
  base::LogInfo("settings", {{"sharing", api::ToString(settings.sharing.strategy())},
                             {"mig_strategy", gpu::ToString(settings.mig_strategy)},
                             {"config_file", options_.config_file.string()}});
  // Without MPS there is nothing to ask a driver for.
  if (settings.sharing.strategy() != api::SharingStrategy::kMps) return Plan();
  TRY_ASSIGN(const auto library, nvml::Library::Open(paths_.driver_roots));
  TRY_ASSIGN(const auto inventory, library->ReadInventory());
  return MakePlan(inventory, settings.sharing);
}

void Supervisor::Apply(Plan plan) {
  for (const auto& warning : plan.warnings) base::LogWarning(warning);
  if (plan.resources.empty()) base::LogInfo("no devices are shared by MPS: waiting");
  std::vector<std::unique_ptr<Server>> kept;
  for (auto& server : servers_) {
    if (std::ranges::find(plan.resources, server->resource()) != plan.resources.end()) {
      kept.push_back(std::move(server));
    } else {
      server->Stop();
    }
  }
  servers_ = std::move(kept);
  for (auto& resource : plan.resources) {
    const bool there = std::ranges::any_of(
        servers_, [&](const auto& server) { return server->resource() == resource; });
    if (there) continue;
    servers_.push_back(std::make_unique<Server>(std::move(resource), paths_, children_));
  }
}

void Supervisor::Start() {
  for (const auto& server : servers_) {
    if (server->serves()) continue;
    server->Start(stop_);
    if (server->serves()) server->CopyLog();
  }
  WatchFolders();
}

void Supervisor::Reload() {
  if (const auto loaded = Load(); !loaded) {
    base::LogError("the new configuration cannot be used: the one before stays", loaded.error());
  }
}

void Supervisor::ReapChildren() {
  while (true) {
    const pid_t child = ::waitpid(-1, nullptr, WNOHANG);
    if (child <= 0) return;
    for (const auto& server : servers_) server->OnChildEnded(child);
  }
}

void Supervisor::WatchFolders() {
  configuration_folders_.clear();
  if (const auto& file = options_.config_file; !file.empty()) {
    // The link to a configuration is replaced, and so is the folder that it leads to.
    configuration_folders_.insert(file.parent_path());
    std::error_code problem;
    const auto target = fs::read_symlink(file, problem);
    if (!problem) configuration_folders_.insert((file.parent_path() / target).parent_path());
  }
  auto folders = configuration_folders_;
  for (const auto& server : servers_) folders.insert(server->log_folder());
  for (const auto& folder : folders) {
    const auto watched = watcher_->Watch(folder);
    if (!watched && watched.error().code != base::Code::kNotFound) {
      base::LogWarning("a folder cannot be watched", watched.error());
    }
  }
}

void Supervisor::HandleFileChanges() {
  const auto changes = watcher_->Take();
  if (!changes) {
    base::LogWarning("changes of files are unknown", changes.error());
    return;
  }
  bool configuration = false;
  for (const auto& change : *changes) {
    configuration = configuration || configuration_folders_.contains(change.folder);
  }
  for (const auto& server : servers_) server->CopyLog();
  // Between the removal of a link and the next one there is no configuration to read.
  std::error_code ignored;
  if (configuration && fs::exists(options_.config_file, ignored)) Reload();
}

void Supervisor::TellWhetherReady() {
  const bool ready =
      std::ranges::all_of(servers_, [](const auto& server) { return server->serves(); }) &&
      next_load_.never();
  if (ready == ready_) return;
  ready_ = ready;
  if (!ready) {
    RemoveReadyFile();
  } else if (const auto written = base::WriteFileAtomically(folder_.ReadyFile(), ""); !written) {
    base::LogError("nobody learns that clients are served", written.error());
  }
}

void Supervisor::RemoveReadyFile() const {
  std::error_code problem;
  fs::remove(folder_.ReadyFile(), problem);
  if (problem) {
    base::LogWarning("a file cannot be removed",
                     base::FromErrno(problem.value(), folder_.ReadyFile().string()));
  }
}

base::Deadline Supervisor::NextStart() const {
  base::Deadline next;
  for (const auto& server : servers_) {
    if (!server->serves()) next = std::min(next, server->next_start());
  }
  return next;
}

}  // namespace pitcrew::node::mps
