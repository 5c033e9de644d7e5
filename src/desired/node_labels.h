// What the labels and annotations of one node should be: a pure function of the node and the policy
// (reference operator-behaviour.md sections 7.3 to 7.7).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/cluster_policy.h"
#include "desired/node.h"
#include "desired/operand_table.h"
#include "desired/workload.h"

namespace pitcrew::desired {

class DriverAssignment;

// The part of a policy that node labels depend on.
struct NodePolicy {
  bool sandbox_enabled = false;
  // For nodes without a valid label of their own while sandbox workloads are on.
  Workload default_workload = Workload::kContainer;
  std::string sandbox_mode;  // kubevirt or kata
  bool driver_enabled = true;
  // The operands that bring a driver to nodes for virtual machines.
  bool vgpu_manager_enabled = true;
  bool vfio_manager_enabled = true;
  bool mig_manager_enabled = true;
  bool mig_default_all_disabled = false;
  bool driver_auto_upgrade = false;  // driver enabled, autoUpgrade, no sandbox workloads
  bool qualification_required = false;
  bool nvidia_driver_crd = false;  // owners and the annotation follow NVIDIADriver objects
  // With nvidia_driver_crd: which driver each node gets. Null: that is not known, and owners and
  // annotations stay as they are.
  std::shared_ptr<const DriverAssignment> drivers = nullptr;

  // A node of another runtime gets the toolkit of its own runtime; none: all get the same one.
  std::optional<Runtime> main_runtime;

  bool operator==(const NodePolicy&) const = default;
};
// `main_runtime` is that of NodeMainRuntime.
NodePolicy NodePolicyOf(const api::ClusterPolicy& policy,
                        std::optional<Runtime> main_runtime = std::nullopt);

// The runtime whose nodes get the toolkit of upstream's name; none on OpenShift, where there is
// only one. The same as Facts::runtime() without the other facts.
std::optional<Runtime> NodeMainRuntime(std::string_view openshift_version,
                                       const RuntimeCounts& runtimes,
                                       const StandingToolkits& toolkits);

// Keys to set (a value) and to remove (none).
using Changes = std::map<std::string, std::optional<std::string>, std::less<>>;

// Of the taint api::kNotQualifiedTaint.
enum class TaintChange { kNone, kPut, kRemove };

struct NodeDecision {
  Changes labels;
  Changes annotations;
  TaintChange taint = TaintChange::kNone;
  // A driver manager has cordoned it, and none comes any more that would take that back.
  bool uncordon = false;
  // The changes say that the node has no GPU any more: the caller passes them through the guard.
  bool removes_gpu = false;

  [[nodiscard]] bool empty() const {
    return labels.empty() && annotations.empty() && taint == TaintChange::kNone && !uncordon;
  }
};

// A node that carried a GPU and lost its PCI label: with other labels of node feature discovery
// that is evidence; without any, discovery has not looked (or its labels were wiped) and nothing
// changes.
NodeDecision DecideNode(const Node& node, const NodePolicy& policy,
                        const OperandTable& operands = Operands());

// Container unless sandbox workloads are on; then what the node's label says. A label that names no
// workload leaves the node as it is set up: a misspelt word takes no GPU from virtual machines.
Workload WorkloadOf(const Node& node, const NodePolicy& policy);
// What the operator has set a node up for, by its labels for that; none before it has.
std::optional<Workload> SetUpFor(const std::function<bool(std::string_view key)>& has_label);
// Whether the label nvidia.com/gpu.workload.config is there and names none.
bool IsUnknownWorkload(std::string_view label);
bool IsMigCapable(const Labels& labels);

// Was a GPU node, and discovery says that it has none now. While the kubelet offers GPUs there,
// discovery is wrong.
bool LosesGpu(const Node& node);

// Annotation on a node for containers: which of its GPUs are for virtual machines, as a list of PCI
// addresses ("0000:65:00.0,0000:b3:00.0"). Set by a person; without it, none.
inline constexpr std::string_view kMachineGpus =
    "nvidia.com/gpu-operator.gpus-for-virtual-machines";
// What decides whether the annotation has an effect on a node.
struct DivisionFacts {
  bool sandbox_enabled = false;
  Workload workload = Workload::kContainer;
  bool driver_enabled = true;     // the operator brings drivers
  std::string_view driver_label;  // of the node, api::kDeployDriver
};
// Why it has none, as the rest of a sentence; "" where it has one.
std::string WhyNotDivided(const DivisionFacts& facts);
// The same of a node; "" also where it has no such annotation.
std::string WhyNotDivided(const Node& node, const NodePolicy& policy);
// A node of this workload is set up for virtual machines too, because of that annotation.
bool IsDivided(const Node& node, const NodePolicy& policy);

// Annotation on the ClusterPolicy, "true".
inline constexpr std::string_view kAllowMassRemoval = "nvidia.com/gpu-operator.allow-mass-removal";

}  // namespace pitcrew::desired
