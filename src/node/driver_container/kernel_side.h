// The driver's modules in the node's kernel: who uses them, loading them in their order, taking
// them out as one (driver-lifecycle.md 9.6, 9.10).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel_modules/kernel_modules.h"
#include "kernel_modules/module_set.h"
#include "node/driver_container/options.h"
#include "node/driver_container/parameters.h"

namespace pitcrew::node::driver_container {

using kernel_modules::LoadedModules;

// This image's, of the kernel that runs.
base::Result<kernel_modules::Modules> OpenModules(const Options& options);

// Those of the driver, and of GPUDirect Storage and GDRCopy (nvidia_fs, gdrdrv), which have nothing
// to do without it: they go with it when nobody uses them.
kernel_modules::Members DriverModules();

// Those of them that are loaded.
base::Result<LoadedModules> ReadDriverModules(const std::filesystem::path& sys);

// Whether all are there that a driver container loads: a container that was killed while it took
// them out, or loaded them, has left some.
bool IsWhole(const LoadedModules& modules);

// kUnavailable "DriverInUse" when something beside these modules holds one of them: a program with
// a device open, or another module.
base::Status RefuseUsedModules(const LoadedModules& modules);

// The same while the driver's daemons run, whose own uses do not count: what refuses now would
// refuse without them, too.
base::Status RefuseForeignUses(LoadedModules modules);

// Loads the driver's modules from this image. Those that were not loaded before are taken out again
// when one of them cannot be.
base::Status LoadDriverModules(const Options& options, const ModuleParameters& parameters,
                               bool with_peermem);

// Takes all of them out, or none: those that went before one that did not are loaded again.
base::Status UnloadDriverModules(const Options& options);

// The folder in which the kernel looks for the firmware of GPUs, where it has none yet.
base::Status SetFirmwareFolder(const Options& options);

// Whether GPUs share memory with network cards here: asked for, and there is such a card.
base::Result<bool> HasDirectRdma(const Options& options);

}  // namespace pitcrew::node::driver_container
