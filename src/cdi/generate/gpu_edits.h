// What a container needs for one GPU or MIG device, and the device's names (container-toolkit.md
// 6.4, 6.5).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cdi/generate/driver_files.h"
#include "cdi/generate/generate.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"

namespace pitcrew::cdi_generate {

// `mig` is null for the GPU itself.
std::string NameFor(const gpu::Device& gpu, const gpu::MigDevice* mig, Naming naming);

// Those that are asked for: whether a full GPU's memory is coherent (coherence.h).
cdi::Annotations AnnotationsOf(const gpu::Device& gpu, const gpu::MigDevice* mig,
                               const Options& options);

// kNotFound "DeviceNodeMissing", "MigMinorsMissing", "MigMinorMissing".
base::Result<cdi::ContainerEdits> EditsOf(const gpu::Device& device, const gpu::MigDevice* mig,
                                          const DriverFiles& files, const Options& options);

// The nodes through which every program reaches the driver: those that exist.
void AddControlNodes(const DriverFiles& files, const Options& options, cdi::ContainerEdits& edits);
bool IsControlNode(std::string_view path);

}  // namespace pitcrew::cdi_generate
