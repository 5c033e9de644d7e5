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
                .blocker = Blocker::kImage,
                .image_of = found->second->missing_image_of};
  }

 private:
  std::map<std::string, const Member*, std::less<>> first_;  // node, by version
};

// Nodes whose driver's image has to be looked at before they begin.
class ImageChecks {
 public:
  // `limit` holds the node: its turn has not come. What it is told then is what would hold it, too.
  std::optional<Hold> Holding(const Member& member, const std::optional<Hold>& limit) {
    if (member.image_check.empty()) return limit;
    if (member.image_check == kUnknownDriver) {
      return limit ? limit : Hold{.why = "it is not known which driver it would get"};
    }
    if (member.image_checked_at.empty() && !limit) {
      const Member*& first = wanted_[member.image_check];
      // On a node that is not ready nobody answers.
      if (first == nullptr || (first->not_ready && !member.not_ready)) first = &member;
    }
    if (!member.image_trouble.empty()) {
      return Hold{.why = member.image_trouble,
                  .blocker = Blocker::kImage,
                  .image_of = member.image_trouble_of};
    }
    if (limit) return limit;
    return Hold{.why = member.image_checked_at.empty()
                           ? std::string("the image of the new driver is looked at first")
                           : fmt::format("node {} gets the image of the new driver, as the first",
                                         member.image_checked_at)};
  }
  [[nodiscard]] std::vector<std::string> Wanted() const {
    std::vector<std::string> nodes;
    for (const auto& [check, member] : wanted_) nodes.push_back(member->name);
    return nodes;
  }

 private:
  std::map<std::string, const Member*, std::less<>> wanted_;  // by what has to be looked at
};

// `told` is what will be told of all that holds nodes: what only a person ends, before what passes.
void Wait(const Member& member, const Hold& hold, bool has_place, std::optional<Hold>& told,
          Wave& wave) {
  const bool passes = hold.blocker == Blocker::kNone;
  wave.waiting[hold.why].push_back(member.name);
  if (!passes) ++wave.blocked[hold.blocker];
  if (told && (told->blocker != Blocker::kNone || passes)) return;
  told = hold;
  wave.passes = has_place && passes;
}

void Tell(const Hold& hold, Wave& wave) {
  wave.held = hold.why;
  wave.blocker = hold.blocker;
  wave.image_of = hold.image_of;
}

// `limit` keeps nodes when no place is left.
void GrantByLimits(const std::vector<Member>& members, const api::UpgradePolicy& policy,
                   const Hold& limit, Wave& wave) {
  const MissingImages missing_images(members);
  ImageChecks image_checks;
  std::optional<Hold> told;
  int places = wave.available;
  for (const Member& member : members) {
    if (!IsWaiting(member) || (member.unschedulable && !policy.image_check)) continue;
    const bool has_place = member.unschedulable || places > 0;
    std::optional<Hold> hold = missing_images.Holding(member);
    if (!hold) hold = image_checks.Holding(member, has_place ? std::nullopt : std::optional(limit));
    if (!hold) {
      if (!member.unschedulable) --places;
      wave.granted.push_back(member.name);
      continue;
    }
    Wait(member, *hold, has_place, told, wave);
  }
  wave.to_check = image_checks.Wanted();
  // That a cordoned node may begin says nothing about the others.
  if (told && places == wave.available) Tell(*told, wave);
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
  ImageChecks image_checks;
  std::optional<Hold> told;
  int places = wave.available;
  for (const Member* member : ordered) {
    if (IsAboutToWait(*member) && !gates.Holding(*member)) gates.Begin(*member);
    if (!IsWaiting(*member)) continue;
    std::optional<Hold> hold = of_all ? of_all : missing_images.Holding(*member);
    if (!hold) hold = gates.Holding(*member);
    const bool by_limit = !hold && !member->unschedulable && places <= 0;
    if (!hold) {
      hold = image_checks.Holding(*member, by_limit ? std::optional(limit) : std::nullopt);
    }
    if (!hold) {
      if (!member->unschedulable) --places;
      gates.Begin(*member);
      wave.granted.push_back(member->name);
      continue;
    }
    if (!told) wave.look_again = hold->look_again;
    Wait(*member, *hold, !by_limit, told, wave);
  }
  wave.to_check = image_checks.Wanted();
  if (told && wave.granted.empty()) Tell(*told, wave);
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
    if (const auto found = notes.find(api::kUpgradeMetricsAnnotation); found != notes.end()) {
      member.metrics = ReadMetricsNote(found->second);
    }
  }
  return member;
}

std::string_view NameOf(Blocker blocker) {
  switch (blocker) {
    case Blocker::kNone:
      break;
    case Blocker::kImage:
      return "image";
    case Blocker::kCanary:
      return "canary";
    case Blocker::kApproval:
      return "approval";
    case Blocker::kFailures:
      return "failures";
  }
  return "";
}

Wave PlanWave(const std::vector<Member>& members, const api::UpgradePolicy& policy,
              base::WallClock::time_point now) {
  Wave wave;
  int cordoning = 0;
  Count(members, wave, cordoning);
  SetLimits(policy, cordoning, wave);
  const Hold limit{.why = LimitHeld(policy, cordoning, wave),
                   .blocker = wave.failed > wave.max_failed ? Blocker::kFailures : Blocker::kNone};
  if (policy.schedule.restricts()) {
    GrantBySchedule(members, policy.schedule, now, limit, wave);
  } else {
    GrantByLimits(members, policy, limit, wave);
  }
  return wave;
}

}  // namespace pitcrew::driver_upgrade
