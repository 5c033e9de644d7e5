// What a GPU node is used for (reference operator-behaviour.md section 7.4).
#pragma once

#include <optional>
#include <string_view>

#include "api/cluster_policy.h"

namespace pitcrew::desired {

enum class Workload { kContainer, kPassthrough, kVgpu };

// "container", "vm-passthrough" or "vm-vgpu": the values of nvidia.com/gpu.workload.config.
std::string_view ToString(Workload workload);
// The reverse; none for any other text.
std::optional<Workload> WorkloadNamed(std::string_view name);

// Container unless sandbox workloads are on; then what `label` (the node's
// nvidia.com/gpu.workload.config) says, else the policy's default.
Workload WorkloadFor(std::string_view label, const api::SandboxWorkloads& sandbox);

// A set of workloads.
struct Workloads {
  bool container = false;
  bool passthrough = false;
  bool vgpu = false;

  [[nodiscard]] constexpr bool Has(Workload workload) const {
    return workload == Workload::kContainer     ? container
           : workload == Workload::kPassthrough ? passthrough
                                                : vgpu;
  }
};
inline constexpr Workloads kContainers{.container = true};
inline constexpr Workloads kMachines{.passthrough = true, .vgpu = true};

}  // namespace pitcrew::desired
