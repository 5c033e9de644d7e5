#include "simulation/sysfs/vgpu.h"

#include <algorithm>

namespace pitcrew::simulation::sysfs {

const VgpuType* Gpu::FindType(std::uint32_t id) const {
  const auto found = std::ranges::find(types, id, &VgpuType::id);
  return found == types.end() ? nullptr : &*found;
}

std::uint32_t Fits(const Gpu& gpu, const std::vector<VgpuInUse>& in_use, const VgpuType& type) {
  const auto same = static_cast<std::uint32_t>(std::ranges::count_if(
      in_use, [&](const VgpuType* one) { return one->mig_instance == type.mig_instance; }));
  if (!type.mig_instance.empty()) {
    // One vGPU has a whole GPU instance.
    const auto instances = gpu.mig.instances.find(type.mig_instance);
    if (!gpu.mig.enabled || instances == gpu.mig.instances.end()) return 0;
    return instances->second > same ? instances->second - same : 0;
  }
  if (gpu.mig.enabled) return 0;
  const bool other_size = std::ranges::any_of(in_use, [&](const VgpuType* one) {
    return !one->mig_instance.empty() || one->framebuffer_gib != type.framebuffer_gib;
  });
  if (other_size) return 0;
  return type.count > same ? type.count - same : 0;
}

std::string MigInstanceOf(std::string_view short_name) {
  const auto dash = short_name.find('-');
  if (dash == std::string_view::npos) return {};
  std::string name(short_name.substr(0, dash));
  name += "g.";
  for (const char letter : short_name.substr(dash + 1)) {
    if (letter < '0' || letter > '9') break;
    name += letter;
  }
  return name + (short_name.ends_with("ME") ? "gb+me" : "gb");
}

}  // namespace pitcrew::simulation::sysfs
