#include "node/vgpu/mig_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "gpu/mig_profile.h"
#include "node/mig/profiles.h"
#include "node/vgpu/plan.h"
#include "node/vgpu/type_name.h"

namespace pitcrew::node::vgpu {
namespace {

bool IsMigBacked(const Counts& counts) {
  return std::ranges::any_of(counts, [](const auto& count) {
    const auto name = TypeName::Parse(count.first);
    return name && name->is_mig_backed();
  });
}

// The smallest profile with the type's slices and attribute that has room for it.
std::optional<gpu::MigProfile> RoomierProfile(const TypeName& type,
                                              const std::vector<mig::NamedProfile>& profiles) {
  const auto like = gpu::MigProfile::Parse(type.MigProfile());
  if (!like) return std::nullopt;
  std::optional<gpu::MigProfile> chosen;
  for (const auto& profile : profiles) {
    const auto& name = profile.name;
    const bool fits = name.compute_slices == name.gpu_slices && name.gpu_slices == *type.slices &&
                      name.attributes == like->attributes &&
                      name.negative_attributes == like->negative_attributes &&
                      name.memory_gb >= type.gigabytes;
    if (fits && (!chosen || name.memory_gb < chosen->memory_gb)) chosen = name;
  }
  return chosen;
}

}  // namespace

base::Result<mig::ProfileCounts> MigDevicesFor(const Counts& vgpus, const mig::Gpu& gpu) {
  mig::ProfileCounts devices;
  const auto profiles = mig::ListProfiles(gpu);
  for (const auto& [text, count] : vgpus) {
    const auto type = TypeName::Parse(text);
    if (!type) {
      return base::Fail(type.error().Within(fmt::format("failed to parse vGPU type {}", text)));
    }
    if (!type->is_mig_backed()) continue;
    const auto own = type->MigProfile();
    const bool has_own = !profiles || profiles->empty() || mig::FindProfile(gpu, own);
    const auto shared = has_own ? std::nullopt : RoomierProfile(*type, *profiles);
    if (!shared) {
      // One that the GPU lacks is refused when the geometry is planned, with those that it has.
      devices[own] += count;
      continue;
    }
    const int half_gigabytes = std::max(1, 2 * type->gigabytes);
    const int in_one = std::max(1, 2 * static_cast<int>(shared->memory_gb) / half_gigabytes);
    devices[shared->Name()] += (count + in_one - 1) / in_one;
  }
  return devices;
}

base::Result<mig::NamedConfig> ToMigConfig(const std::vector<Gpu>& gpus,
                                           const std::vector<mig::Gpu>& mig_gpus,
                                           const NamedConfig& config) {
  mig::NamedConfig derived;
  for (const auto& gpu : gpus) {
    const auto* entry = EntryFor(gpu, config);
    if (entry == nullptr) continue;
    const bool wants_mig = IsMigBacked(entry->vgpu_devices);
    const auto found = std::ranges::find(mig_gpus, gpu.pci, &mig::Gpu::pci);
    const bool is_unknown = found != mig_gpus.end() && found->mode.is_unknown();
    // What cannot be read is left as it is, unless it has to be something else.
    if (is_unknown && !wants_mig) continue;
    if (found == mig_gpus.end() || found->CannotDoMig()) {
      if (!wants_mig) continue;
      return base::Fail(base::Invalid(
          "NotMigCapable", fmt::format("{} cannot do MIG, which its vGPUs need: {}", gpu.Title(),
                                       entry->vgpu_devices.begin()->first)));
    }
    mig::ConfigEntry one{.devices = std::vector<int>{found->position}, .mig_enabled = wants_mig};
    TRY_ASSIGN(one.mig_devices, MigDevicesFor(entry->vgpu_devices, *found));
    derived.push_back(std::move(one));
  }
  return derived;
}

bool WantsMig(const std::vector<Gpu>& gpus, const NamedConfig& config) {
  return std::ranges::any_of(gpus, [&](const Gpu& gpu) {
    const auto* entry = EntryFor(gpu, config);
    return entry != nullptr && IsMigBacked(entry->vgpu_devices);
  });
}

}  // namespace pitcrew::node::vgpu
