// Event sets: XID and ECC events, waited for on the state file.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "simulation/nvml/architectures.h"
#include "simulation/nvml/session.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;

namespace {

struct Registration {
  std::uint32_t gpu;
  unsigned long long types;
};

struct Set {
  std::mutex mutex;
  std::vector<Registration> registrations;
  std::uint64_t seen = 0;  // sequence of the last event that was looked at
};

// Sets by their handle. A waiter holds its set, so that freeing it meanwhile is harmless.
struct Sets {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<Set>> known;
};

Sets& AllSets() {
  struct Keeper {
    Sets* sets = new Sets;
    ~Keeper() {
      if (!Session::InUse()) delete sets;
    }
  };
  static Keeper keeper;
  return *keeper.sets;
}

std::shared_ptr<Set> FindSet(const void* handle) {
  const std::lock_guard guard(AllSets().mutex);
  const auto found = AllSets().known.find(handle);
  return found == AllSets().known.end() ? nullptr : found->second;
}

// Hopper and later can report changes of clocks, power source and MIG configuration, too, and what
// befalls memory and GPU; of them only XIDs and ECC errors ever happen here.
unsigned long long SupportedTypes(const GpuState& gpu) {
  constexpr unsigned long long kFurther = 0xff90;
  const auto always = kEventXid | kEventPState | (gpu.architecture >= kHopper ? kFurther : 0);
  return gpu.ecc_supported != 0 ? always | kEventSingleBitEcc | kEventDoubleBitEcc : always;
}

// The first event after set.seen that somebody registered for.
std::optional<EventRecord> NextEvent(Set& set, const NodeState& node) {
  const std::lock_guard guard(set.mutex);
  const std::uint64_t oldest = node.last_event > kMaxEvents ? node.last_event - kMaxEvents : 0;
  set.seen = std::max(set.seen, oldest);
  while (set.seen < node.last_event) {
    const EventRecord& event = node.events[++set.seen % kMaxEvents];
    if (event.sequence != set.seen) continue;
    const auto wanted = std::ranges::any_of(set.registrations, [&](const Registration& r) {
      return r.gpu == event.gpu && (r.types & event.type) != 0;
    });
    if (wanted) return event;
  }
  return std::nullopt;
}

}  // namespace

NVML_API Return nvmlEventSetCreate(EventSet* handle) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(handle != nullptr);
  auto set = std::make_shared<Set>();
  set->seen = file->Snapshot()->last_event;
  const std::lock_guard guard(AllSets().mutex);
  *handle = set.get();
  AllSets().known[set.get()] = std::move(set);
  return kSuccess;
}

NVML_API Return nvmlEventSetFree(EventSet handle) {
  if (!Session::Get().state()) return kUninitialized;
  const std::lock_guard guard(AllSets().mutex);
  return AllSets().known.erase(handle) != 0 ? kSuccess : kInvalidArgument;
}

NVML_API Return nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  Target target;
  NVML_TRY(ResolveDevice(device, target));
  NVML_REQUIRE(types != nullptr);
  *types = target.compute != nullptr ? 0 : SupportedTypes(*target.gpu);
  return kSuccess;
}

NVML_API Return nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet handle) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  const auto set = FindSet(handle);
  NVML_REQUIRE(set != nullptr);
  if ((types & ~SupportedTypes(*target.gpu)) != 0) return kNotSupported;
  const std::lock_guard guard(set->mutex);
  set->registrations.push_back({target.handle->gpu, types});
  return kSuccess;
}

NVML_API Return nvmlEventSetWait_v2(EventSet handle, EventData* data, unsigned milliseconds) {
  const auto file = Session::Get().state();
  if (!file) return kUninitialized;
  NVML_REQUIRE(data != nullptr);
  const auto set = FindSet(handle);
  NVML_REQUIRE(set != nullptr);
  const Session::Waiting waiting;
  const std::int64_t deadline = MonotonicNow() + std::int64_t{milliseconds} * 1'000'000;
  while (true) {
    WaitOutHang(*file);
    const auto changes = file->ChangeCount();
    if (const auto event = NextEvent(*set, *file->Snapshot())) {
      *data = {Session::Get().HandleFor({Handle::Kind::kGpu, event->gpu, 0, 0}), event->type,
               event->data, event->gpu_instance_id, event->compute_instance_id};
      return kSuccess;
    }
    if (!file->Wait(changes, deadline)) return kTimeout;
  }
}
// The first version knows no instances; its structure is the same.
NVML_API Return nvmlEventSetWait(EventSet handle, EventData* data, unsigned milliseconds) {
  return nvmlEventSetWait_v2(handle, data, milliseconds);
}
