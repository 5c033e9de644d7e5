// From what GPUs a node has and where its driver's files are to a CDI specification: a pure
// function (container-toolkit.md 6).
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "cdi/generate/driver_files.h"
#include "cdi/spec.h"
#include "gpu/inventory.h"

namespace pitcrew::cdi_generate {

enum class Naming { kIndex, kTypeIndex, kUuid };

struct Options {
  std::string kind = "nvidia.com/gpu";
  std::string driver_root = "/";  // host paths of what Locate saw
  std::string dev_root = "/";
  std::string hook_path = "/usr/bin/nvidia-cdi-hook";
  std::vector<Naming> naming = {Naming::kIndex, Naming::kUuid};
  bool merged_device = true;                // device "all" with everything of the others
  std::vector<std::string> disabled_hooks;  // names of 6.7, or "all"
  // Beats disabled_hooks. chmod is off without it.
  std::vector<std::string> enabled_hooks;
  std::string ldconfig_path;  // handed to update-ldcache; "": not
  bool additional_gids = true;
  bool coherent_annotations =
      false;  // full GPUs say whether their memory is coherent (coherence.h)
  // For who answers every request from one specification: GPUs in MIG mode by their own names too,
  // which is how they are asked for before they are divided; they are no part of "all". Where no
  // GPU is divided yet, "all" is nothing but the common edits, and not an error.
  bool divided_gpus = false;
  // Which devices (device_ids.h). "none" anywhere: one device "none" that changes nothing.
  std::vector<std::string> ids = {"all"};
};

struct Generated {
  cdi::Spec spec;
  // Devices that are left out and why (a faulty GPU, a MIG capability that the kernel does not
  // list): the others stay usable.
  std::vector<base::Error> omitted;
};

// Mode nvml: a device per GPU and MIG device and name. Full GPUs in MIG mode are left out, unless
// `divided_gpus` says otherwise.
// kNotFound "NoDevices" when no device is left. A device asked for by its own id is never left out:
// what keeps it from being offered is the error.
base::Result<Generated> GenerateGpus(const gpu::Inventory& inventory, const DriverFiles& files,
                                     const Options& options);

// Mode management: one device "all" with every NVIDIA device node, for the operator's own pods.
// kNotFound "NoDeviceNodes" ("no NVIDIA device nodes found") without any.
base::Result<cdi::Spec> GenerateManagement(const DriverFiles& files, const Options& options);

}  // namespace pitcrew::cdi_generate
