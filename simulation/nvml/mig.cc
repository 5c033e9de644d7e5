// MIG mode, GPU instances, compute instances.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "simulation/nvml/mig_devices.h"
#include "simulation/nvml/session.h"
#include "simulation/state/mig.h"

using namespace pitcrew::nvml::abi;
using namespace pitcrew::simulation;
using namespace pitcrew::simulation::library;
using pitcrew::gpu::MigPlacement;

namespace {

enum class MigFault { kNone, kEndBefore, kEndAfter, kFail };

// $PITCREW_SIMULATION_MIG_FAULT: what befalls this process at its n-th change of modes or instances
// (simulation/README.md). "end-before:3", "end-after:3", "fail:3"; "fail-from:3" all from then on.
MigFault NextMigFault() {
  static std::atomic<unsigned> changes = 0;
  const unsigned now = ++changes;
  const char* text = std::getenv("PITCREW_SIMULATION_MIG_FAULT");
  if (text == nullptr) return MigFault::kNone;
  const std::string_view fault(text);
  const auto colon = fault.find(':');
  if (colon == std::string_view::npos) return MigFault::kNone;
  const auto kind = fault.substr(0, colon);
  const auto at = std::strtoul(text + colon + 1, nullptr, 10);
  if (kind == "fail-from" && now >= at) return MigFault::kFail;
  if (now != at) return MigFault::kNone;
  if (kind == "end-before") return MigFault::kEndBefore;
  if (kind == "end-after") return MigFault::kEndAfter;
  return kind == "fail" ? MigFault::kFail : MigFault::kNone;
}

// Runs `change` on the live state of the target's GPU; its return code is the call's.
template <class Change>
Return ChangeGpu(const Target& target, Change change) {
  const MigFault fault = NextMigFault();
  if (fault == MigFault::kEndBefore) ::raise(SIGKILL);
  if (fault == MigFault::kFail) return kUnknown;
  Return result = kUnknown;
  const auto status = target.file->Update([&](NodeState& node) {
    result = change(node, node.gpus[target.handle->gpu]);
    return result == kSuccess;
  });
  if (fault == MigFault::kEndAfter) ::raise(SIGKILL);
  if (status) return result;
  return status.error().code == pitcrew::base::Code::kDenied ? kNoPermission : kUnknown;
}

void FillProfile(const GpuProfile& profile, GpuInstanceProfileInfo& info) {
  info = {profile.id,
          profile.p2p,
          profile.slices,
          profile.max_instances,
          profile.multiprocessors,
          profile.copy_engines,
          profile.decoders,
          profile.encoders,
          profile.jpegs,
          profile.ofas,
          profile.memory_mib};
}

Return FindProfile(const Target& target, unsigned index, const GpuProfile*& profile) {
  NVML_REQUIRE(index < kMaxGpuInstanceProfiles);
  profile = FindProfileByIndex(*target.gpu, index);
  return profile == nullptr ? kNotSupported : kSuccess;
}

// The name with which NVML presents a GPU instance profile: that of its whole compute instance.
std::string WholeProfileName(const GpuState& gpu, const GpuProfile& profile) {
  for (const auto& compute : std::span(profile.compute_profiles, profile.compute_profile_count)) {
    if (compute.slices == profile.slices) return "MIG " + MigProfileName(gpu, profile, compute);
  }
  return {};
}

// Both versions of the structure that begin with a version word.
Return FillVersioned(const GpuState& gpu, const GpuProfile& profile, void* buffer) {
  NVML_REQUIRE(buffer != nullptr);
  const std::string name = WholeProfileName(gpu, profile);
  const unsigned version = *static_cast<const unsigned*>(buffer);
  if (version == kGpuInstanceProfileInfoV2) {
    auto& info = *static_cast<GpuInstanceProfileInfoV2*>(buffer);
    // The version comes back as 0 (seen of driver 580.159.04): whoever asks again sets it again.
    info = {0,
            profile.id,
            profile.p2p,
            profile.slices,
            profile.max_instances,
            profile.multiprocessors,
            profile.copy_engines,
            profile.decoders,
            profile.encoders,
            profile.jpegs,
            profile.ofas,
            profile.memory_mib,
            {}};
    std::snprintf(info.name, sizeof(info.name), "%s", name.c_str());
    return kSuccess;
  }
  if (version == kGpuInstanceProfileInfoV3) {
    auto& info = *static_cast<GpuInstanceProfileInfoV3*>(buffer);
    info = {version,
            profile.id,
            profile.slices,
            profile.max_instances,
            profile.multiprocessors,
            profile.copy_engines,
            profile.decoders,
            profile.encoders,
            profile.jpegs,
            profile.ofas,
            profile.memory_mib,
            {},
            profile.p2p};
    std::snprintf(info.name, sizeof(info.name), "%s", name.c_str());
    return kSuccess;
  }
  return kArgumentVersionMismatch;
}

std::optional<MigPlacement> ToPlacement(const InstancePlacement* placement) {
  if (placement == nullptr) return std::nullopt;
  return MigPlacement{placement->start, placement->size};
}

Return CreateInstance(Device device, unsigned profile_id,
                      const std::optional<MigPlacement>& placement, GpuInstance* instance) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(instance != nullptr);
  std::uint64_t serial = 0;
  NVML_TRY(ChangeGpu(target, [&](NodeState& node, GpuState& gpu) {
    return CreateGpuInstance(node, gpu, profile_id, placement, serial);
  }));
  *instance = Session::Get().HandleFor({Handle::Kind::kGpuInstance, target.handle->gpu, serial, 0});
  return kSuccess;
}

Return CreateCompute(GpuInstance instance, unsigned profile_id,
                     const std::optional<MigPlacement>& placement, ComputeInstance* compute) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(compute != nullptr);
  std::uint64_t serial = 0;
  NVML_TRY(ChangeGpu(target, [&](NodeState& node, GpuState& gpu) {
    return CreateComputeInstance(node, gpu, target.handle->instance_serial, profile_id, placement,
                                 serial);
  }));
  Session::Get().ShowCapabilities();
  *compute = Session::Get().HandleFor(
      {Handle::Kind::kComputeInstance, target.handle->gpu, target.handle->instance_serial, serial});
  return kSuccess;
}

}  // namespace

NVML_API Return nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(current != nullptr && pending != nullptr);
  if (target.gpu->mig_capable == 0) return kNotSupported;
  *current = target.gpu->mig_current;
  *pending = target.gpu->mig_pending;
  return kSuccess;
}

NVML_API Return nvmlDeviceSetMigMode(Device device, unsigned mode, Return* activation) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(mode <= 1 && activation != nullptr);
  return ChangeGpu(target, [&](NodeState&, GpuState& gpu) {
    return SetMigMode(gpu, mode == kFeatureEnabled, *activation);
  });
}

NVML_API Return nvmlDeviceGetGpuInstanceProfileInfo(Device device, unsigned index,
                                                    GpuInstanceProfileInfo* info) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(info != nullptr);
  const GpuProfile* profile = nullptr;
  NVML_TRY(FindProfile(target, index, profile));
  FillProfile(*profile, *info);
  return kSuccess;
}

NVML_API Return nvmlDeviceGetGpuInstanceProfileInfoV(Device device, unsigned index, void* info) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  const GpuProfile* profile = nullptr;
  NVML_TRY(FindProfile(target, index, profile));
  return FillVersioned(*target.gpu, *profile, info);
}

NVML_API Return nvmlDeviceGetGpuInstanceProfileInfoByIdV(Device device, unsigned id, void* info) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  const GpuProfile* profile = FindProfileById(*target.gpu, id);
  if (profile == nullptr) return kNotSupported;
  return FillVersioned(*target.gpu, *profile, info);
}

NVML_API Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned profile_id,
                                                              InstancePlacement* placements,
                                                              unsigned* count) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr);
  if (target.gpu->mig_capable == 0) return kNotSupported;
  const GpuProfile* profile = FindProfileById(*target.gpu, profile_id);
  NVML_REQUIRE(profile != nullptr);
  const auto possible = PossiblePlacements(*profile);
  const unsigned room = *count;
  *count = static_cast<unsigned>(possible.size());
  if (placements == nullptr) return kSuccess;
  if (room < possible.size()) return kInsufficientSize;
  for (const auto& placement : possible) *placements++ = {placement.start, placement.size};
  return kSuccess;
}
// The unversioned call trusts the buffer to be large enough.
NVML_API Return nvmlDeviceGetGpuInstancePossiblePlacements(Device device, unsigned profile_id,
                                                           InstancePlacement* placements,
                                                           unsigned* count) {
  NVML_REQUIRE(count != nullptr);
  *count = kMaxPlacements;
  return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile_id, placements, count);
}

// What would fit: also while MIG is off.
NVML_API Return nvmlDeviceGetGpuInstanceRemainingCapacity(Device device, unsigned profile_id,
                                                          unsigned* count) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(count != nullptr);
  if (target.gpu->mig_capable == 0) return kNotSupported;
  const GpuProfile* profile = FindProfileById(*target.gpu, profile_id);
  NVML_REQUIRE(profile != nullptr);
  *count = RemainingCapacity(*target.gpu, *profile);
  return kSuccess;
}

NVML_API Return nvmlDeviceCreateGpuInstance(Device device, unsigned profile_id,
                                            GpuInstance* instance) {
  return CreateInstance(device, profile_id, std::nullopt, instance);
}

NVML_API Return nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned profile_id,
                                                         const InstancePlacement* placement,
                                                         GpuInstance* instance) {
  NVML_REQUIRE(placement != nullptr);
  return CreateInstance(device, profile_id, ToPlacement(placement), instance);
}

NVML_API Return nvmlGpuInstanceDestroy(GpuInstance instance) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  return ChangeGpu(target, [&](NodeState&, GpuState& gpu) {
    return DestroyGpuInstance(gpu, target.handle->instance_serial);
  });
}

NVML_API Return nvmlDeviceGetGpuInstances(Device device, unsigned profile_id,
                                          GpuInstance* instances, unsigned* count) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(instances != nullptr && count != nullptr);
  if (target.gpu->mig_capable == 0 || target.gpu->mig_current == 0) return kNotSupported;
  const GpuProfile* profile = FindProfileById(*target.gpu, profile_id);
  NVML_REQUIRE(profile != nullptr);
  unsigned found = 0;
  for (const auto& instance : target.gpu->instances) {
    if (instance.serial == 0 || ProfileOf(*target.gpu, instance).id != profile_id) continue;
    instances[found++] = Session::Get().HandleFor(
        {Handle::Kind::kGpuInstance, target.handle->gpu, instance.serial, 0});
  }
  *count = found;
  return kSuccess;
}

NVML_API Return nvmlDeviceGetGpuInstanceById(Device device, unsigned id, GpuInstance* instance) {
  Target target;
  NVML_TRY(ResolveGpu(device, target));
  NVML_REQUIRE(instance != nullptr);
  if (target.gpu->mig_capable == 0 || target.gpu->mig_current == 0) return kNotSupported;
  const auto* found = FindInstanceById(*target.gpu, id);
  if (found == nullptr) return kNotFound;
  *instance =
      Session::Get().HandleFor({Handle::Kind::kGpuInstance, target.handle->gpu, found->serial, 0});
  return kSuccess;
}

NVML_API Return nvmlGpuInstanceGetInfo(GpuInstance instance, GpuInstanceInfo* info) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(info != nullptr);
  *info = {Session::Get().HandleFor({Handle::Kind::kGpu, target.handle->gpu, 0, 0}),
           target.instance->id,
           ProfileOf(*target.gpu, *target.instance).id,
           {target.instance->start, target.instance->size}};
  return kSuccess;
}

namespace {

Return FindComputeProfile(const Target& target, unsigned index, unsigned engine,
                          const ComputeProfile*& compute) {
  NVML_REQUIRE(index < kMaxComputeProfiles);
  if (engine != kComputeEngineProfileShared) return kNotSupported;
  compute = FindComputeProfileByIndex(ProfileOf(*target.gpu, *target.instance), index);
  return compute == nullptr ? kNotSupported : kSuccess;
}

ComputeInstanceProfileInfo Describe(const GpuProfile& profile, const ComputeProfile& compute) {
  return {compute.id,           compute.slices,   compute.max_instances, compute.multiprocessors,
          profile.copy_engines, profile.decoders, profile.encoders,      profile.jpegs,
          profile.ofas};
}

}  // namespace

NVML_API Return nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance instance, unsigned index,
                                                             unsigned engine,
                                                             ComputeInstanceProfileInfo* info) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(info != nullptr);
  const ComputeProfile* compute = nullptr;
  NVML_TRY(FindComputeProfile(target, index, engine, compute));
  *info = Describe(ProfileOf(*target.gpu, *target.instance), *compute);
  return kSuccess;
}

NVML_API Return nvmlGpuInstanceGetComputeInstanceProfileInfoV(GpuInstance instance, unsigned index,
                                                              unsigned engine, void* buffer) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(buffer != nullptr);
  const ComputeProfile* compute = nullptr;
  NVML_TRY(FindComputeProfile(target, index, engine, compute));
  auto& info = *static_cast<ComputeInstanceProfileInfoV2*>(buffer);
  if (info.version != kComputeInstanceProfileInfoV2 &&
      info.version != kComputeInstanceProfileInfoV3) {
    return kArgumentVersionMismatch;
  }
  const GpuProfile& profile = ProfileOf(*target.gpu, *target.instance);
  info.info = Describe(profile, *compute);
  std::snprintf(info.name, sizeof(info.name), "MIG %s",
                MigProfileName(*target.gpu, profile, *compute).c_str());
  if (info.version == kComputeInstanceProfileInfoV3) {
    static_cast<ComputeInstanceProfileInfoV3*>(buffer)->capabilities = 0;
  }
  return kSuccess;
}

NVML_API Return nvmlGpuInstanceGetComputeInstanceRemainingCapacity(GpuInstance instance,
                                                                   unsigned profile_id,
                                                                   unsigned* count) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(count != nullptr);
  const GpuProfile& profile = ProfileOf(*target.gpu, *target.instance);
  const auto* compute = FindComputeProfileById(profile, profile_id);
  NVML_REQUIRE(compute != nullptr);
  *count = RemainingCapacity(profile, *target.instance, *compute);
  return kSuccess;
}

NVML_API Return nvmlGpuInstanceGetComputeInstancePossiblePlacements(GpuInstance instance,
                                                                    unsigned profile_id,
                                                                    InstancePlacement* placements,
                                                                    unsigned* count) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(count != nullptr);
  const GpuProfile& profile = ProfileOf(*target.gpu, *target.instance);
  const auto* compute = FindComputeProfileById(profile, profile_id);
  NVML_REQUIRE(compute != nullptr);
  const unsigned room = *count;
  *count = profile.slices - compute->slices + 1;
  if (placements == nullptr) return kSuccess;
  if (room < *count) return kInsufficientSize;
  for (unsigned start = 0; start < *count; ++start) *placements++ = {start, compute->slices};
  return kSuccess;
}

NVML_API Return nvmlGpuInstanceCreateComputeInstance(GpuInstance instance, unsigned profile_id,
                                                     ComputeInstance* compute) {
  return CreateCompute(instance, profile_id, std::nullopt, compute);
}

NVML_API Return nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    GpuInstance instance, unsigned profile_id, const InstancePlacement* placement,
    ComputeInstance* compute) {
  NVML_REQUIRE(placement != nullptr);
  return CreateCompute(instance, profile_id, ToPlacement(placement), compute);
}

NVML_API Return nvmlComputeInstanceDestroy(ComputeInstance compute) {
  Target target;
  NVML_TRY(ResolveComputeInstance(compute, target));
  return ChangeGpu(target, [&](NodeState&, GpuState& gpu) {
    return DestroyComputeInstance(gpu, target.handle->instance_serial,
                                  target.handle->compute_serial);
  });
}

NVML_API Return nvmlGpuInstanceGetComputeInstances(GpuInstance instance, unsigned profile_id,
                                                   ComputeInstance* computes, unsigned* count) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(computes != nullptr && count != nullptr);
  const GpuProfile& profile = ProfileOf(*target.gpu, *target.instance);
  NVML_REQUIRE(FindComputeProfileById(profile, profile_id) != nullptr);
  unsigned found = 0;
  for (const auto& compute : target.instance->compute_instances) {
    if (compute.serial == 0 || ProfileOf(profile, compute).id != profile_id) continue;
    computes[found++] =
        Session::Get().HandleFor({Handle::Kind::kComputeInstance, target.handle->gpu,
                                  target.handle->instance_serial, compute.serial});
  }
  *count = found;
  return kSuccess;
}

NVML_API Return nvmlGpuInstanceGetComputeInstanceById(GpuInstance instance, unsigned id,
                                                      ComputeInstance* compute) {
  Target target;
  NVML_TRY(ResolveGpuInstance(instance, target));
  NVML_REQUIRE(compute != nullptr);
  const auto* found = FindComputeInstanceById(*target.instance, id);
  if (found == nullptr) return kNotFound;
  *compute = Session::Get().HandleFor({Handle::Kind::kComputeInstance, target.handle->gpu,
                                       target.handle->instance_serial, found->serial});
  return kSuccess;
}

NVML_API Return nvmlComputeInstanceGetInfo_v2(ComputeInstance compute, ComputeInstanceInfo* info) {
  Target target;
  NVML_TRY(ResolveComputeInstance(compute, target));
  NVML_REQUIRE(info != nullptr);
  Session& session = Session::Get();
  *info = {session.HandleFor({Handle::Kind::kGpu, target.handle->gpu, 0, 0}),
           session.HandleFor(
               {Handle::Kind::kGpuInstance, target.handle->gpu, target.handle->instance_serial, 0}),
           target.compute->id,
           ProfileOf(ProfileOf(*target.gpu, *target.instance), *target.compute).id,
           {target.compute->start, target.compute->size}};
  return kSuccess;
}
NVML_API Return nvmlComputeInstanceGetInfo(ComputeInstance compute, ComputeInstanceInfo* info) {
  return nvmlComputeInstanceGetInfo_v2(compute, info);
}
