// What has to change on a node, as a pure function of what its GPUs are and what is wanted
// (vgpu-device-manager.md sections 2 and 5). Only what differs: vGPUs that are wanted stay as they
// are, and virtual machines with them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/mig/plan.h"
#include "node/vgpu/configuration.h"
#include "node/vgpu/gpu.h"

namespace pitcrew::node::vgpu {

// One GPU that is to become something else.
struct GpuChange {
  int position = 0;
  gpu::PciAddress pci = {};
  std::string title = {};
  std::vector<Vgpu> removed = {};
  // By the name that the GPU has for the type; the configuration's where that is known later.
  Counts created = {};
  // Virtual functions are enabled first; what the GPU offers is known then.
  bool enables_functions = false;
};

struct Plan {
  std::vector<GpuChange> changes = {};  // by position
  mig::Plan mig = {};                   // what the MIG geometry becomes between removing and making
  // What a person should know: entries that were passed over for one that the GPU can do, GPUs that
  // no entry is for.
  std::vector<std::string> remarks = {};

  // The node is as wanted.
  [[nodiscard]] bool empty() const { return changes.empty() && mig.changes.empty(); }
};

// The entry that decides about a GPU: the last one for it; of several with the same device ids and
// positions the last one whose types the GPU has, because some boards share their ids
// (section 8.2). Null: none is for it, it stays as it is. Borrowed from `config`.
const ConfigEntry* EntryFor(const Gpu& gpu, const NamedConfig& config);

// What that entry wants, by the names that the GPU has, where it tells them; nullopt without one.
// kInvalid "NoSuchType" in upstream's words, with what it has.
base::Result<std::optional<Counts>> WantedOf(const Gpu& gpu, const NamedConfig& config);

// `divided_anew` are GPUs whose MIG geometry changes, all of whose vGPUs go for it. Every GPU's
// problem in one message: kInvalid "NoSuchType"; kInvalid "DoesNotFit" with what would; kConflict
// "InUse" names who holds a vGPU that had to go; kUnsupported "NoVgpus" for a GPU whose driver
// offers none; kUnavailable "TypeUnknown" for a vGPU that nobody can tell the type of.
base::Result<Plan> PlanConfig(const std::vector<Gpu>& gpus, const NamedConfig& config,
                              const std::set<gpu::PciAddress>& divided_anew = {});

// Whether the node is as wanted, with no GPU that no entry is for: kConflict "NotApplied" in
// upstream's words, with every difference.
base::Status AssertConfig(const std::vector<Gpu>& gpus, const NamedConfig& config);

}  // namespace pitcrew::node::vgpu
