// Findings about virtual machines that ask for GPUs and for which KubeVirt makes no pod: what its
// conditions say, and what it permits (virtualisation-and-olm.md sections 1.3, 1.6 to 1.8 and 7).
#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "fleet/rules.h"
#include "kubevirt/offers.h"

namespace pitcrew::fleet {
namespace {

// Of KubeVirt's virt-controller and virt-api.
constexpr std::string_view kNotPermitted = "is not permitted in permittedHostDevices";
constexpr std::string_view kGateOff = "Host Devices feature gate is not enabled";

Evidence SawCondition(const Machine& machine, const Condition& condition) {
  return {machine.ToString(), fmt::format("condition {}: {}", condition.type, condition.reason),
          FirstLine(condition.message), condition.since};
}

// Where a person writes: HyperConverged writes over what stands in KubeVirt.
const Permission* Written(const Cluster& cluster) {
  const auto found = std::ranges::find_if(cluster.permissions, &Permission::is_hyperconverged);
  if (found != cluster.permissions.end()) return &*found;
  return cluster.permissions.empty() ? nullptr : &cluster.permissions.front();
}

std::string ListOf(const std::set<std::string>& resources) {
  return base::Join(std::vector<std::string>(resources.begin(), resources.end()), ", ");
}

Look GateMissing(const Cluster& cluster, const Machine& machine) {
  const Condition* said = machine.Said(kGateOff);
  if (said == nullptr) return std::nullopt;
  Seen seen{.summary =
                "KubeVirt's feature gate HostDevices is off, which devices of hostDevices "
                "need",
            .evidence = {SawCondition(machine, *said)},
            .words = {{"where",
                       "add HostDevices to spec.configuration.developerConfiguration."
                       "featureGates of the KubeVirt object."}},
            .since = said->since};
  const Permission* written = Written(cluster);
  if (written != nullptr && written->is_hyperconverged()) {
    seen.words["where"] = fmt::format(
        "see why HyperConverged, which always sets the gate, has not:\n"
        "$ kubectl describe hyperconverged -n {} {}",
        written->key.name_space, written->key.name);
  } else if (written != nullptr) {
    seen.words["where"] = fmt::format(
        "add HostDevices to spec.configuration.developerConfiguration.featureGates:\n"
        "$ kubectl edit kubevirt -n {} {}",
        written->key.name_space, written->key.name);
  }
  return seen;
}

Look NotPermitted(const Cluster& cluster, const Machine& machine) {
  const Condition* said = machine.Said(kNotPermitted);
  if (said == nullptr) return std::nullopt;
  std::set<std::string> refused;
  std::ranges::copy_if(machine.resources, std::inserter(refused, refused.end()),
                       [&](const std::string& one) { return Contains(said->message, one); });
  const auto names = ListOf(refused.empty() ? machine.resources : refused);
  Seen seen{
      .summary = fmt::format("KubeVirt does not permit {}", names),
      .evidence = {SawCondition(machine, *said)},
      .words = {{"names", names}, {"field", "permittedHostDevices of KubeVirt or HyperConverged"}},
      .since = said->since};
  if (const Permission* written = Written(cluster)) {
    std::set<std::string> permitted;
    for (const auto& entry : written->permitted.entries) {
      if (!entry.disabled) permitted.insert(entry.resource);
    }
    const auto field = kubevirt::FieldPath(written->form);
    seen.evidence.push_back({written->ToString(), field,
                             permitted.empty() ? "no GPU" : "permits " + ListOf(permitted),
                             std::nullopt});
    seen.words["field"] = fmt::format("{} of {}", field, written->ToString());
  }
  return seen;
}

// Two device plugins register one name with the kubelet, and the machine gets what the last of them
// gives.
Look OfferedTwice(const Cluster& cluster, const Machine& machine) {
  const Permission* written = Written(cluster);
  if (written == nullptr) return std::nullopt;
  for (const std::string& resource : machine.resources) {
    const auto naming = written->permitted.Naming(resource);
    const auto own = std::ranges::find_if(
        naming, [](const auto* entry) { return !entry->external && !entry->disabled; });
    if (own == naming.end()) continue;
    for (const auto& [name, node] : cluster.nodes) {
      if (!kubevirt::RunsPlugin(node.Label(api::kDeploySandboxDevicePlugin))) continue;
      return Seen{.summary = fmt::format("{} is offered by KubeVirt and by the GPU device plugin",
                                         resource),
                  .evidence = {{written->ToString(), kubevirt::FieldPath(written->form),
                                fmt::format("{} without externalResourceProvider: true", resource),
                                std::nullopt},
                               SawLabel(node, api::kDeploySandboxDevicePlugin)},
                  .words = {{"names", resource},
                            {"field", fmt::format("{} of {}", kubevirt::FieldPath(written->form),
                                                  written->ToString())}},
                  .since = machine.created};
    }
  }
  return std::nullopt;
}

constexpr MachineRule kMachineRules[] = {
    {"machine-gate-missing", GateMissing,
     "Name the GPUs in the machine's gpus, which need no gate, or {where}"},
    {"machine-gpu-not-permitted", NotPermitted,
     "Let the operator keep what is permitted (sandboxWorkloads.kubevirt.manage: true), or add "
     "{names} "
     "to {field}, with externalResourceProvider: true. If the operator does it already, its Events "
     "on "
     "that object say why it has not."},
    {"machine-gpu-offered-twice", OfferedTwice,
     "Set externalResourceProvider: true in the entry for {names} in {field}."},
};

}  // namespace

std::span<const MachineRule> MachineRules() { return kMachineRules; }

}  // namespace pitcrew::fleet
