// What a node's GPUs were before a change that is under way, on disk: a process that is killed
// leaves it to the next one. Private to this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/mig/layout.h"

namespace pitcrew::node::mig {

// One GPU as it was. A board without a driver has no UUID.
struct JournalEntry {
  gpu::PciAddress pci = {};
  std::string uuid = {};
  Layout before = {};

  // The same board at the same place; one that was replaced meanwhile is another.
  [[nodiscard]] bool IsOf(const gpu::PciAddress& address, std::string_view gpu_uuid) const;
  bool operator==(const JournalEntry&) const = default;
};
using Journal = std::vector<JournalEntry>;

std::string ToJsonText(const Journal& journal);
// kInvalid "InvalidJournal".
base::Result<Journal> ParseJournal(std::string_view text);

}  // namespace pitcrew::node::mig
