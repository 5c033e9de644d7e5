#include "driver_upgrade/looks.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "driver_upgrade/gates.h"

namespace pitcrew::driver_upgrade {

bool IsInOrder(const Member& member) {
  return !member.version.empty() && !member.skipped && member.pods_ready && !member.not_ready &&
         member.state == api::UpgradeState::kDone && member.record &&
         member.record->revision == member.version;
}

base::WallClock::time_point ObservedUntil(const Member& member, const api::UpgradeCanary& canary) {
  return member.record->finished + std::chrono::seconds(canary.observe_seconds);
}

std::map<std::string, std::vector<const Member*>, std::less<>> ObservedMembers(
    const std::vector<const Member*>& members, const api::UpgradeCanary& canary) {
  std::map<std::string, std::vector<const Member*>, std::less<>> by_version;
  for (const Member* member : members) {
    if (IsInOrder(*member)) by_version[member->version].push_back(member);
  }
  for (auto& [version, observed] : by_version) {
    std::ranges::sort(observed, {}, [](const Member* member) {
      return std::tuple(member->record->finished, std::string_view(member->name));
    });
    observed.resize(std::min<std::size_t>(observed.size(), static_cast<std::size_t>(canary.nodes)));
  }
  return by_version;
}

Looks LooksOf(const std::vector<Member>& members, const api::UpgradeSchedule& schedule,
              base::WallClock::time_point now) {
  Looks looks;
  const api::UpgradeCanary& canary = schedule.canary;
  if (canary.nodes == 0 || !canary.metrics) return looks;
  std::set<std::string> wanted;  // versions
  std::vector<const Member*> all;
  for (const Member& member : members) {
    all.push_back(&member);
    if (IsWaiting(member) || IsAboutToWait(member)) wanted.insert(member.version);
  }
  for (const auto& [version, observed] : ObservedMembers(all, canary)) {
    if (!wanted.contains(version)) continue;
    for (const Member* member : observed) {
      looks.followed.insert(member->name);
      const auto& note = member->metrics;
      if (IsLookDue(note, *member->record, ObservedUntil(*member, canary), now)) {
        looks.due.push_back(member->name);
      } else if (!note->against.empty()) {
        const auto again = note->looked + kLookAgain;
        looks.look_again = looks.look_again ? std::min(*looks.look_again, again) : again;
      }
    }
  }
  return looks;
}

}  // namespace pitcrew::driver_upgrade
