#include "desired/workload.h"

namespace pitcrew::desired {

std::string_view ToString(Workload workload) {
  switch (workload) {
    case Workload::kContainer:
      return "container";
    case Workload::kPassthrough:
      return "vm-passthrough";
    case Workload::kVgpu:
      return "vm-vgpu";
  }
  return "";
}

std::optional<Workload> WorkloadNamed(std::string_view name) {
  for (const Workload workload : {Workload::kContainer, Workload::kPassthrough, Workload::kVgpu}) {
    if (name == ToString(workload)) return workload;
  }
  return std::nullopt;
}

Workload WorkloadFor(std::string_view label, const api::SandboxWorkloads& sandbox) {
  if (!sandbox.enabled) return Workload::kContainer;
  if (const auto own = WorkloadNamed(label)) return *own;
  return WorkloadNamed(sandbox.default_workload).value_or(Workload::kContainer);
}

}  // namespace pitcrew::desired
