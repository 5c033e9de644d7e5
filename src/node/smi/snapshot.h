// Everything that the views show, read once.
#pragma once

#include <string>
#include <vector>

#include "base/observed.h"
#include "base/result.h"
#include "gpu/inventory.h"
#include "nvml/nvml.h"

namespace pitcrew::node::smi {

struct GpuView {
  gpu::Device device;
  nvml::Readings readings;  // empty when the GPU has a fault
};

struct Snapshot {
  std::string driver_version;
  std::string cuda_version;  // "13.0"; "N/A" when unknown
  std::vector<GpuView> gpus;
};

base::Result<Snapshot> ReadSnapshot(nvml::Library& library);

// Keeps the GPUs that `selection` names (indices, UUIDs, serials or bus ids, separated by commas);
// kNotFound "NoSuchGpu" when one names none. An empty selection keeps all.
base::Status Select(Snapshot& snapshot, const std::string& selection);

}  // namespace pitcrew::node::smi
