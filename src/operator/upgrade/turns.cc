#include "operator/upgrade/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/labels.h"
#include "base/log.h"
#include "driver_upgrade/step.h"

namespace pitcrew::gpu_operator {
namespace {

// What limits and schedule look at. Labels: any may be the one that nodes are ordered by.
bool IsSameForOthers(const desired::Node& a, const desired::Node& b) {
  return a.labels == b.labels && a.unschedulable == b.unschedulable && a.not_ready == b.not_ready;
}

}  // namespace

Turns::Turns(World& world, Metrics& metrics, const DriverPods& pods,
             std::function<void()> stopped_changed)
    : world_(world), metrics_(metrics), pods_(pods), stopped_changed_(std::move(stopped_changed)) {}

bool Turns::Note(const kube::Change<desired::Node>& change) {
  const bool has_state = change.now != nullptr && change.now->labels.Has(api::kUpgradeState);
  {
    const std::lock_guard lock(mutex_);
    if (has_state) {
      nodes_with_state_.insert(change.key.name);
    } else {
      nodes_with_state_.erase(change.key.name);
    }
  }
  return change.before == nullptr || change.now == nullptr ||
         !IsSameForOthers(*change.before, *change.now);
}

std::set<std::string> Turns::Nodes() const {
  std::set<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    names = nodes_with_state_;
  }
  for (std::string& name : pods_.Nodes()) names.insert(std::move(name));
  return names;
}

std::vector<driver_upgrade::Member> Turns::Members(const api::UpgradeSchedule& schedule) {
  std::vector<driver_upgrade::Member> members;
  for (const std::string& name : Nodes()) {
    const auto node = world_.nodes.store().Find(KeyOfNode(name));
    if (!node.is_present()) continue;
    driver_upgrade::Member& member =
        members.emplace_back(driver_upgrade::MemberOf(**node.value(), schedule));
    member.granted = grants_.Counts(**node.value());
    if (schedule.canary.nodes == 0) continue;
    const DriverPods::View view = pods_.Of(name);
    member.version = view.newest_revision;
    member.pods_ready = view.IsReady();
  }
  return members;
}

std::string Turns::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void Turns::SetStopped(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ == why) return;
    stopped_ = why;
  }
  if (!why.empty()) base::LogWarning("driver upgrades are stopped", {{"why", why}});
  stopped_changed_();
}

void Turns::Measure(const driver_upgrade::Wave& wave) {
  for (const auto& [name, value] :
       {std::pair("in_progress", wave.in_progress), std::pair("done", wave.done),
        std::pair("failed", wave.failed), std::pair("available", wave.available),
        std::pair("pending", wave.pending)}) {
    metrics_.Set(fmt::format("gpu_operator_nodes_upgrades_{}", name), value);
  }
}

void Turns::GiveNone(const std::string& why) {
  grants_.TakeBack();
  Measure({});
  SetStopped(why);
}

base::Result<std::string> Turns::CheckSelectors(const api::UpgradePolicy& policy,
                                                const io::StopToken& stop) {
  const std::string all = policy.wait_pod_selector + "\n" + policy.drain_pod_selector;
  if (all == checked_selectors_) return selector_problem_;
  std::string problem;
  for (const auto& [member, selector] :
       {std::pair("waitForCompletion", policy.wait_pod_selector),
        std::pair("drain", driver_upgrade::DrainSelector(policy))}) {
    // The server's own grammar.
    const auto asked =
        world_.client->Send(kube::ListRequest(kube::kPods, world_.operator_namespace,
                                              {.label_selector = selector, .page_size = 1}),
                            stop);
    if (asked) continue;
    if (asked.error().code != base::Code::kInvalid) return base::Fail(asked.error());
    problem =
        fmt::format("{}.{}.podSelector: {}", kUpgradePolicyPath, member, asked.error().message);
    break;
  }
  checked_selectors_ = all;
  selector_problem_ = problem;
  return problem;
}

base::Result<Turns::Given> Turns::Give(const api::UpgradePolicy& policy,
                                       const io::StopToken& stop) {
  if (!policy.schedule.order.label.empty()) {
    TRY(world_.KeepNodeLabels({policy.schedule.order.label}));
  }
  const auto now = base::WallClock::now();
  const driver_upgrade::Wave wave = driver_upgrade::PlanWave(Members(policy.schedule), policy, now);
  Measure(wave);
  if (wave.pending > 0) {
    TRY_ASSIGN(const std::string problem, CheckSelectors(policy, stop));
    if (!problem.empty()) {
      grants_.TakeBack();
      SetStopped(problem);
      return Given{};
    }
  }
  SetStopped(wave.needs_person ? wave.held : "");
  if (std::exchange(held_, wave.held) != wave.held && !wave.held.empty()) {
    base::LogInfo("no other driver is upgraded now", {{"why", wave.held}});
  }
  if (wave.holds_all) grants_.TakeBack();
  Given given{.nodes = wave.granted, .look_again = std::nullopt};
  for (const std::string& node : given.nodes) grants_.Give(node);
  if (wave.look_again) {
    given.look_again =
        std::max<std::chrono::nanoseconds>(*wave.look_again - now, std::chrono::milliseconds(1));
  }
  return given;
}

}  // namespace pitcrew::gpu_operator
