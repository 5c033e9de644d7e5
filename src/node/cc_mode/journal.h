// What the devices' modes were before a change that is under way. Private to this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/journal_file.h"
#include "base/result.h"
#include "node/cc_mode/node.h"

namespace pitcrew::node::cc_mode {

struct Journal {
  std::vector<DeviceMode> before;
};

std::string ToJsonText(const Journal& journal);
// kInvalid "InvalidJournal".
base::Result<Journal> ParseJournal(std::string_view text);

inline base::JournalFile FileOf(const Settings& settings) {
  return {settings.journal, "mode of confidential computing"};
}

}  // namespace pitcrew::node::cc_mode
