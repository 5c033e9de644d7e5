// One operand: what the operator deploys under one of upstream's state names. All that the product
// knows of it stands in its descriptor: node labels, default images, the rows of `pitcrew status`,
// removals, conditions and what is paused for a driver change follow from there. Adding one is a
// folder manifests/<state>/, a file operands/<operand>.cc with a descriptor and a pure customize
// function, a line in operands/operands.def, its values in deploy/schema and a golden case.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "desired/facts.h"
#include "desired/image.h"
#include "desired/manifest.h"
#include "desired/node.h"
#include "desired/owner.h"
#include "desired/stage.h"
#include "desired/workload.h"

namespace pitcrew::desired {

class OperandTable;
const OperandTable& Operands();

// Everything that rendering may look at.
struct Context {
  const api::ClusterPolicy& policy;
  const Facts& facts;
  const DefaultImages& images;
  std::string operator_namespace;
  // Whose objects they are; none: the policy's.
  std::optional<Owner> owner = {};
  // The driver that is wanted; null: the policy's own.
  const DriverSpec* driver_spec = nullptr;
  // For which nodes, and under which names; none: for all nodes, under the manifests' names.
  std::optional<Placement> placement = {};
  const OperandTable& operands = Operands();

  [[nodiscard]] const api::Driver& driver() const {
    return driver_spec == nullptr ? policy.driver : driver_spec->driver;
  }
  [[nodiscard]] const api::Component& gds() const {
    return driver_spec == nullptr ? policy.gds : driver_spec->gds;
  }
  [[nodiscard]] const api::Component& gdrcopy() const {
    return driver_spec == nullptr ? policy.gdrcopy : driver_spec->gdrcopy;
  }
  [[nodiscard]] bool gds_enabled() const { return gds().enabled.value_or(false); }
  [[nodiscard]] bool gdrcopy_enabled() const { return gdrcopy().enabled.value_or(false); }
};

// What the policy wants of an operand.
enum class Mode {
  kEnabled,
  kDisabled,   // what it had is removed
  kDelegated,  // NVIDIADriver objects decide: only its DaemonSets are let go, their pods stay
};

struct NodePolicy;

// The node label nvidia.com/gpu.deploy.* that puts pods on a node (reference operator-behaviour.md
// section 7.4).
struct DeployLabel {
  std::string_view key = {};  // "": no label decides, the operand is no DaemonSet
  // Nodes that get it. A label that no workload has is only ever removed.
  Workloads workloads = {};
  // Also nodes for containers of which some GPUs are for virtual machines (kMachineGpus).
  bool on_divided_nodes = false;
  // For virtual machines only in this mode of spec.sandboxWorkloads; "": in every mode.
  std::string_view sandbox_mode = {};
  // Set once on nodes that this says yes to, and then left as it is. Null: on all of them.
  bool (*only_on)(const Labels& labels) = nullptr;
  // What the operator writes; null: "true". Other values are a person's, or of a component that has
  // paused the operand.
  std::string_view (*value)(const Node& node, const NodePolicy& policy) = nullptr;
  // Whether `value` gives this text on some node.
  bool (*may_write)(std::string_view text) = nullptr;

  // The operator wrote this value, or would.
  [[nodiscard]] bool IsOwn(std::string_view text) const {
    return text == "true" || (may_write != nullptr && may_write(text));
  }
};

// Whether its pods use the driver, and so must be gone while the driver or the MIG layout changes
// (reference driver-lifecycle.md section 4.5).
enum class GpuClient {
  kNo,
  kPaused,            // by its deploy label; its pods are waited for
  kPausedWithOthers,  // by a label that it shares with an operand that is waited for
};

// Changes of a node's GPUs that a component makes beside the driver's. Each pauses the operands
// that say in `leaves_for` that they have to be gone meanwhile.
enum class NodeChange {
  kMig,   // the MIG layout (mig-manager.md 9.3)
  kVgpu,  // the vGPUs (vgpu-device-manager.md 6.2)
  kCc,    // the mode of confidential computing (virtualisation-and-olm.md section 12.2)
};

struct Operand {
  // Upstream's state name; also the folder of its manifests and, without "state-", of its golden
  // cases.
  std::string_view state;
  // Type of its condition on the ClusterPolicy, "DriverReady".
  std::string_view condition;
  // In conditions and messages of the operator: "confidential computing manager".
  std::string_view title;
  // In tables and findings: "CC manager". Unique.
  std::string_view name;
  // DaemonSets that it may have, the manifest's first; those of one kernel, system or version begin
  // with one of these names and a dash. Pods that are
  // waited for (gpu_client) carry the name as label "app".
  std::vector<std::string_view> daemonsets = {};
  // Beginning of the names of DaemonSets that NVIDIADriver objects have instead; "": none.
  std::string_view delegated_daemonsets = {};
  DeployLabel deploy = {};
  // A label that a node needs beside the deploy label, as "true"; "": none.
  std::string_view node_label = {};
  // Link of the chain that `pitcrew status` draws; none: it is no part of a node's chain.
  std::optional<Stage> stage = {};
  // Among the operands of its stage: lower ones are told first, equal ones in the order of
  // roll-out.
  int rank_in_stage = 0;
  GpuClient gpu_client = GpuClient::kNo;
  // By its deploy label.
  std::vector<NodeChange> leaves_for = {};
  // Its pods decide which kernel driver has the node's GPUs. A node is to have those of one such
  // operand at a time; each waits for those of the others to leave.
  bool owns_gpus = false;
  // What it appends to deploy labels while it changes GPUs; "": it pauses nothing. Without it on a
  // node nobody takes that away again but the operator.
  std::string_view pauses_with = {};
  // Variables of the operator's environment with its default images, its own first.
  std::vector<std::string_view> images = {};
  // Blocks of the spec that it reads beside the common ones, its own first; a problem in any of
  // them fails it.
  std::vector<std::string_view> blocks = {};
  // Null: always enabled.
  Mode (*mode)(const api::ClusterPolicy& policy) = nullptr;
  // Changes the loaded manifests to what the policy wants; may add and drop objects. The common
  // settings of all DaemonSets are already in them (daemonset.h). Errors begin with the field's
  // path. Null: the manifests as they are.
  base::Status (*customize)(std::vector<Object>& objects, const Context& context) = nullptr;
  // Objects of the manifests that something of the user's replaces: neither made, nor changed, nor
  // removed. Null: none.
  bool (*leaves_alone)(const Object& object, const Context& context) = nullptr;

  [[nodiscard]] Mode ModeOf(const api::ClusterPolicy& policy) const {
    return mode == nullptr ? Mode::kEnabled : mode(policy);
  }
  // Pods of it are to run under `policy`, be it that NVIDIADriver objects deploy them.
  [[nodiscard]] bool IsWanted(const api::ClusterPolicy& policy) const;
  // The operand depends on the field of that path, "spec.driver.version".
  [[nodiscard]] bool Reads(std::string_view path) const;
  // "driver" of "spec.driver": the block that is its own; "" when it has none.
  [[nodiscard]] std::string_view field() const;
};

}  // namespace pitcrew::desired
