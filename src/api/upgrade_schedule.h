// When and in which order changed drivers are rolled out: driver.upgradePolicy.schedule of a
// ClusterPolicy. Upstream has no such thing (docs/differences.md).
//
// Where upstream's definition is in place, which drops the field, the same stands as YAML in the
// policy's annotation kUpgradeScheduleAnnotation, which goes before the field.
// kUpgradePausedAnnotation
// ("true" or "false") goes before both.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pitcrew::api {

// A time of the week in which nodes may begin. `days` are those on which it opens.
struct UpgradeWindow {
  std::array<bool, 7> days{true, true, true, true, true, true, true};  // Sunday first
  int start = 0;                                                       // minutes after midnight
  int end = 1440;  // not after `start`: on the next day
  std::string time_zone = "UTC";

  bool operator==(const UpgradeWindow&) const = default;
};

// Nodes with one value of a label after those with another.
struct UpgradeOrder {
  std::string label;               // "": no order
  std::vector<std::string> first;  // values; others follow by name, nodes without the label last

  bool operator==(const UpgradeOrder&) const = default;
};

// So many nodes of each version of the driver before all others.
struct UpgradeCanary {
  std::int32_t nodes = 0;            // 0: none
  std::int32_t observe_seconds = 0;  // how long they are to be in order before others begin
  bool require_approval = false;     // others begin when a person says so
  bool metrics = true;               // what their GPUs' metrics say counts, too
  // Versions (revisions of DaemonSets) that a person has approved: kUpgradeApprovedAnnotation.
  std::vector<std::string> approved;

  bool operator==(const UpgradeCanary&) const = default;
};

struct UpgradeSchedule {
  bool paused = false;
  std::vector<UpgradeWindow> windows;  // none: any time
  UpgradeOrder order;
  UpgradeCanary canary;

  // It may keep nodes from beginning.
  [[nodiscard]] bool restricts() const {
    return paused || !windows.empty() || !order.label.empty() || canary.nodes > 0;
  }
  bool operator==(const UpgradeSchedule&) const = default;
};

}  // namespace pitcrew::api
