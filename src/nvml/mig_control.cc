#include "nvml/mig_control.h"

#include <algorithm>
#include <string>

#include "gpu/mig_profile.h"
#include "nvml/library.h"

namespace pitcrew::nvml {
namespace {

Placement From(const abi::InstancePlacement& placement) {
  return {placement.start, placement.size};
}

// NVML says so of profiles that this GPU does not have.
bool IsNoSuchProfile(const base::Error& error) {
  return error.reason == "NotSupported" || error.reason == "NvmlInvalidArgument";
}

class NvmlMigControl final : public MigControl {
 public:
  NvmlMigControl(std::shared_ptr<LoadedLibrary> library, std::string uuid, abi::Device device)
      : library_(std::move(library)), uuid_(std::move(uuid)), device_(device) {}

  base::Result<gpu::MigMode> Mode() override {
    unsigned current = 0;
    unsigned pending = 0;
    TRY(NVML_CALL(nvml(), nvmlDeviceGetMigMode, What("read the MIG mode"), device_, &current,
                  &pending));
    return gpu::MigMode{current == abi::kFeatureEnabled, pending == abi::kFeatureEnabled};
  }

  base::Result<bool> SetMode(bool enabled) override {
    abi::Return activation = abi::kSuccess;
    const auto what = What(enabled ? "enable MIG" : "disable MIG");
    TRY(NVML_CALL(nvml(), nvmlDeviceSetMigMode, what, device_,
                  enabled ? abi::kFeatureEnabled : abi::kFeatureDisabled, &activation));
    if (activation == abi::kSuccess) return true;
    if (activation == abi::kResetRequired) return false;
    return base::Fail(FromReturn(activation, what));
  }

  base::Result<std::vector<InstanceProfile>> GpuInstanceProfiles() override {
    std::vector<InstanceProfile> profiles;
    for (unsigned index = 0; index < gpu::kGpuInstanceProfileCount; ++index) {
      abi::GpuInstanceProfileInfo info{};
      const auto read = NVML_CALL(nvml(), nvmlDeviceGetGpuInstanceProfileInfo,
                                  What("read a MIG profile"), device_, index, &info);
      if (!read && IsNoSuchProfile(read.error())) continue;
      TRY(read);
      profiles.push_back(
          {.index = index,
           .id = info.id,
           .slice_count = info.slice_count,
           .instance_count = info.instance_count,
           .memory_mib = info.memory_size_mb,
           .engines = {info.decoder_count, info.encoder_count, info.jpeg_count, info.ofa_count}});
    }
    return profiles;
  }

  base::Result<std::vector<Placement>> GpuInstancePlacements(unsigned profile_id) override {
    return ReadPlacements([&](abi::InstancePlacement* placements, unsigned* count) {
      return NVML_CALL(nvml(), nvmlDeviceGetGpuInstancePossiblePlacements_v2,
                       What("read the placements of a MIG profile"), device_, profile_id,
                       placements, count);
    });
  }

  base::Result<std::vector<Instance>> GpuInstances() override {
    TRY_ASSIGN(const auto profiles, GpuInstanceProfiles());
    std::vector<Instance> instances;
    for (const auto& profile : profiles) {
      std::vector<abi::GpuInstance> handles(profile.instance_count);
      auto count = static_cast<unsigned>(handles.size());
      if (handles.empty()) continue;
      TRY(NVML_CALL(nvml(), nvmlDeviceGetGpuInstances, What("list GPU instances"), device_,
                    profile.id, handles.data(), &count));
      for (unsigned i = 0; i < std::min<std::size_t>(count, handles.size()); ++i) {
        TRY_ASSIGN(const auto instance, Describe(handles[i]));
        instances.push_back(instance);
      }
    }
    std::ranges::sort(instances, {}, &Instance::placement);
    return instances;
  }

  base::Result<Instance> CreateGpuInstance(unsigned profile_id,
                                           std::optional<Placement> placement) override {
    abi::GpuInstance handle = nullptr;
    const auto what = What("make a GPU instance");
    if (placement) {
      const abi::InstancePlacement at{placement->start, placement->size};
      TRY(NVML_CALL(nvml(), nvmlDeviceCreateGpuInstanceWithPlacement, what, device_, profile_id,
                    &at, &handle));
    } else {
      TRY(NVML_CALL(nvml(), nvmlDeviceCreateGpuInstance, what, device_, profile_id, &handle));
    }
    return Describe(handle);
  }

  base::Status DestroyGpuInstance(unsigned id) override {
    TRY_ASSIGN(const auto handle, FindGpuInstance(id));
    return NVML_CALL(nvml(), nvmlGpuInstanceDestroy,
                     What("remove GPU instance " + std::to_string(id)), handle);
  }

  base::Result<std::vector<InstanceProfile>> ComputeInstanceProfiles(
      unsigned gpu_instance) override {
    TRY_ASSIGN(const auto parent, FindGpuInstance(gpu_instance));
    std::vector<InstanceProfile> profiles;
    for (unsigned index = 0; index < gpu::kComputeInstanceProfileCount; ++index) {
      abi::ComputeInstanceProfileInfo info{};
      const auto read = NVML_CALL(nvml(), nvmlGpuInstanceGetComputeInstanceProfileInfo,
                                  What("read a compute instance profile"), parent, index,
                                  abi::kComputeEngineProfileShared, &info);
      if (!read && IsNoSuchProfile(read.error())) continue;
      TRY(read);
      profiles.push_back({.index = index,
                          .id = info.id,
                          .slice_count = info.slice_count,
                          .instance_count = info.instance_count});
    }
    return profiles;
  }

  base::Result<std::vector<Instance>> ComputeInstances(unsigned gpu_instance) override {
    TRY_ASSIGN(const auto parent, FindGpuInstance(gpu_instance));
    TRY_ASSIGN(const auto profiles, ComputeInstanceProfiles(gpu_instance));
    std::vector<Instance> instances;
    for (const auto& profile : profiles) {
      std::vector<abi::ComputeInstance> handles(profile.instance_count);
      auto count = static_cast<unsigned>(handles.size());
      if (handles.empty()) continue;
      TRY(NVML_CALL(nvml(), nvmlGpuInstanceGetComputeInstances, What("list compute instances"),
                    parent, profile.id, handles.data(), &count));
      for (unsigned i = 0; i < std::min<std::size_t>(count, handles.size()); ++i) {
        TRY_ASSIGN(const auto instance, DescribeCompute(handles[i]));
        instances.push_back(instance);
      }
    }
    std::ranges::sort(instances, {}, &Instance::placement);
    return instances;
  }

  base::Result<Instance> CreateComputeInstance(unsigned gpu_instance, unsigned profile_id,
                                               std::optional<Placement> placement) override {
    TRY_ASSIGN(const auto parent, FindGpuInstance(gpu_instance));
    abi::ComputeInstance handle = nullptr;
    const auto what = What("make a compute instance");
    if (placement) {
      const abi::InstancePlacement at{placement->start, placement->size};
      TRY(NVML_CALL(nvml(), nvmlGpuInstanceCreateComputeInstanceWithPlacement, what, parent,
                    profile_id, &at, &handle));
    } else {
      TRY(NVML_CALL(nvml(), nvmlGpuInstanceCreateComputeInstance, what, parent, profile_id,
                    &handle));
    }
    return DescribeCompute(handle);
  }

  base::Status DestroyComputeInstance(unsigned gpu_instance, unsigned id) override {
    TRY_ASSIGN(const auto parent, FindGpuInstance(gpu_instance));
    abi::ComputeInstance handle = nullptr;
    TRY(NVML_CALL(nvml(), nvmlGpuInstanceGetComputeInstanceById,
                  What("find compute instance " + std::to_string(id)), parent, id, &handle));
    return NVML_CALL(nvml(), nvmlComputeInstanceDestroy,
                     What("remove compute instance " + std::to_string(id)), handle);
  }

 private:
  [[nodiscard]] const Symbols& nvml() const { return library_->symbols(); }
  [[nodiscard]] std::string What(const std::string& action) const {
    return action + " on GPU " + uuid_;
  }

  base::Result<abi::GpuInstance> FindGpuInstance(unsigned id) {
    abi::GpuInstance handle = nullptr;
    TRY(NVML_CALL(nvml(), nvmlDeviceGetGpuInstanceById,
                  What("find GPU instance " + std::to_string(id)), device_, id, &handle));
    return handle;
  }
  base::Result<Instance> Describe(abi::GpuInstance handle) {
    abi::GpuInstanceInfo info{};
    TRY(NVML_CALL(nvml(), nvmlGpuInstanceGetInfo, What("read a GPU instance"), handle, &info));
    return Instance{info.id, info.profile_id, From(info.placement)};
  }
  base::Result<Instance> DescribeCompute(abi::ComputeInstance handle) {
    abi::ComputeInstanceInfo info{};
    TRY(NVML_CALL(nvml(), nvmlComputeInstanceGetInfo_v2, What("read a compute instance"), handle,
                  &info));
    return Instance{info.id, info.profile_id, From(info.placement)};
  }
  // Asks how many there are, then for them.
  template <class Read>
  static base::Result<std::vector<Placement>> ReadPlacements(Read read) {
    unsigned count = 0;
    TRY(read(nullptr, &count));
    std::vector<abi::InstancePlacement> found(count);
    if (count > 0) TRY(read(found.data(), &count));
    std::vector<Placement> placements;
    for (const auto& placement : found) placements.push_back(From(placement));
    return placements;
  }

  const std::shared_ptr<LoadedLibrary> library_;  // outlives the handles
  const std::string uuid_;
  const abi::Device device_;
};

}  // namespace

base::Result<std::unique_ptr<MigControl>> LoadedLibrary::OpenMig(std::string_view device_uuid) {
  TRY_ASSIGN(const abi::Device device, FindDevice(device_uuid));
  return std::make_unique<NvmlMigControl>(shared_from_this(), std::string(device_uuid), device);
}

}  // namespace pitcrew::nvml
