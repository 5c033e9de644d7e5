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

bool IsIncomplete(const desired::Node& node) {
  const auto state = api::UpgradeStateNamed(node.labels.Get(api::kUpgradeState));
  return !node.labels.Get(api::kDriverOwner).empty() &&
         !node.labels.Is(api::kUpgradeSkip, "true") && state != api::UpgradeState::kNone &&
         state != api::UpgradeState::kDone;
}

void SumUp(driver_upgrade::Wave& sum, const driver_upgrade::Wave& wave) {
  sum.in_progress += wave.in_progress;
  sum.done += wave.done;
  sum.failed += wave.failed;
  sum.available += wave.available;
  sum.pending += wave.pending;
}

// What limits and schedule look at. Labels: any may be the one that nodes are ordered by.
bool IsSameForOthers(const desired::Node& a, const desired::Node& b) {
  return a.labels == b.labels && a.unschedulable == b.unschedulable && a.not_ready == b.not_ready;
}

// Path of the block that names the driver's image: the one around the upgrade policy.
std::string BlockOf(const UpgradePool& pool) { return pool.path.substr(0, pool.path.rfind('.')); }

}  // namespace

Turns::Turns(World& world, Metrics& metrics, const DriverPods& pods,
             std::function<void()> told_changed)
    : world_(world), metrics_(metrics), pods_(pods), told_changed_(std::move(told_changed)) {}

bool Turns::Note(const kube::Change<desired::Node>& change) {
  const bool has_state = change.now != nullptr && change.now->labels.Has(api::kUpgradeState);
  const auto set = [&](std::set<std::string>& names, bool is_in) {
    if (is_in) {
      names.insert(change.key.name);
    } else {
      names.erase(change.key.name);
    }
  };
  bool was_incomplete = false;
  bool is_incomplete = false;
  {
    const std::lock_guard lock(mutex_);
    set(nodes_with_state_, has_state);
    was_incomplete = !incomplete_.empty();
    set(incomplete_, has_state && IsIncomplete(*change.now));
    is_incomplete = !incomplete_.empty();
  }
  if (was_incomplete != is_incomplete) told_changed_();
  return change.before == nullptr || change.now == nullptr ||
         !IsSameForOthers(*change.before, *change.now);
}

bool Turns::NoteMissingImage(const std::string& node, const std::string& image,
                             const std::string& version) {
  const std::lock_guard lock(mutex_);
  if (image.empty()) return missing_images_.erase(node) > 0;
  MissingImage missing{.image = image, .version = version};
  return std::exchange(missing_images_[node], missing) != missing;
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

void Turns::LookAtPods(const UpgradePool& pool, const MissingImages& missing_images,
                       driver_upgrade::Member& member) const {
  const bool by_schedule = pool.policy.schedule.restricts();
  if (!by_schedule && missing_images.empty()) return;  // nobody asks
  const DriverPods::View view = pods_.Of(member.name);
  member.version = view.newest_revision;
  member.has_image = view.sync == driver_upgrade::Sync::kInSync && view.pod->ready;
  if (const auto missing = missing_images.find(member.name);
      missing != missing_images.end() && missing->second.version == member.version) {
    member.missing_image = missing->second.image;
  }
  if (!by_schedule) return;
  member.outdated = view.sync == driver_upgrade::Sync::kOutdated;
  member.pods_ready = view.IsReady();
}

std::vector<driver_upgrade::Member> Turns::Members(const std::set<std::string>& nodes,
                                                   const UpgradePool& pool) {
  const api::UpgradeSchedule& schedule = pool.policy.schedule;
  MissingImages missing_images;
  {
    const std::lock_guard lock(mutex_);
    missing_images = missing_images_;
  }
  std::vector<driver_upgrade::Member> members;
  for (const std::string& name : nodes) {
    const auto node = world_.nodes.store().Find(KeyOfNode(name));
    if (!node.is_present()) continue;
    const desired::Labels& labels = (*node.value())->labels;
    if (!pool.driver.empty() && !labels.Is(api::kDriverOwner, pool.driver)) continue;
    driver_upgrade::Member& member =
        members.emplace_back(driver_upgrade::MemberOf(**node.value(), schedule));
    member.granted = grants_.Counts(**node.value());
    LookAtPods(pool, missing_images, member);
  }
  return members;
}

std::string Turns::stopped(const std::string& driver) const {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(driver);
  return found == lanes_.end() ? "" : found->second.stopped;
}

bool Turns::incomplete() const {
  const std::lock_guard lock(mutex_);
  return !incomplete_.empty();
}

void Turns::SetStopped(const std::string& driver, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(lanes_[driver].stopped, why) == why) return;
  }
  if (!why.empty()) {
    base::LogWarning("driver upgrades are stopped", {{"driver", driver}, {"why", why}});
  }
  told_changed_();
}

void Turns::Measure(const driver_upgrade::Wave& wave) {
  for (const auto& [name, value] :
       {std::pair("in_progress", wave.in_progress), std::pair("done", wave.done),
        std::pair("failed", wave.failed), std::pair("available", wave.available),
        std::pair("pending", wave.pending)}) {
    metrics_.Set(fmt::format("gpu_operator_nodes_upgrades_{}", name), value);
  }
}

void Turns::TakeBack(const std::vector<driver_upgrade::Member>& members) {
  for (const driver_upgrade::Member& member : members) grants_.Return(member.name);
}

base::Result<std::string> Turns::CheckSelectors(const UpgradePool& pool, Lane& lane,
                                                const io::StopToken& stop) {
  const api::UpgradePolicy& policy = pool.policy;
  const std::string all = policy.wait_pod_selector + "\n" + policy.drain_pod_selector;
  if (all == lane.checked_selectors) return lane.selector_problem;
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
    problem = fmt::format("{}.{}.podSelector: {}", pool.path, member, asked.error().message);
    break;
  }
  lane.checked_selectors = all;
  lane.selector_problem = problem;
  return problem;
}

base::Status Turns::GiveIn(const UpgradePool& pool,
                           const std::vector<driver_upgrade::Member>& members, Given& given,
                           driver_upgrade::Wave& sum, const io::StopToken& stop) {
  const auto now = base::WallClock::now();
  const driver_upgrade::Wave wave = driver_upgrade::PlanWave(members, pool.policy, now);
  SumUp(sum, wave);
  Lane* lane = nullptr;
  {
    const std::lock_guard lock(mutex_);
    lane = &lanes_[pool.driver];  // nobody else takes it away, or changes it
  }
  if (wave.pending > 0) {
    TRY_ASSIGN(const std::string problem, CheckSelectors(pool, *lane, stop));
    if (!problem.empty()) {
      TakeBack(members);
      SetStopped(pool.driver, problem);
      return {};
    }
  }
  SetStopped(pool.driver, wave.image_missing  ? BlockOf(pool) + ": " + wave.held
                          : wave.needs_person ? wave.held
                                              : "");
  if (std::exchange(lane->held, wave.held) != wave.held && !wave.held.empty()) {
    base::LogInfo("no other driver is upgraded now", {{"driver", pool.driver}, {"why", wave.held}});
  }
  if (wave.holds_all) TakeBack(members);
  for (const std::string& node : wave.granted) {
    grants_.Give(node);
    given.nodes.push_back(node);
  }
  if (wave.look_again) {
    const auto delay =
        std::max<std::chrono::nanoseconds>(*wave.look_again - now, std::chrono::milliseconds(1));
    given.look_again = given.look_again ? std::min(*given.look_again, delay) : delay;
  }
  return {};
}

base::Result<Turns::Given> Turns::Give(const std::vector<UpgradePool>& pools,
                                       const io::StopToken& stop) {
  Given given;
  driver_upgrade::Wave sum;
  std::optional<base::Error> trouble;
  const std::set<std::string> nodes = Nodes();
  std::set<std::string> drivers;
  for (const UpgradePool& pool : pools) {
    drivers.insert(pool.driver);
    const std::string& label = pool.policy.schedule.order.label;
    if (!label.empty()) TRY(world_.KeepNodeLabels({label}));
    const auto members = Members(nodes, pool);
    if (!pool.enabled || pool.unclear) {
      TakeBack(members);
      SetStopped(pool.driver, pool.problem);
    } else if (auto gave = GiveIn(pool, members, given, sum, stop); !gave) {
      trouble = gave.error();
    }
  }
  std::vector<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [driver, lane] : lanes_) {
      if (!drivers.contains(driver)) gone.push_back(driver);
    }
  }
  for (const std::string& driver : gone) {
    SetStopped(driver, "");
    const std::lock_guard lock(mutex_);
    lanes_.erase(driver);
  }
  Measure(sum);
  metrics_.Set("gpu_operator_driver_auto_upgrade_enabled",
               std::ranges::any_of(pools, &UpgradePool::enabled) ? 1 : 0);
  if (trouble && given.nodes.empty()) return base::Fail(*trouble);
  if (trouble) given.look_again = std::chrono::seconds(1);
  return given;
}

}  // namespace pitcrew::gpu_operator
