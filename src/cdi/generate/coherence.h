// GPUs whose memory is coherent with the processor's, and others, can have classes of their own
// (container-toolkit.md 5.3, "Coherent split").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cdi/generate/generate.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"

namespace pitcrew::cdi_generate {

inline constexpr std::string_view kCoherentAnnotation = "gpu.nvidia.com/coherent";

// "true" or "false"; nothing when NVML failed to tell. A library that cannot tell is one of drivers
// for GPUs that all are not coherent.
std::optional<std::string> CoherentAnnotation(const gpu::Device& device);

// Devices with that annotation, by "<key>=<value>"; the annotation goes, from them and from
// `devices`.
std::map<std::string, std::vector<cdi::Device>> SplitByAnnotation(std::vector<cdi::Device>& devices,
                                                                  std::string_view key);

struct CoherentSpec {
  std::string suffix;  // ".coherent", ".noncoherent": behind the class
  cdi::Spec spec;
};
// Takes the annotations away from `spec`, whose devices with them have a specification each kind.
std::vector<CoherentSpec> SplitByCoherence(cdi::Spec& spec, bool merged_device);

}  // namespace pitcrew::cdi_generate
