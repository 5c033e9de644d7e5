#include "node/mig/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/mig_profile.h"
#include "node/mig/profiles.h"

namespace pitcrew::node::mig {
namespace {

bool SamePlace(const std::optional<gpu::MigPlacement>& a,
               const std::optional<gpu::MigPlacement>& b) {
  return !a || !b || *a == *b;
}

// Whether every element of `a` has a partner of its own in `b`. Where places are said by one side
// only, any partner does: first come, first served is right then, because equal elements are equal.
template <class T, class Same>
bool SameInAnyOrder(const std::vector<T>& a, const std::vector<T>& b, Same same) {
  if (a.size() != b.size()) return false;
  std::vector<bool> taken(b.size(), false);
  return std::ranges::all_of(a, [&](const T& left) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      if (taken[i] || !same(left, b[i])) continue;
      taken[i] = true;
      return true;
    }
    return false;
  });
}

bool SameCompute(const ComputeInstance& a, const ComputeInstance& b) {
  return a.profile == b.profile && SamePlace(a.placement, b.placement);
}

bool SameGpuInstance(const GpuInstance& a, const GpuInstance& b) {
  return a.profile == b.profile && SamePlace(a.placement, b.placement) &&
         SameInAnyOrder(a.compute, b.compute, SameCompute);
}

}  // namespace

bool SameLayout(const Layout& a, const Layout& b) {
  return a.mig_enabled == b.mig_enabled &&
         SameInAnyOrder(a.instances, b.instances, SameGpuInstance);
}

std::string Gpu::Title() const {
  if (name.empty()) return fmt::format("GPU {} ({})", position, pci.SysfsName());
  return fmt::format("GPU {} ({}, {})", position, name, pci.SysfsName());
}

base::Result<ProfileCounts> CountsOf(const Gpu& gpu, const Layout& layout) {
  ProfileCounts counts;
  for (const auto& instance : layout.instances) {
    if (instance.compute.empty()) continue;
    const Profile* found = FindGpuInstanceProfile(gpu, instance.profile);
    if (found == nullptr) {
      return base::Fail(base::Invalid(
          "NoSuchProfile", fmt::format("{} has no GPU instance profile with NVML's number {}",
                                       gpu.Title(), instance.profile)));
    }
    for (const auto& compute : instance.compute) {
      TRY_ASSIGN(const auto name, gpu::NameMigProfile(found->index, compute.profile,
                                                      found->memory_mib, gpu.memory_bytes));
      ++counts[name.Name()];
    }
  }
  return counts;
}

}  // namespace pitcrew::node::mig
