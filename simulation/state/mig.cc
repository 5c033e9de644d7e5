#include "simulation/state/mig.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <tuple>

#include "nvml/abi_metrics.h"
#include "simulation/state/identity.h"

namespace pitcrew::simulation {
namespace {

using gpu::MigPlacement;
using namespace nvml::abi;

template <class State, std::size_t N>
State* FindSerial(State (&slots)[N], std::uint64_t serial) {
  if (serial == 0) return nullptr;
  const auto found = std::ranges::find(slots, serial, &State::serial);
  return found == std::end(slots) ? nullptr : found;
}

template <class State, std::size_t N>
State* FreeSlot(State (&slots)[N]) {
  const auto found = std::ranges::find(slots, std::uint64_t{0}, &State::serial);
  return found == std::end(slots) ? nullptr : found;
}

template <class State, std::size_t N>
unsigned CountProfile(const State (&slots)[N], std::uint32_t profile) {
  return static_cast<unsigned>(std::ranges::count_if(
      slots, [&](const State& s) { return s.serial != 0 && s.profile == profile; }));
}

std::vector<MigPlacement> Occupied(const GpuState& gpu) {
  std::vector<MigPlacement> occupied;
  for (const auto& instance : gpu.instances) {
    if (instance.serial != 0) occupied.push_back({instance.start, instance.size});
  }
  return occupied;
}

std::vector<MigPlacement> Occupied(const GpuInstanceState& instance) {
  std::vector<MigPlacement> occupied;
  for (const auto& compute : instance.compute_instances) {
    if (compute.serial != 0) occupied.push_back({compute.start, compute.size});
  }
  return occupied;
}

std::vector<MigPlacement> AllPlacements(const GpuState& gpu) {
  std::vector<MigPlacement> all;
  for (const auto& profile : std::span(gpu.profiles, gpu.profile_count)) {
    const auto possible = PossiblePlacements(profile);
    all.insert(all.end(), possible.begin(), possible.end());
  }
  return all;
}

// Compute instances lie on compute slices, at any multiple of nothing: every start that leaves
// room.
std::vector<MigPlacement> ComputePlacements(const GpuProfile& profile,
                                            const ComputeProfile& compute_profile) {
  std::vector<MigPlacement> possible;
  for (unsigned start = 0; start + compute_profile.slices <= profile.slices; ++start) {
    possible.push_back({start, compute_profile.slices});
  }
  return possible;
}

// The driver numbers GPU instances like the nodes of a binary tree over the memory slices: the
// whole GPU is 0, halves from 1, quarters from 3, eighths from 7. On GPUs of eight slices the upper
// half comes first on every level: seven 1g are 7, 8, 9 (slices 4 to 6) and 11 to 14 (0 to 3),
// three 2g are 3, 5 and 6, as public listings of H100 and A100 show. On RTX PRO 6000 (12 slices)
// the lower half comes first.
std::uint32_t InstanceId(const GpuState& gpu, const MigPlacement& placement) {
  const std::uint32_t slices = MemorySlices(gpu);
  std::uint32_t nodes = 1;  // of the level
  while (slices / nodes > placement.size && slices % (2 * nodes) == 0) nodes *= 2;
  const std::uint32_t position = placement.start / std::max(slices / nodes, 1u);
  return nodes - 1 + (slices == 8 ? (position + nodes / 2) % nodes : position);
}

// Decoders, encoders, JPEG and optical flow engines that an instance takes for itself.
using Engines = std::array<std::uint32_t, 4>;
Engines EnginesOf(const GpuProfile& profile) {
  return {profile.decoders, profile.encoders, profile.jpegs, profile.ofas};
}

// How many more instances of `profile` the GPU's engines suffice for. A GPU has as many as its
// richest profile.
unsigned EnginesLeftFor(const GpuState& gpu, const GpuProfile& profile) {
  Engines left{};
  for (const auto& other : std::span(gpu.profiles, gpu.profile_count)) {
    const Engines all = EnginesOf(other);
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = std::max(left[i], all[i]);
  }
  for (const auto& instance : gpu.instances) {
    if (instance.serial == 0) continue;
    const Engines taken = EnginesOf(ProfileOf(gpu, instance));
    for (std::size_t i = 0; i < left.size(); ++i) left[i] -= std::min(left[i], taken[i]);
  }
  unsigned fits = kMaxGpuInstances;
  const Engines needed = EnginesOf(profile);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (needed[i] != 0) fits = std::min(fits, left[i] / needed[i]);
  }
  return fits;
}

bool HasInstances(const GpuState& gpu) {
  return std::ranges::any_of(gpu.instances, [](const auto& i) { return i.serial != 0; });
}

bool HasProcesses(const GpuState& gpu) {
  return std::ranges::any_of(gpu.processes, [](const auto& p) { return p.pid != 0; });
}

}  // namespace

std::uint32_t MemorySlices(const GpuState& gpu) {
  std::uint32_t slices = 0;
  for (const auto& profile : std::span(gpu.profiles, gpu.profile_count)) {
    slices = std::max(slices, profile.placement_size);
  }
  return slices;
}

const GpuProfile* FindProfileById(const GpuState& gpu, std::uint32_t id) {
  const std::span profiles(gpu.profiles, gpu.profile_count);
  const auto found = std::ranges::find(profiles, id, &GpuProfile::id);
  return found == profiles.end() ? nullptr : &*found;
}

const GpuProfile* FindProfileByIndex(const GpuState& gpu, std::uint32_t index) {
  const std::span profiles(gpu.profiles, gpu.profile_count);
  const auto found = std::ranges::find(profiles, index, &GpuProfile::index);
  return found == profiles.end() ? nullptr : &*found;
}

const ComputeProfile* FindComputeProfileById(const GpuProfile& profile, std::uint32_t id) {
  const std::span profiles(profile.compute_profiles, profile.compute_profile_count);
  const auto found = std::ranges::find(profiles, id, &ComputeProfile::id);
  return found == profiles.end() ? nullptr : &*found;
}

const ComputeProfile* FindComputeProfileByIndex(const GpuProfile& profile, std::uint32_t index) {
  const std::span profiles(profile.compute_profiles, profile.compute_profile_count);
  const auto found = std::ranges::find(profiles, index, &ComputeProfile::index);
  return found == profiles.end() ? nullptr : &*found;
}

const GpuInstanceState* FindInstance(const GpuState& gpu, std::uint64_t serial) {
  return FindSerial(gpu.instances, serial);
}

const GpuInstanceState* FindInstanceById(const GpuState& gpu, std::uint32_t id) {
  const auto found = std::ranges::find_if(
      gpu.instances, [&](const auto& i) { return i.serial != 0 && i.id == id; });
  return found == std::end(gpu.instances) ? nullptr : found;
}

const ComputeInstanceState* FindComputeInstance(const GpuInstanceState& instance,
                                                std::uint64_t serial) {
  return FindSerial(instance.compute_instances, serial);
}

const ComputeInstanceState* FindComputeInstanceById(const GpuInstanceState& instance,
                                                    std::uint32_t id) {
  const auto found = std::ranges::find_if(
      instance.compute_instances, [&](const auto& c) { return c.serial != 0 && c.id == id; });
  return found == std::end(instance.compute_instances) ? nullptr : found;
}

const GpuProfile& ProfileOf(const GpuState& gpu, const GpuInstanceState& instance) {
  return gpu.profiles[std::min(instance.profile, kMaxGpuInstanceProfiles - 1)];
}

const ComputeProfile& ProfileOf(const GpuProfile& profile, const ComputeInstanceState& instance) {
  return profile.compute_profiles[std::min(instance.profile, kMaxComputeProfiles - 1)];
}

std::vector<MigPlacement> PossiblePlacements(const GpuProfile& profile) {
  std::vector<MigPlacement> possible;
  for (const auto start : std::span(profile.placement_starts, profile.placement_count)) {
    possible.push_back({start, profile.placement_size});
  }
  return possible;
}

unsigned RemainingCapacity(const GpuState& gpu, const GpuProfile& profile) {
  const auto position = static_cast<std::uint32_t>(&profile - gpu.profiles);
  const unsigned used = CountProfile(gpu.instances, position);
  // Placements of one profile do not overlap each other, so each free one is one more instance.
  const auto free = FreePlacements(PossiblePlacements(profile), Occupied(gpu)).size();
  const unsigned left = profile.max_instances > used ? profile.max_instances - used : 0;
  return std::min({left, static_cast<unsigned>(free), EnginesLeftFor(gpu, profile)});
}

unsigned RemainingCapacity(const GpuProfile& profile, const GpuInstanceState& instance,
                           const ComputeProfile& compute_profile) {
  const auto position = static_cast<std::uint32_t>(&compute_profile - profile.compute_profiles);
  const unsigned used = CountProfile(instance.compute_instances, position);
  auto occupied = Occupied(instance);
  unsigned fits = 0;
  for (const auto& candidate : ComputePlacements(profile, compute_profile)) {
    if (FreePlacements(std::span(&candidate, 1), occupied).empty()) continue;
    occupied.push_back(candidate);
    ++fits;
  }
  const unsigned left =
      compute_profile.max_instances > used ? compute_profile.max_instances - used : 0;
  return std::min(left, fits);
}

Return SetMigMode(GpuState& gpu, bool enabled, Return& activation) {
  activation = kSuccess;
  if (gpu.mig_capable == 0) return kNotSupported;
  if (!enabled && gpu.mig_current != 0 && HasInstances(gpu)) return kInUse;
  gpu.mig_pending = enabled ? 1 : 0;
  if (gpu.mig_current == gpu.mig_pending) return kSuccess;
  if (HasProcesses(gpu)) {
    activation = kInUse;
  } else {
    gpu.mig_current = gpu.mig_pending;
  }
  return kSuccess;
}

Return ResetGpu(GpuState& gpu) {
  if (HasProcesses(gpu)) return kInUse;
  if (gpu.mig_pending == 0) {
    for (auto& instance : gpu.instances) instance = {};
  }
  gpu.mig_current = gpu.mig_pending;
  gpu.ecc_current = gpu.ecc_pending;
  gpu.ecc_corrected_volatile = 0;
  gpu.ecc_uncorrected_volatile = 0;
  // Rows stay remapped, and what is worn out stays so.
  gpu.remap_pending = 0;
  gpu.recovery_action = kRecoveryNone;
  gpu.unknown_error = 0;
  gpu.links_down = 0;
  for (auto& counters : gpu.link_errors) std::ranges::fill(counters, 0);
  gpu.pcie_replays = 0;
  gpu.pcie_correctable_errors = 0;
  ++gpu.resets;
  return kSuccess;
}

Return CreateGpuInstance(NodeState& node, GpuState& gpu, std::uint32_t profile_id,
                         std::optional<MigPlacement> placement, std::uint64_t& serial) {
  if (gpu.mig_capable == 0 || gpu.mig_current == 0) return kNotSupported;
  const GpuProfile* profile = FindProfileById(gpu, profile_id);
  if (profile == nullptr) return kInvalidArgument;
  const auto possible = PossiblePlacements(*profile);
  if (placement && std::ranges::find(possible, *placement) == possible.end()) {
    return kInvalidArgument;
  }
  GpuInstanceState* slot = FreeSlot(gpu.instances);
  if (slot == nullptr || RemainingCapacity(gpu, *profile) == 0) return kInsufficientResources;
  const auto occupied = Occupied(gpu);
  if (placement) {
    if (FreePlacements(std::span(&*placement, 1), occupied).empty()) return kInsufficientResources;
  } else {
    placement = gpu::ChoosePlacement(possible, occupied, AllPlacements(gpu));
    if (!placement) return kInsufficientResources;
  }
  *slot = {};
  slot->serial = serial = ++node.last_serial;
  slot->id = InstanceId(gpu, *placement);
  slot->profile = static_cast<std::uint32_t>(profile - gpu.profiles);
  slot->start = placement->start;
  slot->size = placement->size;
  return kSuccess;
}

Return DestroyGpuInstance(GpuState& gpu, std::uint64_t serial) {
  GpuInstanceState* instance = FindSerial(gpu.instances, serial);
  if (instance == nullptr) return kNotFound;
  const auto has_compute =
      std::ranges::any_of(instance->compute_instances, [](const auto& c) { return c.serial != 0; });
  if (has_compute) return kInUse;
  *instance = {};
  return kSuccess;
}

Return CreateComputeInstance(NodeState& node, GpuState& gpu, std::uint64_t instance_serial,
                             std::uint32_t profile_id, std::optional<MigPlacement> placement,
                             std::uint64_t& serial) {
  GpuInstanceState* instance = FindSerial(gpu.instances, instance_serial);
  if (instance == nullptr) return kNotFound;
  const GpuProfile& profile = ProfileOf(gpu, *instance);
  const ComputeProfile* compute_profile = FindComputeProfileById(profile, profile_id);
  if (compute_profile == nullptr) return kInvalidArgument;
  const auto possible = ComputePlacements(profile, *compute_profile);
  if (placement && std::ranges::find(possible, *placement) == possible.end()) {
    return kInvalidArgument;
  }
  ComputeInstanceState* slot = FreeSlot(instance->compute_instances);
  if (slot == nullptr || RemainingCapacity(profile, *instance, *compute_profile) == 0) {
    return kInsufficientResources;
  }
  const auto wanted = placement ? std::vector{*placement} : possible;
  const auto free = FreePlacements(wanted, Occupied(*instance));
  if (free.empty()) return kInsufficientResources;
  std::uint32_t id = 0;
  while (FindComputeInstanceById(*instance, id) != nullptr) ++id;
  *slot = {};
  slot->serial = serial = ++node.last_serial;
  slot->id = id;
  slot->profile = static_cast<std::uint32_t>(compute_profile - profile.compute_profiles);
  slot->start = free.front().start;
  slot->size = free.front().size;
  return kSuccess;
}

Return DestroyComputeInstance(GpuState& gpu, std::uint64_t instance_serial, std::uint64_t serial) {
  GpuInstanceState* instance = FindSerial(gpu.instances, instance_serial);
  if (instance == nullptr) return kNotFound;
  ComputeInstanceState* compute = FindSerial(instance->compute_instances, serial);
  if (compute == nullptr) return kNotFound;
  const auto busy = std::ranges::any_of(gpu.processes, [&](const auto& process) {
    return process.pid != 0 && process.gpu_instance_id == instance->id &&
           process.compute_instance_id == compute->id;
  });
  if (busy) return kInUse;
  *compute = {};
  return kSuccess;
}

std::vector<MigDeviceRef> ListMigDevices(const GpuState& gpu) {
  std::vector<MigDeviceRef> devices;
  for (const auto& instance : gpu.instances) {
    if (instance.serial == 0) continue;
    for (const auto& compute : instance.compute_instances) {
      if (compute.serial == 0) continue;
      devices.push_back({instance.serial, compute.serial, instance.id, compute.id});
    }
  }
  std::ranges::sort(devices, {}, [](const MigDeviceRef& device) {
    return std::tuple(device.instance_id, device.compute_id);
  });
  return devices;
}

std::string MigUuid(const GpuState& gpu, const GpuInstanceState& instance,
                    const ComputeInstanceState& compute_instance) {
  const GpuProfile& profile = ProfileOf(gpu, instance);
  std::string text = gpu.uuid;
  for (const auto part : {profile.id, instance.start, instance.size,
                          ProfileOf(profile, compute_instance).id, compute_instance.start}) {
    text += "/" + std::to_string(part);
  }
  return "MIG-" + NamedUuid(text);
}

}  // namespace pitcrew::simulation
