// What a node keeps of the upgrade that it completed last: value of its annotation
// api::kUpgradeLastAnnotation. Tells which nodes have proven a version, and how long they took.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace pitcrew::driver_upgrade {

struct Record {
  std::string revision;  // of the driver's DaemonSet
  base::WallClock::time_point finished;
  // From its turn on; none where that is not known, or a person had to help.
  std::optional<std::chrono::seconds> duration;

  bool operator==(const Record&) const = default;
};

// {"finished":"2026-01-02T03:04:05Z","revision":"6d4f8b","seconds":187}
std::string ToText(const Record& record);
// None when the text is none of these.
std::optional<Record> ReadRecord(std::string_view text);

}  // namespace pitcrew::driver_upgrade
