// What a node's GPUs were before a change that is under way, on disk: a process that is killed
// leaves it to the next one. Private to this room.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/mig/checkpoint.h"
#include "node/vgpu/gpu.h"

namespace pitcrew::node::vgpu {

// One GPU as it was.
struct JournalEntry {
  gpu::PciAddress pci = {};
  std::string id =
      {};  // device id, as mig::DeviceId writes it: another board in its place is not meant
  unsigned functions = 0;
  std::vector<Vgpu> vgpus = {};  // without their holders

  [[nodiscard]] bool IsOf(const Gpu& gpu) const;
};

struct Journal {
  std::vector<JournalEntry> gpus = {};
  // Of a change that divides GPUs anew.
  std::optional<mig::Checkpoint> mig = {};
};

std::string ToJsonText(const Journal& journal);
// kInvalid "InvalidJournal".
base::Result<Journal> ParseJournal(std::string_view text);

}  // namespace pitcrew::node::vgpu
