// Which nodes may begin their upgrade: the limits of the policy over all nodes with a driver
// (driver-lifecycle.md section 2.7), and its schedule. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "api/upgrade_state.h"
#include "base/clock.h"
#include "desired/node.h"
#include "driver_upgrade/metrics_note.h"
#include "driver_upgrade/record.h"

namespace pitcrew::driver_upgrade {

// Member::image_check where it is not known which driver the node would get.
inline constexpr std::string_view kUnknownDriver = "?";

// A node with a driver pod, as far as the limits and the schedule look at it.
struct Member {
  std::string name;
  api::UpgradeState state = api::UpgradeState::kNone;
  bool skipped = false;        // label kUpgradeSkip
  bool unschedulable = false;  // it begins without a place
  bool not_ready = false;
  bool granted = false;      // it has a place, which its state does not show yet
  std::string version = {};  // newest revision of its driver's DaemonSet; "" when not known
  // Its driver pod is of that version and waits for this image, which the node cannot get.
  std::string missing_image = {};
  std::string missing_image_of = {};  // the container
  bool has_image = false;             // its driver pod is of that version and ready
  // What has to be looked at before it begins (image_check.h): the same text for all nodes that one
  // answer holds for; "" where nothing has to be, or all is well.
  std::string image_check = {};
  std::string image_checked_at = {};  // the node where that is under way; "": nowhere yet
  std::string image_trouble = {};     // TroubleOf what was found last; "": none
  std::string image_trouble_of = {};  // the container
  // For the schedule alone:
  std::string domain = {};  // value of the label by which nodes are ordered; "" without
  bool outdated = false;    // its driver pod is of a former version, whatever the state says yet
  bool pods_ready = false;  // those of the driver, of that version, and of the validator
  std::optional<Record> record = {};        // of the upgrade that it completed last
  std::optional<MetricsNote> metrics = {};  // what its GPUs' metrics have said since
};
// All but `granted`, `version`, `missing_image`, `has_image`, `outdated` and `pods_ready`.
Member MemberOf(const desired::Node& node, const api::UpgradeSchedule& schedule = {});

// What holds nodes until a person does something.
enum class Blocker {
  kNone,      // it passes by itself
  kImage,     // an image of the new driver, or what it lacks
  kCanary,    // a node of the first ones has failed, or is not in order
  kApproval,  // the first nodes are in order, and nobody has said so
  kFailures,  // too many nodes have failed
};

// "image", ...; "" for kNone.
std::string_view NameOf(Blocker blocker);

struct Wave {
  // Of the metrics (driver-lifecycle.md section 2.17).
  int total = 0;
  int in_progress = 0;  // without those that failed
  int done = 0;
  int failed = 0;
  int pending = 0;
  int unavailable = 0;
  int available = 0;  // places for nodes that have not begun

  int max_unavailable = 0;
  int max_failed = 0;
  // Nodes that may begin now, in their order: that of the schedule, else that of `members`.
  std::vector<std::string> granted = {};
  // Nodes that wait and may not begin, by the reason; a sentence without a full stop.
  std::map<std::string, std::vector<std::string>> waiting = {};
  std::map<Blocker, int> blocked = {};  // how many of these, by what only a person ends
  // Why no node that waits may begin, as a sentence without a full stop; "" when one may, or none
  // waits. Without a schedule, of those that need a place.
  std::string held = {};
  bool passes = false;     // what holds them is the schedule or an image check, and passes
  bool holds_all = false;  // no node at all may begin: a pause, or no window is open
  Blocker blocker = Blocker::kNone;  // of what holds them
  // What holds them is an image that cannot be had, or what it needs: the container of the driver's
  // pod that has it; "" where it is not.
  std::string image_of = {};
  // Nodes whose turn it is, and on which their driver's image has to be looked at first: one for
  // each Member::image_check.
  std::vector<std::string> to_check = {};
  // When there is another answer although nothing else has changed.
  std::optional<base::WallClock::time_point> look_again = {};
};

// Failures do not take places of maxParallelUpgrades; but when more than one in ten nodes (one in
// small clusters) has failed, no other begins. A failed node is cordoned, and so counts for
// maxUnavailable.
//
// No node begins with a version of the driver whose image a node under way cannot get and no other
// node has: it would have no driver either.
//
// None begins either before the image of its driver has been looked at, which is done when a node
// of its kind has its turn.
//
// A node that is cordoned takes no place; it needs one of `granted` only where there is a schedule
// or an image check, which hold for all nodes.
Wave PlanWave(const std::vector<Member>& members, const api::UpgradePolicy& policy,
              base::WallClock::time_point now);

}  // namespace pitcrew::driver_upgrade
