// Carrying out a plan so that the node ends as it was or as wanted, whatever happens in between:
// what was before is written to a journal first, a step that fails takes back the others, and what
// a killed process left behind is put right by the next.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "node/mig/node_gpus.h"
#include "node/vgpu/configuration.h"
#include "node/vgpu/node_vgpus.h"
#include "node/vgpu/plan.h"

namespace pitcrew::node::vgpu {

enum class Step {
  kRemoving,           // vGPUs that are not wanted go
  kDividing,           // the MIG geometry changes
  kEnablingFunctions,  // virtual functions are enabled
  kCreating,           // vGPUs are made
  kDone,               // the GPU is as wanted
  kRollingBack,        // the GPU goes back to what it was
  kRolledBack,         // the GPU is as it was
  kRollbackFailed,     // the GPU is neither; the next run tries again
};
std::string_view ToString(Step step);  // "removing", "dividing", "enabling-functions", ...

struct Progress {
  int position = 0;
  Step step = Step::kRemoving;
};

struct ChangeOptions {
  // What was before is kept here while a change runs; beside it lies a lock. Lost with a reboot
  // like the vGPUs themselves when it is on a tmpfs.
  std::filesystem::path journal = "/run/nvidia/vgpu/journal.json";
  // The same of the MIG geometry.
  std::filesystem::path mig_journal = "/run/nvidia/mig/journal.json";
  std::function<void(const Progress&)> progress = {};
};

// What has to change. With `mig` (borrowed) the GPUs' MIG geometry follows the vGPUs: GPU instances
// for MIG-backed types, MIG off for others (section 6.5); null: it stays as it is. A node whose
// driver does not answer keeps its geometry, unless a MIG-backed type is wanted.
base::Result<Plan> PlanNode(NodeVgpus& node, mig::NodeGpus* mig, const NamedConfig& config);

// Reads the node, plans, and changes only the GPUs that differ. The plan that was carried out;
// empty: nothing was touched. Nothing is touched either when the plan cannot be made (PlanConfig).
// What a killed process left is taken into account: a failure goes back to what was before that one
// began. kConflict "ChangeInProgress" while another process changes the node. An error after a
// roll-back keeps its reason and says that the vGPUs before are back; kUnavailable "RollbackFailed"
// when they are not, and the journal stays: call it, or Recover, again.
base::Result<Plan> Apply(NodeVgpus& node, mig::NodeGpus* mig, const NamedConfig& config,
                         const ChangeOptions& options);

// Whether a change was cut off: a journal lies there.
base::Result<bool> WasCutOff(const std::filesystem::path& journal);

// Goes back to what was before a change that was cut off, and removes the journal. Nothing to do is
// success. Apply does this by itself; it is for those who will not apply anything.
base::Status Recover(NodeVgpus& node, mig::NodeGpus* mig, const ChangeOptions& options);

}  // namespace pitcrew::node::vgpu
