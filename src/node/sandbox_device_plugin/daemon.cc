#include "node/sandbox_device_plugin/daemon.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "node/sandbox_device_plugin/allocation.h"
#include "node/sandbox_device_plugin/machine.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

constexpr std::string_view kHostMount = "/host";
// Of devices that come, go, or change their driver; groups and devices of VFIO; vGPUs.
constexpr std::string_view kSubsystems[] = {"pci", "vfio", "vfio-dev", "mdev", "iommu", "egm"};

bool Concerns(const host::Uevent& event) {
  return std::ranges::find(kSubsystems, event.subsystem()) != std::end(kSubsystems);
}

// What can come in /dev itself; everything else there is others'.
bool ConcernsDev(std::string_view name) {
  return name.empty() || name == "vfio" || name == "iommu" || name.starts_with("egm");
}

std::filesystem::path FolderOf(const std::filesystem::path& kubelet_socket) {
  return kubelet_socket.empty() ? std::filesystem::path(rpc::kDevicePluginDirectory)
                                : kubelet_socket.parent_path();
}

}  // namespace

host::Root NodePaths::FindSys() {
  const host::Root mounted{std::filesystem::path(kHostMount)};
  const auto there = host::IsDirectory(mounted.At("/sys/bus/pci/devices"));
  return there && *there ? mounted : host::Root();
}

Daemon::Daemon(Options options, NodePaths paths, io::StopToken stop)
    : options_(std::move(options)),
      paths_(std::move(paths)),
      stop_(std::move(stop)),
      cdi_files_(paths_.cdi_folder) {}

// The plugins go before what they use.
Daemon::~Daemon() { plugins_.clear(); }

base::Status Daemon::Run() {
  TRY(Prepare());
  while (true) {
    Look();
    TRY_ASSIGN(const bool go_on, WaitForChange());
    if (go_on) continue;
    plugins_.clear();
    reporter_->Flush();
    return {};
  }
}

base::Status Daemon::Prepare() {
  naming_.client = options_.client;
  naming_.gpu_alias = options_.gpu_alias;
  naming_.switch_alias = options_.switch_alias;
  auto names = gpu::DeviceNames::Load(options_.pci_ids);
  const bool all_aliases = options_.client == Client::kKata && !options_.gpu_alias.empty() &&
                           !options_.switch_alias.empty();
  if (names) {
    naming_.names = *std::move(names);
  } else if (!all_aliases) {
    // Under other names, virtual machines would not find their devices.
    return base::Fail(names.error());
  }
  TRY_ASSIGN(reporter_, Reporter::Create(options_));
  for (const auto& warning : options_.warnings) base::LogWarning(warning);
  TRY_ASSIGN(watcher_, io::FileWatcher::Create());
  if (auto uevents = host::UeventReceiver::Create()) {
    uevents_ = *std::move(uevents);
  } else {
    base::LogWarning(
        "the kernel's announcements cannot be heard: only device nodes tell of changes",
        uevents.error());
  }
  kubelet_plugin::HostOptions host;
  host.folder = FolderOf(options_.kubelet_socket);
  host.kubelet_socket = options_.kubelet_socket;
  TRY_ASSIGN(host_, kubelet_plugin::PluginHost::Start(std::move(host)));
  return {};
}

// Watches first: what changes while it looks is looked at again.
void Daemon::Look() {
  Watch();
  look_at_.reset();
  auto machine = ReadMachine(paths_.sys, paths_.dev, KnownTypes());
  if (!machine) {
    base::LogWarning("this node's devices cannot be read; what is offered stays", machine.error());
    return TryLater();
  }
  {
    const std::lock_guard lock(mutex_);
    known_types_ = machine->known_types;
  }
  Offer(*machine);
}

void Daemon::Offer(const Machine& machine) {
  auto offers = ListOffers(machine, naming_, offered_);
  auto warnings = machine.warnings;
  warnings.insert(warnings.end(), offers.warnings.begin(), offers.warnings.end());
  bool again = !machine.unreadable.empty();
  if (options_.client == Client::kKata) {
    for (const auto& [resource, error] : cdi_files_.Update(offers.resources, machine)) {
      warnings.push_back("Kata cannot find the devices of " + resource + ": " + error.ToString());
      again = true;
    }
  }
  reporter_->Warn(warnings);
  const bool first = !std::exchange(looked_, true);
  if (offers.resources.empty() && (first || !offered_.empty())) {
    base::LogInfo("there is no device for virtual machines: waiting for one");
  }
  reporter_->Changed(offered_, offers.resources);
  UpdatePlugins(offers.resources);
  offered_ = std::move(offers.resources);
  if (again) return TryLater();
  failures_ = 0;
}

void Daemon::UpdatePlugins(const Resources& resources) {
  std::erase_if(plugins_, [&](const auto& entry) { return !resources.contains(entry.first); });
  for (const auto& [resource, devices] : resources) {
    auto& plugin = plugins_[resource];
    if (!plugin) {
      plugin = std::make_unique<ResourcePlugin>(
          resource, SocketName(options_.client, resource),
          [this](const auto& name, const auto& offered, const auto& ids) {
            return Allocate(name, offered, ids);
          },
          *host_);
    }
    plugin->Update(devices);
  }
}

// The node as it is now: between the last look and this call a device may have gone.
base::Result<rpc::ContainerAllocation> Daemon::Allocate(const std::string& resource,
                                                        const std::vector<OfferedDevice>& offered,
                                                        const std::vector<std::string>& ids) const {
  TRY_ASSIGN(const auto machine, ReadMachine(paths_.sys, paths_.dev, KnownTypes()));
  const auto now = ListOffers(machine, naming_, {{resource, offered}});
  const auto found = now.resources.find(resource);
  return sandbox_device_plugin::Allocate(
      resource, found == now.resources.end() ? std::vector<OfferedDevice>() : found->second, ids,
      machine, options_.client);
}

// What this plugin has seen itself counts before what the file says.
vgpu_types::KnownTypes Daemon::KnownTypes() const {
  const std::lock_guard lock(mutex_);
  auto known = known_types_;
  known.Learn(vgpu_types::KnownTypes::Load(paths_.known_vgpu_types));
  return known;
}

void Daemon::TryLater() {
  constexpr int kMostDoublings = 16;
  const auto delay = paths_.first_retry * (1 << std::min(failures_++, kMostDoublings));
  look_at_ =
      base::SteadyClock::now() + std::min<base::SteadyClock::duration>(delay, paths_.longest_retry);
}

void Daemon::Watch() {
  const auto vfio = paths_.dev.At("/dev/vfio");
  WatchIfThere(paths_.dev.At("/dev"));
  WatchIfThere(vfio);
  WatchIfThere(vfio / "devices");
  if (options_.client == Client::kKubevirt) WatchVgpuTypes();
}

void Daemon::WatchIfThere(const std::filesystem::path& folder) {
  const auto watched = watcher_->Watch(folder);
  if (!watched && watched.error().code != base::Code::kNotFound) {
    base::LogWarning("a folder cannot be watched", watched.error());
  }
}

// Who writes an attribute is told to those that watch it, as with any file, where both see the same
// mount of /sys. Functions that come later are announced.
void Daemon::WatchVgpuTypes() {
  WatchIfThere(paths_.known_vgpu_types.parent_path());
  const auto devices = paths_.sys.At("/sys/bus/pci/devices");
  const auto names = host::ListFolder(devices);
  if (!names) return;
  for (const auto& name : *names) WatchIfThere(devices / name / "nvidia");
}

base::Result<bool> Daemon::WaitForChange() {
  while (true) {
    base::Deadline deadline;
    if (look_at_) deadline = base::Deadline(*look_at_);
    const int files = watcher_->fd();
    const auto ready = uevents_ ? io::WaitReadable({files, uevents_->fd()}, stop_, deadline)
                                : io::WaitReadable({files}, stop_, deadline);
    if (!ready && ready.error().code == base::Code::kCancelled) return false;
    if (!ready && ready.error().code == base::Code::kTimeout) return true;
    if (!ready) return base::Fail(ready.error());
    // Changes of files and events of the kernel are both taken, even if one of them is a reason to
    // look: one look answers both.
    const bool by_files = TakeFileChanges();
    const bool by_kernel = TakeUevents();
    if (by_files || by_kernel) return true;
  }
}

bool Daemon::TakeUevents() {
  if (!uevents_) return false;
  const auto batch = uevents_->Take();
  if (!batch) {
    base::LogWarning("the kernel's announcements can be heard no more", batch.error());
    uevents_.reset();
    return true;
  }
  return batch->lost || std::ranges::any_of(batch->events, Concerns);
}

bool Daemon::TakeFileChanges() {
  const auto changes = watcher_->Take();
  if (!changes) {
    base::LogWarning("changes of device nodes cannot be read", changes.error());
    return true;
  }
  const auto dev = paths_.dev.At("/dev");
  return std::ranges::any_of(*changes, [&](const io::FileChange& change) {
    return change.folder != dev || ConcernsDev(change.name);
  });
}

}  // namespace pitcrew::node::sandbox_device_plugin
