#include "driver_upgrade/wave.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/labels.h"

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

bool Waits(const Member& member) {
  return member.state == kRequired && !member.granted && !member.skipped && !member.unschedulable;
}

void Count(const std::vector<Member>& members, Wave& wave, int& waiting, int& cordoning) {
  for (const Member& member : members) {
    if (member.unschedulable || member.not_ready) ++wave.unavailable;
    if (!IsCounted(member.state)) continue;
    ++wave.total;
    if (Waits(member)) ++waiting;
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

}  // namespace

Member MemberOf(const desired::Node& node) {
  return {.name = node.name,
          .state = api::UpgradeStateNamed(node.labels.Get(api::kUpgradeState)),
          .skipped = node.labels.Is(api::kUpgradeSkip, "true"),
          .unschedulable = node.unschedulable,
          .not_ready = node.not_ready};
}

Wave PlanWave(const std::vector<Member>& members, const api::UpgradePolicy& policy) {
  Wave wave;
  int waiting = 0;
  int cordoning = 0;
  Count(members, wave, waiting, cordoning);
  wave.max_unavailable = MaxUnavailable(policy.max_unavailable, wave.total);
  wave.max_failed = std::max(1, ShareOf(kFailedPercent, wave.total));

  int places = policy.max_parallel_upgrades == 0 ? wave.pending
                                                 : policy.max_parallel_upgrades - wave.in_progress;
  const int parallel = places;
  const int unavailable = wave.unavailable + cordoning;
  places = std::min(places, wave.max_unavailable);
  if (unavailable >= wave.max_unavailable) {
    places = 0;
  } else if (wave.max_unavailable < wave.total && unavailable + places > wave.max_unavailable) {
    places = wave.max_unavailable - unavailable;
  }
  if (wave.failed > wave.max_failed) places = 0;
  wave.available = std::max(places, 0);

  for (const Member& member : members) {
    if (static_cast<int>(wave.granted.size()) >= wave.available) break;
    if (Waits(member)) wave.granted.push_back(member.name);
  }
  if (waiting == 0 || !wave.granted.empty()) return wave;
  if (wave.failed > wave.max_failed) {
    wave.held = fmt::format("{} of {} nodes have failed, more than {}", wave.failed, wave.total,
                            wave.max_failed);
  } else if (parallel <= 0) {
    wave.held = fmt::format("{} nodes are being upgraded, and maxParallelUpgrades is {}",
                            wave.in_progress, policy.max_parallel_upgrades);
  } else {
    wave.held = fmt::format("{} of {} nodes are unavailable, and maxUnavailable is {}", unavailable,
                            wave.total, policy.max_unavailable);
  }
  return wave;
}

}  // namespace pitcrew::driver_upgrade
