#include "driver_upgrade/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "api/labels.h"

namespace pitcrew::driver_upgrade {
namespace {

using enum api::UpgradeState;

std::string NameOfDomain(const Member& member, const api::UpgradeOrder& order) {
  return member.domain.empty() ? fmt::format("the nodes without {}", order.label)
                               : fmt::format("{}={}", order.label, member.domain);
}

bool HasBegun(const Member& member) { return member.granted || api::IsUnderWay(member.state); }

}  // namespace

bool IsWaiting(const Member& member) {
  return member.state == kRequired && !member.granted && !member.skipped;
}

bool IsAboutToWait(const Member& member) {
  return member.outdated && !member.skipped && (member.state == kDone || member.state == kNone);
}

std::vector<const Member*> InOrder(const std::vector<Member>& members,
                                   const api::UpgradeOrder& order) {
  std::vector<const Member*> sorted;
  sorted.reserve(members.size());
  for (const Member& member : members) sorted.push_back(&member);
  if (order.label.empty()) return sorted;
  const auto place = [&](const Member* member) {
    const auto found = std::ranges::find(order.first, member->domain);
    return std::tuple(member->domain.empty(), found - order.first.begin(),
                      std::string_view(member->domain));
  };
  std::ranges::stable_sort(sorted, {}, place);
  return sorted;
}

Gates::Gates(const std::vector<const Member*>& members, const api::UpgradeSchedule& schedule,
             base::WallClock::time_point now)
    : schedule_(schedule), now_(now) {
  for (const Member* member : members) {
    if (unfinished_ == nullptr && !schedule_.order.label.empty() &&
        (IsWaiting(*member) || IsAboutToWait(*member) || HasBegun(*member))) {
      unfinished_ = member;
    }
    if (schedule_.canary.nodes > 0) Count(*member);
  }
}

void Gates::Count(const Member& member) {
  if (member.version.empty()) {
    // Its driver pod is being replaced: by whichever version.
    if (HasBegun(member)) ++begun_of_unknown_version_;
    return;
  }
  Canary& canary = canaries_[member.version];
  if (HasBegun(member)) {
    ++canary.begun;
  } else if (member.state == kFailed && !member.skipped) {
    ++canary.begun;
    canary.failed.push_back(&member);
  } else if (member.state == kDone && member.record && member.record->revision == member.version) {
    ++canary.begun;
    const auto until =
        member.record->finished + std::chrono::seconds(schedule_.canary.observe_seconds);
    if (!member.pods_ready || member.not_ready) {
      canary.not_in_order.push_back(&member);
    } else if (until > now_) {
      canary.observed_until.push_back(until);
    } else {
      ++canary.proven;
    }
  }
}

Gates::Canary Gates::CanaryOf(const std::string& version) const {
  const auto found = canaries_.find(version);
  Canary canary = found == canaries_.end() ? Canary() : found->second;
  canary.begun += begun_of_unknown_version_;
  return canary;
}

std::optional<Hold> Gates::HoldOf(const std::string& version, const Canary& canary) const {
  const api::UpgradeCanary& wanted = schedule_.canary;
  if (canary.proven >= wanted.nodes) {
    if (!wanted.require_approval ||
        std::ranges::find(wanted.approved, version) != wanted.approved.end()) {
      return std::nullopt;
    }
    return Hold{
        .why = fmt::format("version {} of the driver runs on {} nodes and is not approved: "
                           "annotation {}={} of the ClusterPolicy does that",
                           version, canary.proven, api::kUpgradeApprovedAnnotation, version),
        .needs_person = true};
  }
  if (!canary.failed.empty()) {
    return Hold{.why = fmt::format("node {}, one of the first {}, has failed",
                                   canary.failed.front()->name, wanted.nodes),
                .needs_person = true};
  }
  if (canary.begun < wanted.nodes) return std::nullopt;
  if (!canary.not_in_order.empty()) {
    return Hold{.why = fmt::format("node {}, one of the first {}, is not in order with its new "
                                   "driver",
                                   canary.not_in_order.front()->name, wanted.nodes),
                .needs_person = true};
  }
  if (canary.proven + static_cast<int>(canary.observed_until.size()) >= wanted.nodes) {
    std::vector<base::WallClock::time_point> until = canary.observed_until;
    const auto last = until.begin() + (wanted.nodes - canary.proven - 1);
    std::ranges::nth_element(until, last);
    return Hold{.why = fmt::format("the first {} nodes are observed until {}", wanted.nodes,
                                   base::FormatRfc3339(*last)),
                .look_again = *last};
  }
  return Hold{.why = fmt::format("the first {} nodes are being upgraded", wanted.nodes)};
}

std::optional<Hold> Gates::Holding(const Member& member) {
  if (unfinished_ != nullptr && unfinished_->domain != member.domain) {
    return Hold{.why = fmt::format("{} goes first, where node {} is not done",
                                   NameOfDomain(*unfinished_, schedule_.order), unfinished_->name)};
  }
  if (schedule_.canary.nodes == 0) return std::nullopt;
  if (member.version.empty()) return Hold{.why = "it is not known which driver it would get"};
  return HoldOf(member.version, CanaryOf(member.version));
}

void Gates::Begin(const Member& member) {
  if (schedule_.canary.nodes > 0) ++canaries_[member.version].begun;
}

}  // namespace pitcrew::driver_upgrade
