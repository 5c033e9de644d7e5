// Which devices a container asks for, and by which names they stand in the CDI registry
// (container-toolkit.md 7.2 to 7.4). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/spec.h"
#include "shim/config.h"

namespace pitcrew::shim {

struct Requests {
  std::vector<std::string> devices;   // as written: "0", "all", "none", "nvidia.com/gpu=0"
  std::vector<std::string> warnings;  // requests that were passed over, and why
};

// The first source that is not empty: annotations with one of `prefixes`, mounts below
// /var/run/nvidia-container-devices (if accepted), the environment.
Requests FindRequests(const oci::Spec& spec, const Config& config,
                      const std::vector<std::string>& prefixes);

// kLegacy is kPrepared with the rules of legacy_rules.h and requirements.h, kCsv with the latter.
enum class Mode { kCdi, kPrepared, kLegacy, kCsv };

struct Resolution {
  Mode mode = Mode::kCdi;
  std::vector<std::string> names;  // qualified, each once, in order; prepared "all" or "none" alone
  bool names_a_kind = false;       // the container itself names one of them with its kind
  std::vector<std::string> warnings;
};

// kPrepared names devices of the kind runtime.nvidia.com/gpu, whose specification the toolkit
// prepares beforehand; upstream generates it anew for every container (its jit-cdi mode) or injects
// behind the runtime's back (its legacy mode); a container that names them with their kind has that
// mode, whatever the configuration says. `forced_mode` is empty or wins over the
// configuration. kInvalid for a mode that there is not, and "MixedDeviceKinds" where prepared
// devices are named together with others.
base::Result<Resolution> ResolveRequests(const oci::Spec& spec, const Config& config,
                                         std::string_view forced_mode);

// The prepared device that is none: the driver's files, and no device.
inline constexpr std::string_view kNoPreparedDevice = "runtime.nvidia.com/gpu=none";

// The devices that values of variables name (7.3, "Env value rules"): "all" alone, "" for none.
std::vector<std::string> RequestedValues(const std::vector<std::string>& values);

// Whether a qualified name is of the kind runtime.nvidia.com/gpu.
bool IsPrepared(std::string_view name);

// "<default_kind>=<name>" for names that are not qualified; "" means none; repetitions dropped.
std::vector<std::string> QualifiedNames(const std::vector<std::string>& devices,
                                        std::string_view default_kind);

}  // namespace pitcrew::shim
