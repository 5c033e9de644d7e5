#include "cdi/generate/coherence.h"

#include "cdi/generate/edits.h"

namespace pitcrew::cdi_generate {

std::optional<std::string> CoherentAnnotation(const gpu::Device& device) {
  if (device.coherent_memory.is_unknown()) return std::nullopt;
  return device.coherent_memory.is_present() && *device.coherent_memory.value() ? "true" : "false";
}

std::map<std::string, std::vector<cdi::Device>> SplitByAnnotation(std::vector<cdi::Device>& devices,
                                                                  std::string_view key) {
  std::map<std::string, std::vector<cdi::Device>> groups;
  for (auto& device : devices) {
    const auto annotation = device.annotations.find(std::string(key));
    if (annotation == device.annotations.end()) continue;
    auto& group = groups[std::string(key) + "=" + annotation->second];
    device.annotations.erase(annotation);
    group.push_back(device);
  }
  return groups;
}

std::vector<CoherentSpec> SplitByCoherence(cdi::Spec& spec, bool merged_device) {
  auto groups = SplitByAnnotation(spec.devices, kCoherentAnnotation);
  std::vector<CoherentSpec> specs;
  for (const auto& [value, suffix] :
       {std::pair{"true", ".coherent"}, std::pair{"false", ".noncoherent"}}) {
    const auto group = groups.find(std::string(kCoherentAnnotation) + "=" + value);
    if (group == groups.end()) continue;
    cdi::Spec part = spec;
    part.kind += suffix;
    part.devices = std::move(group->second);
    Assemble(part, merged_device);
    specs.push_back({suffix, std::move(part)});
  }
  return specs;
}

}  // namespace pitcrew::cdi_generate
