// What a schedule says about single nodes: whose turn it is by order and by canary. Pure.
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

// Why nodes wait, as a sentence without a full stop.
struct Hold {
  std::string why;
  Blocker blocker = Blocker::kNone;
  std::string image_of = {};  // Wave::image_of
  std::optional<base::WallClock::time_point> look_again = std::nullopt;
};

// `members` in the order of the schedule; within one domain as they were.
std::vector<const Member*> InOrder(const std::vector<Member>& members,
                                   const api::UpgradeOrder& order);

// It has not begun, and would if it may.
bool IsWaiting(const Member& member);

// It will be waiting in a moment: its state does not say yet that it needs an upgrade. Nodes find
// that out one by one, and whoever is first must not overtake those who go before it.
bool IsAboutToWait(const Member& member);

class Gates {
 public:
  // `members` as InOrder gives them; borrowed, like the schedule.
  Gates(const std::vector<const Member*>& members, const api::UpgradeSchedule& schedule,
        base::WallClock::time_point now);

  // What keeps a node that waits. To be asked in the members' order.
  std::optional<Hold> Holding(const Member& member);
  // It begins.
  void Begin(const Member& member);

 private:
  struct Canary {
    int begun = 0;  // under way, done or failed
    int proven = 0;
    std::vector<const Member*> failed;
    struct NotInOrder {
      const Member* member;
      std::string why;  // "" where node or pods are not ready
    };
    std::vector<NotInOrder> not_in_order;
    std::vector<base::WallClock::time_point> observed_until;  // of those that are in order
    int unread = 0;       // of these, the ones whose metrics are still to be read at the end
    std::string unknown;  // whose metrics cannot be read, and why
  };
  void Count(const Member& member);
  // One that is in order, as far as node and pods tell.
  void CountDone(const Member& member, Canary& canary);
  [[nodiscard]] Canary CanaryOf(const std::string& version) const;
  [[nodiscard]] std::optional<Hold> HoldOf(const std::string& version, const Canary& canary) const;

  const api::UpgradeSchedule& schedule_;
  base::WallClock::time_point now_;
  const Member* unfinished_ = nullptr;                   // the first that has not been upgraded
  std::set<const Member*> observed_;                     // whose metrics count
  std::map<std::string, Canary, std::less<>> canaries_;  // by version
  int begun_of_unknown_version_ = 0;
};

}  // namespace pitcrew::driver_upgrade
