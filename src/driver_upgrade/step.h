// What is done next with one node whose driver is upgraded: the state machine of
// driver-lifecycle.md section 2.6, as a pure function of what is seen of the node. The labels and
// their order are upstream's; what is done otherwise is in docs/differences.md.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "api/cluster_policy.h"
#include "api/upgrade_state.h"
#include "base/clock.h"
#include "codec/json.h"
#include "desired/node.h"
#include "desired/node_labels.h"
#include "driver_upgrade/pods.h"

namespace pitcrew::driver_upgrade {

// How long the validator may take (driver-lifecycle.md section 2.14).
inline constexpr std::chrono::seconds kValidationTimeout{600};

// Jobs of the policy's wait on the node, as far as somebody has looked.
enum class Jobs { kNotLookedAt, kRunning, kNone };

// Pods that are being sent away from the node.
struct Removal {
  enum class State { kNotBegun, kUnderWay, kDone, kFailed };
  State state = State::kNotBegun;
  int pods = 0;     // that were sent away
  std::string why;  // of kFailed
};

struct NodeFacts {
  const desired::Node& node;  // borrowed
  const DriverPod* pod;       // borrowed; null when the node has none
  Sync sync = Sync::kUnknown;
  std::string newest_revision = {};  // Templates::NewestOf
  bool restarts_only = false;        // Templates::RestartsOnly
  Succession succession = Succession::kNone;
  bool granted = false;  // the wave has a place for the node (wave.h)
  Jobs jobs = Jobs::kNotLookedAt;
  Removal gpu_pods = {};  // of the state pod-deletion-required
  Removal drain = {};     // of the state drain-required
  int validators = 0;     // pods of the validator on the node
  int validators_ready = 0;
  base::WallClock::time_point now;
};

// What is to be done beside writing the node.
enum class Work { kNone, kWatchJobs, kRemoveGpuPods, kDrain, kDeleteDriverPod, kHandOverPod };

struct Note {
  bool warning = false;
  std::string message;

  bool operator==(const Note&) const = default;
};

struct Step {
  // One write of the node, of all of these or of none.
  std::optional<api::UpgradeState> to;
  desired::Changes annotations;
  std::optional<bool> unschedulable;

  Work work = Work::kNone;
  std::vector<Note> events;  // about the node, once the write has been made
  // A time limit of the policy ends then.
  std::optional<std::chrono::seconds> look_again;
  // What a node that does not move waits for, as a sentence without a full stop; "" when nothing
  // has to be done with it.
  std::string waits_for;

  [[nodiscard]] bool writes() const {
    return to.has_value() || !annotations.empty() || unschedulable.has_value();
  }
};

Step DecideStep(const NodeFacts& facts, const api::UpgradePolicy& policy);

// Whether the step of a node in that state rests on what its validators say.
bool RestsOnValidators(api::UpgradeState state, const Step& step);

// The same where drivers are not upgraded by themselves (any longer): what an upgrade did to the
// node is taken back. Settings of persons stay.
Step DecideRelease(const desired::Node& node);

// The orphaned driver pod of the node is to be handed over to the DaemonSet that waits for its
// place: whether drivers are upgraded or not, this changes none.
Step DecideHandOver();

// The merge patch of a step, which fails when the node is no longer at `resource_version`.
codec::Json PatchOf(const Step& step, std::string_view resource_version);

// Messages of the Events that tell of a step's write, as upstream words them.
std::vector<Note> NotesOf(const Step& step);

// Selector of the pods that a drain sends away.
std::string DrainSelector(const api::UpgradePolicy& policy);

}  // namespace pitcrew::driver_upgrade
