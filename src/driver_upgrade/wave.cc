#include "driver_upgrade/wave.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>

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

void Count(const std::vector<Member>& members, Wave& wave, int& cordoning) {
  for (const Member& member : members) {
    if (member.unschedulable || member.not_ready) ++wave.unavailable;
    if (!IsCounted(member.state)) continue;
    ++wave.total;
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

// Versions of the driver whose image a node cannot get. Where another has it, it is that node's own
// trouble.
class MissingImages {
 public:
  explicit MissingImages(const std::vector<Member>& members) {
    for (const Member& member : members) {
      const bool concerns = !member.missing_image.empty() && !member.version.empty() &&
                            !member.skipped && api::IsUnderWay(member.state);
      if (concerns) first_.emplace(member.version, &member);
    }
    for (const Member& member : members) {
      if (member.has_image) first_.erase(member.version);
    }
  }
  [[nodiscard]] std::optional<Hold> Holding(const Member& member) const {
    const auto found = first_.find(member.version);
    if (found == first_.end()) return std::nullopt;
    return Hold{.why = fmt::format("node {} cannot get the image {} of its new driver",
                                   found->second->name, found->second->missing_image),
                .needs_person = true,
                .image_missing = true};
  }

 private:
  std::map<std::string, const Member*, std::less<>> first_;  // node, by version
};

void Tell(const Hold& hold, Wave& wave) {
  wave.held = hold.why;
  wave.needs_person = hold.needs_person;
  wave.image_missing = hold.image_missing;
}

// `limit` keeps nodes when no place is left.
void GrantByLimits(const std::vector<Member>& members, const Hold& limit, Wave& wave) {
  const MissingImages missing_images(members);
  std::optional<Hold> first;
  for (const Member& member : members) {
    if (!WaitsForPlace(member)) continue;
    std::optional<Hold> hold = missing_images.Holding(member);
    if (!hold && static_cast<int>(wave.granted.size()) >= wave.available) hold = limit;
    if (!hold) {
      wave.granted.push_back(member.name);
      continue;
    }
    wave.waiting[hold->why].push_back(member.name);
    // What only a person ends, before what passes.
    if (!first || (hold->needs_person && !first->needs_person)) first = hold;
  }
  if (first && wave.granted.empty()) Tell(*first, wave);
}

// `limit` keeps nodes when no place is left.
void GrantBySchedule(const std::vector<Member>& members, const api::UpgradeSchedule& schedule,
                     base::WallClock::time_point now, const Hold& limit, Wave& wave) {
  const std::optional<Hold> of_all = HoldOfAll(schedule, now, WindowsAt(schedule.windows, now));
  wave.holds_all = of_all.has_value();
  if (wave.holds_all) wave.available = 0;
  const auto ordered = InOrder(members, schedule.order);
  Gates gates(ordered, schedule, now);
  const MissingImages missing_images(members);
  std::optional<Hold> first;
  int places = wave.available;
  for (const Member* member : ordered) {
    if (IsAboutToWait(*member) && !gates.Holding(*member)) gates.Begin(*member);
    if (!IsWaiting(*member)) continue;
    std::optional<Hold> hold = of_all ? of_all : missing_images.Holding(*member);
    if (!hold) hold = gates.Holding(*member);
    const bool by_limit = !hold && !member->unschedulable && places-- <= 0;
    if (by_limit) hold = limit;
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
  if (wave.granted.empty()) Tell(*first, wave);
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
  int cordoning = 0;
  Count(members, wave, cordoning);
  SetLimits(policy, cordoning, wave);
  const Hold limit{.why = LimitHeld(policy, cordoning, wave),
                   .needs_person = wave.failed > wave.max_failed};
  if (policy.schedule.restricts()) {
    GrantBySchedule(members, policy.schedule, now, limit, wave);
  } else {
    GrantByLimits(members, limit, wave);
  }
  return wave;
}

}  // namespace pitcrew::driver_upgrade
