// What the operator would make of a cluster: a pure function of a snapshot and a policy. Everything
// is decided by the operator's own functions (Render, DecideNode, DecideCleanup, Covers); this room
// only puts their answers side by side with what stands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "codec/json.h"
#include "desired/image.h"
#include "gpu/device_names.h"
#include "plan/difference.h"
#include "plan/node_upgrade.h"
#include "snapshot/snapshot.h"

namespace pitcrew::plan {

enum class Action {
  kNone,  // it stands as wanted
  kCreate,
  kChange,
  kDelete,
  kUnknown,  // wanted, but what stands could not be read
};
std::string_view ToString(Action action);

struct Item {
  Action action = Action::kNone;
  // As it would be applied, hash and inventory label included; of a Node and of the operator's
  // Namespace the labels and annotations that it would carry. What is deleted: as it stands.
  codec::Json object;
  std::string
      operand;  // state name; "node labels", "namespace labels", "permitted devices" for those
  std::string reason;                // why there is a change; "" when there is none
  std::vector<FieldChange> changes;  // of kChange

  [[nodiscard]] std::string kind() const;
  [[nodiscard]] std::string name_space() const;
  [[nodiscard]] std::string name() const;
};

// Something that keeps part of the plan, or all of it, from being made.
struct Problem {
  // Path of a field of the policy, or what could not be read; "" when the message says it.
  std::string where;
  std::string message;
  // States of the operands that are not planned because of it.
  std::vector<std::string> operands = {};
  // The cluster did not tell; otherwise the policy, or what it refers to, is wrong.
  bool unread = false;

  bool operator==(const Problem&) const = default;
};

struct Plan {
  std::vector<Item> items;  // by kind, namespace and name
  std::vector<Problem> problems;
  std::vector<std::string> notes;            // worth knowing, and no reason to worry
  std::vector<DriverUpgrade> upgrades = {};  // their pods: departing_pods.h

  [[nodiscard]] std::size_t Count(Action action) const;
  [[nodiscard]] bool has_changes() const;
};

struct Options {
  std::string operator_namespace;
  desired::DefaultImages images;
  std::optional<std::string> kubernetes_version;  // "v1.31.0"; none: as the snapshot tells
  // Permitted devices are planned, too: as with the operator's --manage-kubevirt.
  std::optional<gpu::DeviceNames> permit;
};

// `policy`: the object that is to be the active policy; of one that stands under the same name, uid
// and annotations are taken from there. What of the policy is wrong is among the problems, and what
// can be rendered all the same is planned. Fails when nothing can be planned.
// `drivers`: NVIDIADrivers that are to take the place of those of the same names, or to be added.
base::Result<Plan> MakePlan(const snapshot::Snapshot& snapshot, const codec::Json& policy,
                            const Options& options, const std::vector<codec::Json>& drivers = {});

// What goes when the policies are deleted and the operator leaves. Nodes keep their place in the
// list with the labels and annotations that stay.
base::Result<Plan> MakeUninstallPlan(const snapshot::Snapshot& snapshot);

}  // namespace pitcrew::plan
