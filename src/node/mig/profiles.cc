#include "node/mig/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace pitcrew::node::mig {
namespace {

bool SameName(const gpu::MigProfile& a, const gpu::MigProfile& b) {
  const auto sorted = [](std::vector<std::string> attributes) {
    std::ranges::sort(attributes);
    return attributes;
  };
  return a.compute_slices == b.compute_slices && a.gpu_slices == b.gpu_slices &&
         a.memory_gb == b.memory_gb && sorted(a.attributes) == sorted(b.attributes) &&
         sorted(a.negative_attributes) == sorted(b.negative_attributes);
}

}  // namespace

const Profile* FindGpuInstanceProfile(const Gpu& gpu, unsigned index) {
  const auto* profiles = gpu.profiles.value();
  if (profiles == nullptr) return nullptr;
  const auto found = std::ranges::find(*profiles, index, &Profile::index);
  return found == profiles->end() ? nullptr : &*found;
}

bool HasWrongCounts(const Gpu& gpu) { return gpu.id.device == 0x20B710DE; }

base::Result<std::vector<NamedProfile>> ListProfiles(const Gpu& gpu) {
  if (gpu.profiles.is_unknown()) {
    return base::Fail(gpu.profiles.error()->Within(gpu.Title() + ": profiles"));
  }
  std::vector<NamedProfile> named;
  if (gpu.profiles.is_absent()) return named;
  std::set<std::string> names;
  for (const Profile& profile : *gpu.profiles.value()) {
    for (unsigned index = 0; index < gpu::kComputeInstanceProfileCount; ++index) {
      if (!gpu::IsListedCombination(gpu::ComputeInstanceSlices(index),
                                    gpu::GpuInstanceSlices(profile.index))) {
        continue;
      }
      TRY_ASSIGN(auto name,
                 gpu::NameMigProfile(profile.index, index, profile.memory_mib, gpu.memory_bytes));
      if (!names.insert(name.Name()).second) continue;
      named.push_back({std::move(name), &profile, index});
    }
  }
  return named;
}

std::string DescribeProfiles(const Gpu& gpu) {
  const auto profiles = ListProfiles(gpu);
  std::vector<std::string> texts;
  for (const auto& profile : profiles.value_or(std::vector<NamedProfile>())) {
    if (profile.name.compute_slices != profile.name.gpu_slices) continue;
    texts.push_back(fmt::format("{} (up to {})", profile.name.Name(), profile.gpu_instance->count));
  }
  return texts.empty() ? "none" : base::Join(texts, ", ");
}

base::Result<NamedProfile> FindProfile(const Gpu& gpu, const std::string& name) {
  TRY_ASSIGN(const auto wanted, gpu::MigProfile::Parse(name));
  TRY_ASSIGN(const auto profiles, ListProfiles(gpu));
  for (const auto& profile : profiles) {
    if (SameName(profile.name, wanted)) return profile;
  }
  return base::Fail(base::Invalid(
      "NoSuchProfile", fmt::format("MIG profile \"{}\" not found on this GPU: {}; it has {}", name,
                                   gpu.Title(), DescribeProfiles(gpu))));
}

}  // namespace pitcrew::node::mig
