// What has to be done to bring up the driver of an image on a node, decided before anything is
// touched: a node that cannot have the new driver keeps what it has.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "node/driver_container/facts.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

struct InstallPlan {
  bool extract = false;           // the run file
  bool install_programs = false;  // the driver's programs and libraries, from it
  bool fetch_headers = false;     // the kernel's headers, by packages
  bool compile = false;           // the kernel modules; else the image has them
  bool sign = false;              // what is compiled

  bool operator==(const InstallPlan&) const = default;
};

// kInvalid or kUnsupported with one of the reasons DriverVersionMissing, DriverFilesMissing,
// NoModulesForKernel, CompilerMissing, KernelHeadersMissing, UnsignedModulesRefused, LittleSpace,
// SigningKeyMissing, VgpuMatchingMissing: each message says what to do.
base::Result<InstallPlan> DecideInstall(const Options& options, const Facts& facts);

// What compiling for this kernel needs, whatever is compiled: CompilerMissing,
// KernelHeadersMissing where no package tool could bring them, UnsignedModulesRefused.
base::Status CheckCompilation(const Options& options, const Facts& facts);

// For the operator, which asks before it takes the present driver away
// (driver_upgrade/image_check.h reads it): "preflight: nothing is missing", or "preflight: ", a
// reason and its message. The room that the present driver's container takes is not asked for.
// `look_for_headers` is called where headers have to be installed: they are missing where it says
// KernelHeadersMissing. Another error of it is no answer, and the report says so.
std::string PreflightReport(const Options& options, Facts facts,
                            const std::function<base::Status()>& look_for_headers);

// Reads what the compiled modules of a run file are called there: "kernel-open" or "kernel".
// `recommended` is what nvidia-installer answered, nothing where it has failed
// (driver-lifecycle.md 9.4).
std::string ModuleSourceFolder(ModuleType type, const std::optional<std::string>& recommended,
                               unsigned branch);

}  // namespace pitcrew::node::driver_container
