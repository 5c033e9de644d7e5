// How people name devices of a node (container-toolkit.md 6.4).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/inventory.h"

namespace pitcrew::cdi_generate {

// Whether the ids are for no device at all: the first special word counts.
bool MeansNoDevice(const std::vector<std::string>& ids);
bool MeansAllDevices(const std::vector<std::string>& ids);

struct ChosenDevice {
  const gpu::Device* gpu = nullptr;
  const gpu::MigDevice* mig = nullptr;  // null: the GPU itself, also in MIG mode
  bool operator==(const ChosenDevice&) const = default;
};

// The devices of these ids in their order, each once: "0", "GPU-<uuid>", "MIG-<uuid>",
// "MIG-GPU-<uuid>/<gpu instance>/<compute instance>", "<gpu>:<mig>". kInvalid "BadDeviceId" for
// another form, kNotFound "NoSuchDevice" with what there is. They point into `inventory`.
base::Result<std::vector<ChosenDevice>> ChooseDevices(const gpu::Inventory& inventory,
                                                      const std::vector<std::string>& ids);

}  // namespace pitcrew::cdi_generate
