#include "simulation/sysfs/file_system.h"

#include <sys/stat.h>

#include <cerrno>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "gpu/mig_profile.h"

namespace pitcrew::simulation::sysfs {
namespace {

MigState MigOf(const GpuState& gpu) {
  MigState mig;
  mig.enabled = gpu.mig_current != 0;
  for (const auto& instance : gpu.instances) {
    if (instance.serial == 0 || instance.profile >= gpu.profile_count) continue;
    const GpuProfile& profile = gpu.profiles[instance.profile];
    const auto name = gpu::NameMigProfile(profile.index, 0, profile.memory_mib, gpu.memory_total);
    if (name) ++mig.instances[name->Name()];
  }
  return mig;
}

bool HasUsers(const GpuState& gpu) {
  for (const auto& process : gpu.processes) {
    if (process.pid != 0) return true;
  }
  return false;
}

}  // namespace

FileSystem::FileSystem(Machine machine, FileSystemOptions options)
    : machine_(std::move(machine)),
      options_(std::move(options)),
      nodes_(options_.dev),
      uevents_(options_.uevents),
      bus_({.read =
                [this](std::string_view address, std::size_t offset, std::uint32_t& value) {
                  const std::lock_guard lock(mutex_);
                  return machine_.ReadRegister(address, offset, value);
                },
            .write =
                [this](std::string_view address, std::size_t offset, std::uint32_t value) {
                  const std::lock_guard lock(mutex_);
                  return machine_.WriteRegister(address, offset, value);
                }}) {
  const std::lock_guard lock(mutex_);
  Settle();
}

// The state is there while a driver is or was.
std::shared_ptr<StateFile> FileSystem::State() {
  if (state_ == nullptr && !options_.state.empty()) {
    if (auto file = StateFile::Open(options_.state)) state_ = *std::move(file);
  }
  return state_;
}

void FileSystem::TakeMig() {
  const auto file = State();
  if (file == nullptr) return;
  const std::uint32_t count = file->ChangeCount();
  if (tree_ != nullptr && count == state_seen_) return;
  state_seen_ = count;
  const auto node = file->Snapshot();
  bool differs = false;
  for (std::size_t i = 0; i < machine_.gpus().size() && i < node->gpu_count; ++i) {
    MigState mig = MigOf(node->gpus[i]);
    if (machine_.gpus()[i].mig == mig) continue;
    machine_.SetMig(i, std::move(mig));
    differs = true;
  }
  if (differs) tree_ = std::make_shared<const Tree>(BuildTree(machine_, options_.surroundings));
}

bool FileSystem::StateWasReplaced() const {
  struct stat there{};
  return ::stat(options_.state.c_str(), &there) != 0 || there.st_ino != state_->inode();
}

// Who uses the driver can be seen only by trying to take it from all of them.
void FileSystem::TakeDriverUsers() {
  const NvidiaModule* nvidia = machine_.nvidia();
  if (nvidia == nullptr || !nvidia->goes_with_users) return;
  if (state_ != nullptr && StateWasReplaced()) state_.reset();
  const auto file = State();
  if (file == nullptr) return;
  const bool unused = file->TakeDriver(false);
  // While a virtual machine has a vGPU of it, it stays without any user.
  const bool gone = unused && machine_.Unload("nvidia") == 0;
  if (gone) {
    (void)file->Update([](NodeState& node) {
      node.driver_loaded = 0;
      return true;
    });
  }
  file->LeaveDriver();
  if (!gone && nvidia->open == !unused) return;
  if (!gone) machine_.SetDriverOpen(!unused);
  Settle();
}

// NVML has the GPUs that NVIDIA's driver has.
void FileSystem::TellState() {
  const auto file = State();
  if (file == nullptr) return;
  std::array<std::uint32_t, kMaxGpus> detached{};
  detached.fill(1);
  for (const auto& [address, device] : machine_.devices()) {
    if (!device.gpu || device.physical || *device.gpu >= kMaxGpus) continue;
    detached[*device.gpu] = device.driver == "nvidia" ? 0 : 1;
  }
  const auto told = file->Update([&](NodeState& node) {
    bool differs = false;
    for (std::uint32_t i = 0; i < node.gpu_count && i < machine_.gpus().size(); ++i) {
      if (node.gpus[i].detached == detached[i]) continue;
      node.gpus[i].detached = detached[i];
      differs = true;
    }
    return differs;
  });
  if (!told) base::LogWarning("NVML is not told which GPUs the driver has", told.error());
}

// Announced last: who hears of it finds everything in its place.
void FileSystem::Settle() {
  if (const auto made = nodes_.Reconcile(machine_); !made) {
    base::LogWarning("device nodes are not as they should be", made.error());
  }
  TellState();
  tree_ = std::make_shared<const Tree>(BuildTree(machine_, options_.surroundings));
  for (const auto& event : machine_.TakeEvents()) (void)uevents_.Send(event);
  changed_.notify_all();
}

std::shared_ptr<const Tree> FileSystem::Current() {
  const std::lock_guard lock(mutex_);
  TakeDriverUsers();
  TakeMig();
  return tree_;
}

// The device that this write takes from its driver.
const Device* FileSystem::Leaving(std::string_view path, std::string_view value) const {
  constexpr std::string_view kDrivers = "/bus/pci/drivers/";
  if (path.ends_with("/unbind") && path.starts_with(kDrivers)) {
    const Device* device = machine_.Find(value);
    const auto name = path.substr(kDrivers.size(), path.rfind('/') - kDrivers.size());
    return device != nullptr && device->driver == name ? device : nullptr;
  }
  if (!path.ends_with("/remove")) return nullptr;
  const auto folder = path.substr(0, path.rfind('/'));
  return machine_.Find(folder.substr(folder.rfind('/') + 1));
}

void FileSystem::AwaitUsers(std::unique_lock<std::mutex>& lock, std::string_view path,
                            std::string_view value) {
  changed_.wait(lock, [&] {
    const Device* device = Leaving(path, value);
    return device == nullptr || !device->used;
  });
  while (true) {
    const Device* device = Leaving(path, value);
    const auto file = State();
    if (device == nullptr || file == nullptr || !device->gpu || device->physical ||
        device->driver != "nvidia") {
      return;
    }
    const std::uint32_t seen = file->ChangeCount();
    if (!HasUsers(file->Snapshot()->gpus[*device->gpu])) return;
    lock.unlock();
    (void)file->Wait(seen, std::nullopt);
    lock.lock();
  }
}

Errno FileSystem::Store(std::string_view path, std::string_view value) {
  std::unique_lock lock(mutex_);
  AwaitUsers(lock, path, value);
  TakeDriverUsers();
  TakeMig();
  const Node* node = tree_->Find(path);
  if (node == nullptr) return ENODEV;
  if (!node->store) return EIO;
  // The tree that holds the command is replaced by what the command does.
  const auto keep = tree_;
  const Errno error = node->store(machine_, value);
  Settle();
  return error;
}

}  // namespace pitcrew::simulation::sysfs
