#include "driver_upgrade/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "api/labels.h"
#include "driver_upgrade/looks.h"

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
  if (schedule_.canary.nodes > 0 && schedule_.canary.metrics) {
    for (const auto& [version, observed] : ObservedMembers(members, schedule_.canary)) {
      observed_.insert(observed.begin(), observed.end());
    }
  }
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
    CountDone(member, canary);
  }
}

void Gates::CountDone(const Member& member, Canary& canary) {
  const bool in_order = member.pods_ready && !member.not_ready;
  const MetricsNote* note = nullptr;
  const bool looked_at = observed_.contains(&member);
  if ((looked_at || (member.skipped && schedule_.canary.metrics)) && member.metrics &&
      member.metrics->IsOf(*member.record)) {
    note = &*member.metrics;
  }
  const bool accused = note != nullptr && !note->against.empty();
  // Somebody knows of it: another takes its place.
  if (member.skipped && (!in_order || accused)) return;
  ++canary.begun;
  const auto until = ObservedUntil(member, schedule_.canary);
  if (!in_order || accused) {
    canary.not_in_order.push_back({&member, accused ? note->against : ""});
    return;
  }
  if (note != nullptr && !note->unknown.empty() && canary.unknown.empty()) {
    canary.unknown = fmt::format("the metrics of node {} cannot be read, and do not count: {}",
                                 member.name, note->unknown);
  }
  if (until > now_) {
    canary.observed_until.push_back(until);
  } else if (looked_at && (note == nullptr || note->looked < until)) {
    ++canary.unread;
  } else {
    ++canary.proven;
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
  const std::string also_unknown = canary.unknown.empty() ? "" : "; " + canary.unknown;
  if (canary.proven >= wanted.nodes) {
    if (!wanted.require_approval ||
        std::ranges::find(wanted.approved, version) != wanted.approved.end()) {
      return std::nullopt;
    }
    return Hold{.why = fmt::format("version {} of the driver runs on {} nodes and is not approved: "
                                   "annotation {}={} of the ClusterPolicy does that{}",
                                   version, canary.proven, api::kUpgradeApprovedAnnotation, version,
                                   also_unknown),
                .blocker = Blocker::kApproval};
  }
  if (!canary.failed.empty()) {
    return Hold{.why = fmt::format("node {}, one of the first {}, has failed",
                                   canary.failed.front()->name, wanted.nodes),
                .blocker = Blocker::kCanary};
  }
  if (canary.begun < wanted.nodes) return std::nullopt;
  if (!canary.not_in_order.empty()) {
    const auto& first = canary.not_in_order.front();
    return Hold{.why = fmt::format("node {}, one of the first {}, is not in order with its new "
                                   "driver{}{}",
                                   first.member->name, wanted.nodes, first.why.empty() ? "" : ": ",
                                   first.why),
                .blocker = Blocker::kCanary};
  }
  const int observed = wanted.nodes - canary.proven - canary.unread;  // that are still needed
  if (observed <= 0) {
    return Hold{.why =
                    fmt::format("the metrics of the first {} nodes are being read", wanted.nodes)};
  }
  if (observed <= static_cast<int>(canary.observed_until.size())) {
    std::vector<base::WallClock::time_point> until = canary.observed_until;
    const auto last = until.begin() + (observed - 1);
    std::ranges::nth_element(until, last);
    return Hold{.why = fmt::format("the first {} nodes are observed until {}{}", wanted.nodes,
                                   base::FormatRfc3339(*last), also_unknown),
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
