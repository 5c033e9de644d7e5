// The MIG geometry that vGPUs need: GPU instances for MIG-backed types, MIG off for time-sliced
// ones (vgpu-device-manager.md section 3.2).
#pragma once

#include <vector>

#include "base/result.h"
#include "node/mig/configuration.h"
#include "node/mig/layout.h"
#include "node/vgpu/configuration.h"
#include "node/vgpu/gpu.h"

namespace pitcrew::node::vgpu {

// GPU instances for vGPUs of one GPU. Where the GPU has no profile of the type's own size, several
// vGPUs share an instance: eight DC-1-3Q lie in a 1g.24gb. Types that need the same profile count
// together (upstream keeps one of their counts: section 9, weakness 11). Empty for time-sliced
// types. kInvalid: "failed to parse vGPU type <t>: ...".
base::Result<mig::ProfileCounts> MigDevicesFor(const Counts& vgpus, const mig::Gpu& gpu);

// The configuration for the MIG side, an entry for each GPU that is meant and can do MIG. kInvalid
// "NotMigCapable" for one that cannot and gets MIG-backed vGPUs.
base::Result<mig::NamedConfig> ToMigConfig(const std::vector<Gpu>& gpus,
                                           const std::vector<mig::Gpu>& mig_gpus,
                                           const NamedConfig& config);

// Whether any GPU of these gets MIG-backed vGPUs.
bool WantsMig(const std::vector<Gpu>& gpus, const NamedConfig& config);

}  // namespace pitcrew::node::vgpu
