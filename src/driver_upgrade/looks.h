// The nodes of canaries that are observed, and whose metrics are to be looked at. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/upgrade_schedule.h"
#include "base/clock.h"
#include "driver_upgrade/wave.h"

namespace pitcrew::driver_upgrade {

// It has completed the upgrade to its version, and pods and node are in order.
bool IsInOrder(const Member& member);

// When its observation ends. `member.record` is there.
base::WallClock::time_point ObservedUntil(const Member& member, const api::UpgradeCanary& canary);

// The first that are in order, by version: as many as the canary is to have. Borrowed.
std::map<std::string, std::vector<const Member*>, std::less<>> ObservedMembers(
    const std::vector<const Member*>& members, const api::UpgradeCanary& canary);

struct Looks {
  std::set<std::string> followed;  // nodes whose metrics exporter is of interest
  std::vector<std::string> due;    // of these, the ones to look at now
  std::optional<base::WallClock::time_point> look_again = {};
};
// None where nobody waits for what is observed.
Looks LooksOf(const std::vector<Member>& members, const api::UpgradeSchedule& schedule,
              base::WallClock::time_point now);

}  // namespace pitcrew::driver_upgrade
