#include "node/feature_discovery/daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "host/driver_root.h"
#include "host/pci.h"
#include "host/platform.h"
#include "node/feature_discovery/labels.h"
#include "node/feature_discovery/vgpu.h"

namespace pitcrew::node::feature_discovery {
namespace {

using base::Result;
using base::Status;

constexpr std::chrono::seconds kFirstRetry{1};
constexpr std::chrono::seconds kLongestRetry{60};

// Label "app" of the pods that run this program.
constexpr std::string_view kDaemonSetApp = "gpu-feature-discovery";

// GPUs, MIG instances and the driver's library come and go under these names.
bool TellsOfGpus(const std::string& name) {
  return name.empty() || name.starts_with("nvidia") || name == host::kNvmlLibrary;
}

std::map<gpu::PciAddress, std::uint32_t> ReadClasses(const std::filesystem::path& pci_devices) {
  std::map<gpu::PciAddress, std::uint32_t> classes;
  const auto scan = host::ReadPciDevices(pci_devices);
  if (!scan) return classes;
  for (const auto& device : scan->devices) {
    classes[device.address] = device.class_code;
  }
  return classes;
}

}  // namespace

Daemon::Daemon(Options options, NodePaths paths, OpenOutput open_output, Refused refused,
               const io::SignalReceiver& reload, io::StopToken stop)
    : options_(std::move(options)),
      paths_(std::move(paths)),
      open_output_(std::move(open_output)),
      refused_(std::move(refused)),
      reload_(reload),
      stop_(std::move(stop)) {}

Daemon::~Daemon() {
  // As upstream: a file that is meant to be kept stays (section 2, number 5).
  if (output_ && !settings_.oneshot && !settings_.LooksOnce()) output_->Withdraw();
}

Status Daemon::Run() {
  TRY_ASSIGN(watcher_, io::FileWatcher::Create());
  if (auto kernel = host::UeventReceiver::Create()) {
    kernel_ = *std::move(kernel);
  } else {
    base::LogInfo("the kernel's announcements cannot be heard; device folders are watched alone",
                  {{"why", kernel.error().ToString()}});
  }
  TRY(Load());
  // A daemon that looks at the GPUs only once does not follow changes of MIG.
  if (!settings_.oneshot && !settings_.LooksOnce()) FollowMigChanges();
  while (true) {
    const auto looked = Look();
    if (!looked && looked.error().code == base::Code::kCancelled) return {};
    if (settings_.oneshot) return looked;
    if (looked) {
      // A driver that is on its way announces its files before it answers, and then nothing more.
      failures_ = driver_unreachable_ && !settings_.LooksOnce() ? failures_ + 1 : 0;
    } else {
      if (driver_unreachable_ && !labelled_ && settings_.fail_on_init_error) return looked;
      ++failures_;
      base::LogWarning(labelled_ ? "the labels stay as they are" : "nothing can be labelled yet",
                       looked.error());
    }
    TRY_ASSIGN(const bool go_on, WaitForChange());
    if (!go_on) return {};
  }
}

Status Daemon::Load() {
  TRY_ASSIGN(const auto config, api::ReadPluginConfig(options_.config_file));
  TRY_ASSIGN(auto settings, Merge(options_, config));
  if (output_ && !settings_.oneshot && !settings_.LooksOnce()) output_->Withdraw();
  settings_ = std::move(settings);
  base::LogInfo("settings", {{"mig_strategy", gpu::ToString(settings_.mig_strategy)},
                             {"sharing", api::ToString(settings_.sharing.strategy())},
                             {"node_feature", settings_.use_node_feature_api},
                             {"oneshot", settings_.oneshot},
                             {"config_file", options_.config_file.string()}});
  for (const auto& warning : settings_.warnings) base::LogWarning(warning);
  TRY_ASSIGN(output_, open_output_(settings_));
  library_.reset();
  labelled_ = false;
  failures_ = 0;
  timestamp_.reset();
  if (!settings_.no_timestamp) {
    timestamp_ =
        std::chrono::duration_cast<std::chrono::seconds>(base::WallClock::now().time_since_epoch())
            .count();
  }
  WatchFolders();
  return {};
}

Result<gpu::Inventory> Daemon::ReadGpus() {
  if (!library_) {
    TRY(host::RefuseUnsupportedPlatform(host::Root(settings_.driver_root_in_here)));
    TRY_ASSIGN(library_, nvml::Library::Open({settings_.driver_root_in_here}));
    base::LogInfo("opened NVML", {{"library", library_->path().string()}});
  }
  auto gpus = library_->ReadInventory();
  // A driver that went away needs a fresh start.
  if (!gpus) library_.reset();
  if (gpus) {
    for (const auto& device : gpus->devices) TRY(host::RefuseIntegratedGpu(device.name));
  }
  return gpus;
}

Result<Facts> Daemon::ReadFacts() {
  Facts facts;
  TRY_ASSIGN(facts.gpus, ReadGpus());
  std::erase_if(facts.gpus.devices,
                [](const gpu::Device& device) { return gpu::IsSkippedDeviceName(device.name); });
  for (const auto& device : facts.gpus.devices) {
    // Unknown is not absent: a GPU that cannot be read now must not take its labels away.
    if (device.fault && labelled_) {
      return base::Fail(device.fault->Within(fmt::format("GPU {}", device.index)));
    }
  }
  facts.unreadable_gpus = std::erase_if(facts.gpus.devices, [](const gpu::Device& device) {
    return device.fault && device.name.empty();
  });
  if (auto machine = base::ReadFile(settings_.machine_type_file)) facts.machine = *machine;
  facts.pci_classes = ReadClasses(paths_.pci_devices);
  facts.vgpu = FindVgpu(paths_.pci_devices);
  if (const auto* error = facts.vgpu.error()) {
    base::LogWarning("whether there are virtual GPUs is unknown", *error);
  }
  facts.timestamp = timestamp_;
  return facts;
}

Status Daemon::Look() {
  auto facts = ReadFacts();
  driver_unreachable_ = !facts;
  if (!facts) {
    if (labelled_ || settings_.fail_on_init_error) return base::Fail(facts.error());
    // Upstream's null manager: without a driver there are the labels that need none.
    base::LogWarning("waiting for the driver", facts.error());
    facts = Facts();
    facts->timestamp = timestamp_;
    facts->vgpu = FindVgpu(paths_.pci_devices);
    TRY_ASSIGN(const auto description, Describe(*facts, settings_.mig_strategy, settings_.sharing));
    return output_->Publish(description.labels, stop_);
  }
  TRY_ASSIGN(const auto description, Describe(*facts, settings_.mig_strategy, settings_.sharing));
  if (!labelled_) {
    for (const auto& warning : description.warnings) base::LogWarning(warning);
  }
  TRY(output_->Publish(description.labels, stop_));
  labelled_ = true;
  return {};
}

void Daemon::FollowMigChanges() {
  auto follower = validations::MigFollower::Register(validations::StatusFolder(paths_.validations),
                                                     kDaemonSetApp);
  if (follower) {
    mig_ = *std::move(follower);
  } else {
    base::LogInfo("the MIG manager will restart this program for its changes",
                  {{"why", follower.error().ToString()}});
  }
}

void Daemon::WatchFolders() {
  const host::Root driver(settings_.driver_root_in_here);
  std::vector<std::filesystem::path> folders = {"/dev", "/dev/nvidia-caps", driver.At("/dev"),
                                                driver.At("/dev/nvidia-caps"), paths_.validations};
  for (const auto& folder : host::LibraryFolders()) {
    folders.push_back(driver.At(folder));
    folders.emplace_back(folder);
  }
  if (!settings_.use_node_feature_api && !settings_.output_file.empty()) {
    folders.push_back(settings_.output_file.parent_path());
  }
  for (const auto& folder : folders) {
    const auto watched = watcher_->Watch(folder);
    if (!watched && watched.error().code != base::Code::kNotFound) {
      base::LogWarning("a folder cannot be watched", watched.error());
    }
  }
}

Result<bool> Daemon::TakeAnnouncements() {
  bool look = false;
  TRY_ASSIGN(const auto changes, watcher_->Take());
  for (const auto& change : changes) {
    if (mig_ && change.name == validations::kMigChange) {
      if (const auto read = mig_->Refresh(); !read) {
        base::LogWarning("what the MIG manager announces cannot be read", read.error());
      }
      look = true;
      continue;
    }
    const bool own_file =
        change.path() == settings_.output_file && change.kind == io::FileChange::Kind::kRemoved;
    look = look || own_file || TellsOfGpus(change.name);
  }
  if (kernel_) {
    TRY_ASSIGN(const auto batch, kernel_->Take());
    look = look || batch.lost ||
           std::ranges::any_of(batch.events, [](const auto& event) { return TellsOfGpus(event); });
  }
  // In the middle of a change NVML tells nothing that should become a label.
  return look && !(mig_ && !mig_->changing().empty());
}

Result<bool> Daemon::WaitForChange() {
  // Every time: folders come into being, those of a driver for one.
  WatchFolders();
  base::Deadline deadline;
  if (failures_ > 0) {
    deadline = base::Deadline::After(
        std::min<std::chrono::nanoseconds>({kFirstRetry * (1 << std::min(failures_ - 1, 6)),
                                            kLongestRetry, settings_.longest_interval}));
  } else if (!settings_.LooksOnce()) {
    deadline = base::Deadline::After(settings_.longest_interval);
  }
  while (true) {
    const int kernel = kernel_ ? kernel_->fd() : -1;
    const auto ready = io::WaitReadable({reload_.fd(), watcher_->fd(), kernel}, stop_, deadline);
    if (!ready && ready.error().code == base::Code::kCancelled) return false;
    if (!ready && ready.error().code == base::Code::kTimeout) return true;
    if (!ready) return base::Fail(ready.error());
    if (*ready == 0 && reload_.Take()) {
      base::LogInfo("reloading on SIGHUP");
      if (const auto loaded = Load(); !loaded) {
        base::LogError("the configuration is not taken; the one of before goes on", loaded.error());
        refused_(loaded.error());
      }
      return true;
    }
    TRY_ASSIGN(const bool look, TakeAnnouncements());
    if (look && !settings_.LooksOnce()) {
      failures_ = 0;  // Something has changed: soon again, if not at once.
      return true;
    }
  }
}

}  // namespace pitcrew::node::feature_discovery
