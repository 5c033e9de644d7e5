// Checkpoint files v1 (mig-manager.md section 6): modes and instances of all GPUs that can do MIG.
// Files of upstream's tool are read, and upstream's tool reads these.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/mig/layout.h"

namespace pitcrew::node::mig {

struct CheckpointDevice {
  std::string uuid = {};
  Layout layout = {};  // instances with placements, compute instances without
  bool operator==(const CheckpointDevice&) const = default;
};

struct Checkpoint {
  std::vector<CheckpointDevice> devices = {};
  bool operator==(const Checkpoint&) const = default;
};

// kUnavailable when a GPU cannot be read: a checkpoint that lacks one would not bring it back.
base::Result<Checkpoint> MakeCheckpoint(const std::vector<Gpu>& gpus);

// Compact JSON in upstream's order, without a newline at the end.
std::string ToJsonText(const Checkpoint& checkpoint);
// kInvalid "InvalidCheckpoint" names the member. A version other than v1 is refused: upstream reads
// on, and then misses what a later version says.
base::Result<Checkpoint> ParseCheckpoint(std::string_view text, std::string_view source);
base::Result<Checkpoint> LoadCheckpoint(const std::filesystem::path& file);

}  // namespace pitcrew::node::mig
