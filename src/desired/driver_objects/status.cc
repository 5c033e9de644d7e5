#include "desired/driver_objects/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/strings.h"
#include "desired/conditions.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

// "PoolReady-ubuntu24.04". The names of pools come from labels, whose letters conditions take too.
std::string PoolCondition(std::string_view pool) { return fmt::format("PoolReady-{}", pool); }

std::string NodesText(std::size_t count) {
  return fmt::format("{} node{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::string_view ToString(DriverState state) {
  switch (state) {
    case DriverState::kReady:
      return "ready";
    case DriverState::kNotReady:
      return "notReady";
    case DriverState::kDisabled:
      return "disabled";
  }
  return "";
}

DriverOutcome OutcomeOf(const OperandReport& report, const api::NvidiaDriver& driver,
                        const DriverPools& pools) {
  DriverOutcome outcome;
  for (const DriverPool& pool : pools.pools) {
    const std::string name = DriverAppName(driver, pool);
    const auto found = std::ranges::find(report.daemonsets, name, &DaemonSetProgress::name);
    const bool known = found != report.daemonsets.end();
    outcome.pools.push_back(
        {.pool = pool.name,
         .ready = known && found->ready(),
         .message = fmt::format("{}: {}", NodesText(pool.nodes),
                                known ? Describe(*found, std::nullopt) : report.message)});
  }
  if (report.verdict == Verdict::kFailed) {
    outcome.reason = "ReconcileFailed";
    outcome.message = report.message;
  } else if (!pools.unknown.empty()) {
    const auto& [node, label] = *pools.unknown.begin();
    outcome.reason = "DriverNotReady";
    outcome.message = fmt::format(
        "{} of {} cannot be given a driver, {} first: it has no label {}. Node feature discovery "
        "writes it; until it has, no DaemonSet of this driver is removed",
        pools.unknown.size(), NodesText(pools.nodes()), node, label);
  } else if (report.verdict == Verdict::kReady) {
    outcome.state = DriverState::kReady;
    outcome.reason = "Reconciled";
    outcome.message = pools.pools.empty()
                          ? "no node has been given this driver; watching for one to join"
                          : fmt::format("the driver is ready on {}", NodesText(pools.nodes()));
  } else {
    outcome.reason = "DriverNotReady";
    outcome.message = fmt::format("Waiting for driver pods to be ready: {}", report.message);
  }
  return outcome;
}

Json MakeDriverStatus(const DriverOutcome& outcome, std::string_view operator_namespace,
                      std::int64_t generation, const Json& previous,
                      base::WallClock::time_point now) {
  Conditions conditions(generation, previous, now);
  if (outcome.state == DriverState::kReady) {
    conditions.AddReady(outcome.reason, outcome.message);
  } else {
    conditions.AddError(outcome.reason, outcome.message);
  }
  for (const DriverPoolProgress& pool : outcome.pools) {
    conditions.Add(PoolCondition(pool.pool), pool.ready, pool.ready ? "Ready" : "RollingOut",
                   pool.message);
  }
  if (!outcome.upgrade_stopped.empty()) {
    conditions.Add("DriverUpgradeReady", false, "UpgradeStopped", outcome.upgrade_stopped);
  }
  return {{"state", ToString(outcome.state)},
          {"namespace", operator_namespace},
          {"conditions", conditions.Take()}};
}

}  // namespace pitcrew::desired
