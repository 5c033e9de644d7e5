#include "driver_upgrade/wave.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/labels.h"
#include "driver_upgrade/gates.h"
#include "driver_upgrade/windows.h"

namespace pitcrew::driver_upgrade {
namespace {

using api::UpgradeState;
using enum api::UpgradeState;

constexpr int kFailedPercent = 10;

int ShareOf(int percent, int total) {
  const std::int64_t share = (static_cast<std::int64_t>(percent) * total + 99) / 100;
  return static_cast<int>(std::min<std::int64_t>(share, total));
}

// `text` is api::UpgradePolicy::max_unavailable, which its reader has checked.
int MaxUnavailable(const std::string& text, int total) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return text.ends_with('%') ? total : 0;
  return text.ends_with('%') ? ShareOf(number, total) : number;
}

bool IsCounted(UpgradeState state) {
  return state != kOther && state != kNodeMaintenanceRequired && state != kPostMaintenanceRequired;
}

bool WaitsForPlace(const Member& member) { return IsWaiting(member) && !member.unschedulable; }

void Count(const std::vector<Member>& members, Wave& wave, int& waiting, int& cordoning) {
  for (const Member& member : members) {
    if (member.unschedulable || member.not_ready) ++wave.unavailable;
    if (!IsCounted(member.state)) continue;
    ++wave.total;
    if (WaitsForPlace(member)) ++waiting;
    if (member.state == kFailed) ++wave.failed;
    if (member.state == kDone) ++wave.done;
    if (member.state == kRequired && !member.granted) ++wave.pending;
    const bool begun = member.granted || api::IsUnderWay(member.state);
    if (begun) ++wave.in_progress;
    // What is about to be cordoned, and is not yet.
    if (begun && !member.unschedulable && !member.not_ready &&
        (member.granted || member.state == kCordonRequired)) {
      ++cordoning;
    }
  }
}

void SetLimits(const api::UpgradePolicy& policy, int cordoning, Wave& wave) {
  wave.max_unavailable = MaxUnavailable(policy.max_unavailable, wave.total);
  wave.max_failed = std::max(1, ShareOf(kFailedPercent, wave.total));
  int places = policy.max_parallel_upgrades == 0 ? wave.pending
                                                 : policy.max_parallel_upgrades - wave.in_progress;
  const int unavailable = wave.unavailable + cordoning;
  places = std::min(places, wave.max_unavailable);
  if (unavailable >= wave.max_unavailable) {
    places = 0;
  } else if (wave.max_unavailable < wave.total && unavailable + places > wave.max_unavailable) {
    places = wave.max_unavailable - unavailable;
  }
  if (wave.failed > wave.max_failed) places = 0;
  wave.available = std::max(places, 0);
}

// Which limit keeps nodes, where no place is left.
std::string LimitHeld(const api::UpgradePolicy& policy, int cordoning, const Wave& wave) {
  if (wave.failed > wave.max_failed) {
    return fmt::format("{} of {} nodes have failed, more than {}", wave.failed, wave.total,
                       wave.max_failed);
  }
  if (policy.max_parallel_upgrades > 0 && policy.max_parallel_upgrades <= wave.in_progress) {
    return fmt::format("{} nodes are being upgraded, and maxParallelUpgrades is {}",
                       wave.in_progress, policy.max_parallel_upgrades);
  }
  return fmt::format("{} of {} nodes are unavailable, and maxUnavailable is {}",
                     wave.unavailable + cordoning, wave.total, policy.max_unavailable);
}

std::string WhenItOpens(const Opening& opening) {
  if (!opening.until) return "no window of the upgrade's schedule opens within two weeks";
  return fmt::format("the next window of the upgrade's schedule opens at {}",
                     base::FormatRfc3339(*opening.until));
}

// Keeps all nodes alike.
std::optional<Hold> HoldOfAll(const api::UpgradeSchedule& schedule, base::WallClock::time_point now,
                              const Opening& opening) {
  if (schedule.paused) return Hold{.why = "upgrades are paused"};
  // A failure of the time zones' database may pass: nobody is told when.
  if (opening.open) return std::nullopt;
  return Hold{.why = WhenItOpens(opening),
              .look_again = opening.until.value_or(now + std::chrono::days(1))};
}

// `limit`: which one keeps nodes when no place is left.
void GrantBySchedule(const std::vector<Member>& members, const api::UpgradeSchedule& schedule,
                     base::WallClock::time_point now, const std::string& limit, Wave& wave) {
  const std::optional<Hold> of_all = HoldOfAll(schedule, now, WindowsAt(schedule.windows, now));
  wave.holds_all = of_all.has_value();
  if (wave.holds_all) wave.available = 0;
  const auto ordered = InOrder(members, schedule.order);
  Gates gates(ordered, schedule, now);
  std::optional<Hold> first;
  int places = wave.available;
  for (const Member* member : ordered) {
    if (IsAboutToWait(*member) && !gates.Holding(*member)) gates.Begin(*member);
    if (!IsWaiting(*member)) continue;
    std::optional<Hold> hold = of_all ? of_all : gates.Holding(*member);
    const bool by_limit = !hold && !member->unschedulable && places-- <= 0;
    if (by_limit) hold = Hold{.why = limit, .needs_person = wave.failed > wave.max_failed};
    if (!hold) {
      gates.Begin(*member);
      wave.granted.push_back(member->name);
      continue;
    }
    wave.waiting[hold->why].push_back(member->name);
    if (first) continue;
    first = hold;
    wave.by_schedule = !by_limit && !hold->needs_person;
  }
  if (!first) return;
  wave.look_again = first->look_again;
  if (!wave.granted.empty()) return;
  wave.held = first->why;
  wave.needs_person = first->needs_person;
}

}  // namespace

Member MemberOf(const desired::Node& node, const api::UpgradeSchedule& schedule) {
  Member member{.name = node.name,
                .state = api::UpgradeStateNamed(node.labels.Get(api::kUpgradeState)),
                .skipped = node.labels.Is(api::kUpgradeSkip, "true"),
                .unschedulable = node.unschedulable,
                .not_ready = node.not_ready};
  if (!schedule.order.label.empty()) {
    member.domain = std::string(node.labels.Get(schedule.order.label));
  }
  if (schedule.canary.nodes > 0) {
    const auto& notes = node.UpgradeNotes();
    if (const auto found = notes.find(api::kUpgradeLastAnnotation); found != notes.end()) {
      member.record = ReadRecord(found->second);
    }
  }
  return member;
}

Wave PlanWave(const std::vector<Member>& members, const api::UpgradePolicy& policy,
              base::WallClock::time_point now) {
  Wave wave;
  int waiting = 0;
  int cordoning = 0;
  Count(members, wave, waiting, cordoning);
  SetLimits(policy, cordoning, wave);
  const std::string limit = LimitHeld(policy, cordoning, wave);
  if (policy.schedule.restricts()) {
    GrantBySchedule(members, policy.schedule, now, limit, wave);
    return wave;
  }
  for (const Member& member : members) {
    if (!WaitsForPlace(member)) continue;
    if (static_cast<int>(wave.granted.size()) < wave.available) {
      wave.granted.push_back(member.name);
    } else {
      wave.waiting[limit].push_back(member.name);
    }
  }
  if (waiting > 0 && wave.granted.empty()) {
    wave.held = limit;
    wave.needs_person = wave.failed > wave.max_failed;
  }
  return wave;
}

}  // namespace pitcrew::driver_upgrade
