// What has to change on a node, as a pure function of what its GPUs are and what is wanted
// (mig-manager.md sections 2.4, 2.6 to 2.8 and 6).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/mig/checkpoint.h"
#include "node/mig/configuration.h"
#include "node/mig/layout.h"

namespace pitcrew::node::mig {

// One GPU that is to become something else.
struct GpuChange {
  int position = 0;
  std::string uuid = {};  // empty without a driver: then only the mode can change
  gpu::PciAddress pci = {};
  std::string title = {};
  Layout before = {};
  Layout after = {};
  // The mode differs, or the other one waits for a reset. Instances are removed before it is off.
  bool changes_mode = false;
  // The instances differ. Without it `after.instances` says nothing.
  bool changes_instances = false;
  // The GPU tells its profiles only once MIG is on: `after.instances` is planned then.
  bool instances_planned_later = false;
};

struct Plan {
  std::vector<GpuChange> changes = {};  // by position; none: the node is as wanted
  // What a person should know: boards that cannot do MIG and are passed over, positions that no GPU
  // has.
  std::vector<std::string> remarks = {};

  [[nodiscard]] bool ChangesModes() const;
  [[nodiscard]] bool ChangesInstances() const;
};

// GPUs that no entry is for stay as they are. kInvalid with upstream's words: an entry that lists
// by its position a board that cannot do MIG ("NotMigCapable"), a profile that the GPU lacks
// ("NoSuchProfile"), instances that do not fit ("DoesNotFit"): every GPU's problem in one message.
// A matched GPU that could not be read is that error.
base::Result<Plan> PlanConfig(const std::vector<Gpu>& gpus, const NamedConfig& config,
                              bool mode_only = false);

// Back to a checkpoint: GPUs by their UUID. kNotFound "GpuMissing" for one that is not there.
base::Result<Plan> PlanCheckpoint(const std::vector<Gpu>& gpus, const Checkpoint& checkpoint,
                                  bool mode_only = false);

// Whether the MIG modes are as wanted: kConflict "NotApplied" with upstream's words. Only matched
// GPUs are looked at. An entry for all GPUs passes over boards that cannot do MIG, as long as one
// can (upstream: weakness 5 of section 15).
base::Status AssertModes(const std::vector<Gpu>& gpus, const NamedConfig& config);
// The whole configuration; every GPU of the node has to be meant by an entry.
base::Status AssertConfig(const std::vector<Gpu>& gpus, const NamedConfig& config);

}  // namespace pitcrew::node::mig
