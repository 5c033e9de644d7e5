// NVIDIADriver (nvidia.com/v1alpha1) as a value: a driver and the nodes that it is for. Source:
// reference clusterpolicy-api.md section 3. Reading applies the CRD's defaults. Fields that
// upstream accepts and never reads are accepted and not kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::api {

// Values of spec.driverType.
inline constexpr std::string_view kDriverTypeGpu = "gpu";
inline constexpr std::string_view kDriverTypeVgpu = "vgpu";
inline constexpr std::string_view kDriverTypeVgpuHost = "vgpu-host-manager";

struct NvidiaDriver {
  std::string name;
  std::string uid;
  std::int64_t generation = 0;

  // For the nodes that no other driver selects.
  bool is_default = false;
  std::string type{kDriverTypeGpu};
  // As written; none when it is left out, which is another thing than an empty one.
  std::optional<std::map<std::string, std::string, std::less<>>> node_selector;
  // Its `path` is "spec".
  Driver driver;
  Component gds;
  Component gdrcopy;
  // Of the DaemonSets and their pods; labels without "app" and app.kubernetes.io/*, which are the
  // operator's own (operator-behaviour.md section 8.3).
  DaemonSetSettings pods;

  // As in ClusterPolicy.
  std::vector<FieldProblem> problems;
};

// Reads a NVIDIADriver object. Fails only when `object` is none at all.
base::Result<NvidiaDriver> ReadNvidiaDriver(const codec::Json& object);

}  // namespace pitcrew::api
