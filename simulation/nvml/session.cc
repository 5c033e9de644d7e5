#include "simulation/nvml/session.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "simulation/state/capabilities.h"
#include "simulation/state/discovery.h"
#include "simulation/state/mig.h"

namespace pitcrew::simulation::library {
namespace {

using namespace nvml::abi;

// Where the loader found this library.
std::filesystem::path LibraryPath() {
  Dl_info info{};
  static const char kAnchor = 0;
  if (::dladdr(&kAnchor, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

Return FromError(const base::Error& error) {
  if (error.code == base::Code::kNotFound) return kDriverNotLoaded;
  if (error.code == base::Code::kDenied) return kNoPermission;
  if (error.reason == "StateLayoutMismatch") return kLibRmVersionMismatch;
  return kUnknown;
}

Visibility FindVisibility(const NodeState& node) {
  Visibility visibility;
  const auto dev = FindDeviceFolder(LibraryPath());
  visibility.dev = dev.string();
  visibility.mig_restricted = RestrictsMig(dev);
  for (std::uint32_t i = 0; i < node.gpu_count && i < kMaxGpus; ++i) {
    if (IsVisible(dev, node.gpus[i])) visibility.gpus.push_back(i);
  }
  return visibility;
}

Return Resolve(const void* pointer, Target& target) {
  Session& session = Session::Get();
  target.file = session.state();
  if (!target.file) return kUninitialized;
  target.handle = session.Find(pointer);
  if (target.handle == nullptr) return kInvalidArgument;
  WaitOutSlowness(*target.file, target.handle->gpu);
  target.node = target.file->Snapshot();
  target.gpu = &target.node->gpus[target.handle->gpu];
  if (target.gpu->lost != 0 || target.gpu->detached != 0) return kGpuIsLost;
  if (target.gpu->unknown_error != 0) return kUnknown;
  if (target.handle->instance_serial == 0) return kSuccess;
  target.instance = FindInstance(*target.gpu, target.handle->instance_serial);
  if (target.instance == nullptr) return kNotFound;
  if (target.handle->compute_serial == 0) return kSuccess;
  target.compute = FindComputeInstance(*target.instance, target.handle->compute_serial);
  return target.compute == nullptr ? kNotFound : kSuccess;
}

Return ResolveKind(const void* pointer, Handle::Kind kind, Target& target) {
  NVML_TRY(Resolve(pointer, target));
  return target.handle->kind == kind ? kSuccess : kInvalidArgument;
}

}  // namespace

namespace {

std::atomic<int> users{0};  // initialisations and waiting threads

// Frees on unloading what was made on demand, unless somebody still needs it.
struct Keeper {
  Session* session = new Session;
  ~Keeper() {
    if (!Session::InUse()) delete session;
  }
};

}  // namespace

Session& Session::Get() {
  static Keeper keeper;
  return *keeper.session;
}

Session::Waiting::Waiting() { ++users; }
Session::Waiting::~Waiting() { --users; }
bool Session::InUse() { return users.load() != 0; }

Return Session::Initialize() {
  (void)state();  // where it is initialised already
  const std::lock_guard guard(mutex_);
  if (initialized_ == 0) {
    auto file = StateFile::Open(FindStateFile(LibraryPath()));
    if (!file) return FromError(file.error());
    if (const auto used = (*file)->UseDriver(); !used) return FromError(used.error());
    WaitOutHang(**file);
    const auto node = (*file)->Snapshot();
    if (node->driver_loaded == 0) return kDriverNotLoaded;
    visibility_ = FindVisibility(*node);
    state_ = *std::move(file);
  }
  ++initialized_;
  ++users;
  return kSuccess;
}

void Session::ShowCapabilities() {
  const auto file = state();
  if (!file) return;
  for (const auto& dev : CapabilityFolders(LibraryPath())) {
    // A process without the right to make nodes gets none, and its call succeeds all the same.
    (void)MakeCapabilityNodes(dev, *file->Snapshot());
  }
}

Return Session::Shutdown() {
  (void)state();
  const std::lock_guard guard(mutex_);
  if (initialized_ == 0) return kUninitialized;
  --users;
  if (--initialized_ == 0) state_.reset();
  return kSuccess;
}

std::shared_ptr<StateFile> Session::state() {
  auto file = [&] {
    const std::lock_guard guard(mutex_);
    return state_;
  }();
  if (file) WaitOutHang(*file);
  return file;
}

Visibility Session::visibility() {
  const std::lock_guard guard(mutex_);
  return visibility_;
}

void* Session::HandleFor(const Handle& handle) {
  const std::lock_guard guard(mutex_);
  auto& slot = handles_[handle];
  if (!slot) {
    slot = std::make_unique<Handle>(handle);
    known_.insert(slot.get());
  }
  return slot.get();
}

const Handle* Session::Find(const void* pointer) {
  const std::lock_guard guard(mutex_);
  return known_.contains(pointer) ? static_cast<const Handle*>(pointer) : nullptr;
}

void WaitOutHang(StateFile& file) {
  if (file.Snapshot()->driver_hangs == 0) return;
  const Session::Waiting waiting;
  while (true) {
    const auto seen = file.ChangeCount();
    if (file.Snapshot()->driver_hangs == 0) return;
    if (!file.Wait(seen, std::nullopt)) return;
  }
}

void WaitOutSlowness(StateFile& file, std::uint32_t gpu) {
  const Session::Waiting waiting;
  const std::int64_t start = MonotonicNow();
  while (true) {
    const auto seen = file.ChangeCount();
    const std::int64_t milliseconds = file.Snapshot()->gpus[gpu].slow_milliseconds;
    if (milliseconds == 0) return;
    const auto deadline =
        milliseconds == kHangs ? std::nullopt : std::optional(start + milliseconds * 1'000'000);
    if (!file.Wait(seen, deadline)) return;
  }
}

Return ResolveDevice(const void* pointer, Target& target) {
  NVML_TRY(Resolve(pointer, target));
  const bool device =
      target.handle->kind == Handle::Kind::kGpu || target.handle->kind == Handle::Kind::kMigDevice;
  return device ? kSuccess : kInvalidArgument;
}

Return ResolveGpu(const void* pointer, Target& target) {
  return ResolveKind(pointer, Handle::Kind::kGpu, target);
}

Return ResolveGpuInstance(const void* pointer, Target& target) {
  return ResolveKind(pointer, Handle::Kind::kGpuInstance, target);
}

Return ResolveComputeInstance(const void* pointer, Target& target) {
  return ResolveKind(pointer, Handle::Kind::kComputeInstance, target);
}

Return CopyText(const std::string& text, char* buffer, unsigned length) {
  NVML_REQUIRE(buffer != nullptr);
  if (text.size() + 1 > length) return kInsufficientSize;
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace pitcrew::simulation::library
