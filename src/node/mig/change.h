// Carrying out a plan so that the node ends as it was or as wanted, whatever happens in between:
// what was before is written to a journal first, a step that fails takes back the others, and what
// a killed process left behind is put right by the next (issue: kill -9 at every step).
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "node/mig/node_gpus.h"
#include "node/mig/plan.h"

namespace pitcrew::node::mig {

enum class Step {
  kClearing,        // instances are removed
  kChangingMode,    // MIG is switched on or off
  kResetting,       // so that a mode counts
  kCreating,        // instances are made
  kDone,            // the GPU is as wanted
  kWaitsForReset,   // the mode was asked for, and counts after a reset of the GPU or a reboot
  kRollingBack,     // the GPU goes back to what it was
  kRolledBack,      // the GPU is as it was
  kRollbackFailed,  // the GPU is neither; the next run tries again
};
std::string_view ToString(Step step);  // "clearing", "changing-mode", ...

struct Progress {
  int position = 0;
  std::string uuid = {};  // empty without a driver
  Step step = Step::kClearing;
};

struct ChangeOptions {
  // What was before is kept here while a change runs; beside it lies a lock. Lost with a reboot
  // like the instances themselves when it is on a tmpfs.
  std::filesystem::path journal = "/run/nvidia/mig/journal.json";
  bool mode_only = false;
  // A mode that does not count at once is left waiting for a reset that somebody else makes.
  bool skip_reset = false;
  // Called before the first mode changes, and before the first instance changes; an error ends the
  // change, and takes back what was changed.
  std::function<base::Status()> before_modes = {};
  std::function<base::Status()> before_instances = {};
  std::function<void(const Progress&)> progress = {};
};

// From what the node is to what has to change. Called again after modes have changed: some drivers
// tell the profiles of a GPU only then.
using Planner = std::function<base::Result<Plan>(const std::vector<Gpu>&)>;

struct Outcome {
  Plan plan = {};            // what was changed; no changes: nothing was touched
  bool needs_reset = false;  // a mode waits for a reset (only with skip_reset)
};

// Reads the node, plans, and changes only the GPUs that differ. Nothing is touched when the plan
// cannot be made, or when a GPU that has to be emptied or reset is in use (kConflict "InUse" names
// the programs). What a killed process left is taken into account: a failure goes back to what was
// before that one began. kConflict "ChangeInProgress" while another process changes the node. An
// error after a roll-back keeps its reason and says that the geometry before is back; kUnavailable
// "RollbackFailed" when it is not, and the journal stays: call it, or Recover, again.
base::Result<Outcome> Apply(NodeGpus& node, const Planner& planner, const ChangeOptions& options);

// Whether a change was cut off: a journal lies there. No error: false.
base::Result<bool> WasCutOff(const std::filesystem::path& journal);

// Goes back to what was before a change that was cut off, and removes the journal. Nothing to do is
// success. Apply does this by itself; it is for those who will not apply anything.
base::Status Recover(NodeGpus& node, const ChangeOptions& options);

}  // namespace pitcrew::node::mig
