#include "operator/upgrade/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "api/labels.h"
#include "base/log.h"
#include "driver_upgrade/gates.h"
#include "driver_upgrade/image_check.h"
#include "driver_upgrade/looks.h"
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

std::string_view MetricsNoteOf(const desired::Node& node) {
  const auto& notes = node.UpgradeNotes();
  const auto found = notes.find(api::kUpgradeMetricsAnnotation);
  return found == notes.end() ? std::string_view() : found->second;
}

// What limits and schedule look at. Labels: any may be the one that nodes are ordered by.
bool IsSameForOthers(const desired::Node& a, const desired::Node& b) {
  return a.labels == b.labels && a.unschedulable == b.unschedulable && a.not_ready == b.not_ready &&
         MetricsNoteOf(a) == MetricsNoteOf(b);
}

// Why the pool is stopped until a person does something; "" when it is not.
std::string StopOf(const UpgradePool& pool, const driver_upgrade::Wave& wave) {
  if (wave.blocker == driver_upgrade::Blocker::kNone) return "";
  if (wave.image_of.empty()) return wave.held;
  return fmt::format("{}: {}", driver_upgrade::ImageChooserOf(wave.image_of, !pool.driver.empty()),
                     wave.held);
}

int WaitingOf(const std::vector<driver_upgrade::Member>& members) {
  return static_cast<int>(std::ranges::count_if(members, driver_upgrade::IsWaiting));
}

// In a setting that nothing can be done with, whatever the wave says: all that wait.
constexpr std::string_view kSetting = "setting";

void AddHeld(const UpgradePool& pool, const std::map<std::string_view, int>& nodes,
             std::vector<HeldUpgrades>& held) {
  using enum driver_upgrade::Blocker;
  for (const std::string_view reason :
       {NameOf(kImage), NameOf(kCanary), NameOf(kApproval), NameOf(kFailures), kSetting}) {
    const auto found = nodes.find(reason);
    held.push_back({.driver = pool.driver,
                    .reason = std::string(reason),
                    .nodes = found == nodes.end() ? 0 : found->second});
  }
}

}  // namespace

Turns::Turns(World& world, Metrics& metrics, const DriverPods& pods, ImageChecks& image_checks,
             std::function<void()> told_changed)
    : world_(world),
      metrics_(metrics),
      pods_(pods),
      image_checks_(image_checks),
      told_changed_(std::move(told_changed)) {}

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

bool Turns::NoteMissingImage(const std::string& node, const MissingImage& missing) {
  const std::lock_guard lock(mutex_);
  if (missing.image.empty()) return missing_images_.erase(node) > 0;
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
                       const desired::Node& node, driver_upgrade::Member& member) const {
  const bool by_schedule = pool.policy.schedule.restricts();
  const DriverPods::View view = pods_.Of(member.name);
  if (ChecksImages(pool)) image_checks_.LookAt(node, view, member);
  member.version = view.newest_revision;
  member.has_image = view.sync == driver_upgrade::Sync::kInSync && view.pod->ready;
  if (const auto missing = missing_images.find(member.name);
      missing != missing_images.end() && missing->second.version == member.version) {
    member.missing_image = missing->second.image;
    member.missing_image_of = missing->second.container;
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
  std::vector<std::shared_ptr<const desired::Node>> nodes_of_members;
  for (const std::string& name : nodes) {
    const auto node = world_.nodes.store().Find(KeyOfNode(name));
    if (!node.is_present()) continue;
    const desired::Labels& labels = (*node.value())->labels;
    if (!pool.driver.empty() && !labels.Is(api::kDriverOwner, pool.driver)) continue;
    driver_upgrade::Member& member =
        members.emplace_back(driver_upgrade::MemberOf(**node.value(), schedule));
    member.granted = grants_.Counts(**node.value());
    nodes_of_members.push_back(*node.value());
  }
  const bool checks_images =
      ChecksImages(pool) && std::ranges::any_of(members, driver_upgrade::IsWaiting);
  // Else nobody asks.
  if (schedule.restricts() || !missing_images.empty() || checks_images) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      LookAtPods(pool, missing_images, *nodes_of_members[i], members[i]);
    }
  }
  image_checks_.Answer(members);
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

void Turns::Measure(const Sum& sum) {
  const driver_upgrade::Wave& wave = sum.wave;
  for (const auto& [name, value] :
       {std::pair("in_progress", wave.in_progress), std::pair("done", wave.done),
        std::pair("failed", wave.failed), std::pair("available", wave.available),
        std::pair("pending", wave.pending)}) {
    metrics_.Set(fmt::format("gpu_operator_nodes_upgrades_{}", name), value);
  }
  metrics_.SetHeldUpgrades(sum.held);
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
                           Sum& sum, const io::StopToken& stop) {
  const auto now = base::WallClock::now();
  const driver_upgrade::Wave wave = driver_upgrade::PlanWave(members, pool.policy, now);
  SumUp(sum.wave, wave);
  Lane* lane = nullptr;
  {
    const std::lock_guard lock(mutex_);
    lane = &lanes_[pool.driver];  // nobody else takes it away, or changes it
  }
  const auto problem =
      wave.pending > 0 ? CheckSelectors(pool, *lane, stop) : base::Result<std::string>("");
  if (problem && !problem->empty()) {
    TakeBack(members);
    SetStopped(pool.driver, *problem);
    AddHeld(pool, {{kSetting, WaitingOf(members)}}, sum.held);
    return {};
  }
  // Also when the server could not be asked about selectors: a series that comes and goes tells
  // nothing of the nodes.
  std::map<std::string_view, int> blocked;
  for (const auto& [blocker, nodes] : wave.blocked) blocked[NameOf(blocker)] = nodes;
  AddHeld(pool, blocked, sum.held);
  if (!problem) return base::Fail(problem.error());
  SetStopped(pool.driver, StopOf(pool, wave));
  if (std::exchange(lane->held, wave.held) != wave.held && !wave.held.empty()) {
    base::LogInfo("no other driver is upgraded now", {{"driver", pool.driver}, {"why", wave.held}});
  }
  if (wave.holds_all) TakeBack(members);
  for (const std::string& node : wave.granted) {
    // What was looked at for one version holds for no other.
    const auto member = std::ranges::find(members, node, &driver_upgrade::Member::name);
    grants_.Give(node, pool.policy.image_check ? member->version : "");
    given.nodes.push_back(node);
  }
  if (wave.look_again) given.LookAgainIn(*wave.look_again - now);
  AddLooks(pool, members, now, given);
  return image_checks_.Start(wave.to_check, stop);
}

void Turns::AddLooks(const UpgradePool& pool, const std::vector<driver_upgrade::Member>& members,
                     base::WallClock::time_point now, Given& given) {
  driver_upgrade::Looks looks = driver_upgrade::LooksOf(members, pool.policy.schedule, now);
  given.followed.merge(looks.followed);
  std::ranges::move(looks.due, std::back_inserter(given.looks));
  if (looks.look_again) given.LookAgainIn(*looks.look_again - now);
}

base::Result<Turns::Given> Turns::Give(const std::vector<UpgradePool>& pools,
                                       const io::StopToken& stop) {
  Given given;
  Sum sum;
  std::optional<base::Error> trouble;
  image_checks_.BeginPass(base::WallClock::now());
  const std::set<std::string> nodes = Nodes();
  std::set<std::string> drivers;
  for (const UpgradePool& pool : pools) {
    drivers.insert(pool.driver);
    const std::string& label = pool.policy.schedule.order.label;
    const auto kept = label.empty() ? base::Status() : world_.KeepNodeLabels({label});
    const auto members = Members(nodes, pool);
    if (!pool.enabled || pool.unclear) {
      TakeBack(members);
      SetStopped(pool.driver, pool.problem);
      AddHeld(pool, {{kSetting, pool.unclear ? WaitingOf(members) : 0}}, sum.held);
    } else if (!kept) {
      // Nobody knows whose turn it is; counted all the same.
      const auto wave = driver_upgrade::PlanWave(members, pool.policy, base::WallClock::now());
      SumUp(sum.wave, wave);
      AddHeld(pool, {}, sum.held);
      trouble = kept.error();
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
  if (const auto delay = image_checks_.EndPass(stop)) given.LookAgainIn(*delay);
  Measure(sum);
  metrics_.Set("gpu_operator_driver_auto_upgrade_enabled",
               std::ranges::any_of(pools, &UpgradePool::enabled) ? 1 : 0);
  const bool gives = !given.nodes.empty() || !given.looks.empty() || !given.followed.empty();
  if (trouble && !gives) return base::Fail(*trouble);
  if (trouble) given.LookAgainIn(std::chrono::seconds(1));
  return given;
}

}  // namespace pitcrew::gpu_operator
