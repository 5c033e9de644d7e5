#include "operator/upgrade/node_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "kube/projection.h"
#include "workload/evict.h"
#include "workload/gpu_use.h"

namespace pitcrew::gpu_operator {
namespace {

using api::UpgradeState;
using codec::Json;
using driver_upgrade::Jobs;
using driver_upgrade::Removal;

std::string OnNode(const std::string& node) { return "spec.nodeName=" + node; }

// Of a removal whose time was up while it waited for another turn.
base::Error NotGone(const std::vector<workload::PodReference>& pods) {
  std::vector<std::string> names;
  for (const workload::PodReference& pod : pods) names.push_back(pod.key.ToString());
  return {base::Code::kTimeout, "PodsNotGone",
          "pods were not gone in time: " + base::Join(names, "; ")};
}

// The server could not be asked: that says nothing about the pods. kTimeout is not of these: so
// are pods called that were not gone in time, a server that was silent is kUnavailable here.
bool IsPassing(const base::Error& error) {
  switch (error.code) {
    case base::Code::kUnavailable:
    case base::Code::kTooMany:
    case base::Code::kGone:
    case base::Code::kCancelled:
      return true;
    default:
      return false;
  }
}

}  // namespace

NodeWork::NodeWork(std::shared_ptr<kube::Client> client,
                   std::function<void(const std::string&)> changed,
                   std::function<void(const std::string&, const std::string&)> held_up,
                   const RemovalLimits& limits)
    : client_(std::move(client)),
      changed_(std::move(changed)),
      held_up_(std::move(held_up)),
      limits_(limits) {}

NodeWork::~NodeWork() {
  std::map<std::string, Node> nodes;
  {
    const std::lock_guard lock(mutex_);
    nodes.swap(nodes_);
    for (const auto& [name, node] : nodes) {
      for (const auto& job : {node.gpu_pods, node.drain}) {
        if (job != nullptr) job->ending.Stop();
      }
    }
  }
  for (auto& [name, node] : nodes) {
    End(node.gpu_pods);
    End(node.drain);
  }
}

void NodeWork::End(const std::shared_ptr<RemovalJob>& job) {
  if (job == nullptr) return;
  {
    // Not between the look at the stop and the wait of one whose turn has not come.
    const std::lock_guard lock(mutex_);
    job->ending.Stop();
  }
  turns_changed_.notify_all();
  if (job->thread.joinable()) job->thread.join();
}

bool NodeWork::TakeTurn(RemovalJob& job, const io::StopToken& stop) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(&job);
  while (!stop.stopped() && (waiting_.front() != &job || turns_.size() >= limits_.at_once)) {
    const auto again = waiting_.front() == &job ? MakeRoom() : std::nullopt;
    if (again) {
      turns_changed_.wait_until(lock, *again);
    } else {
      turns_changed_.wait(lock);
    }
  }
  std::erase(waiting_, &job);
  const bool taken = !stop.stopped();
  if (taken) {
    job.turn = io::StopSource::LinkedTo(stop);
    turns_.insert(&job);
  }
  lock.unlock();
  turns_changed_.notify_all();
  return taken;
}

bool NodeWork::GiveTurn(RemovalJob& job) {
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    turns_.erase(&job);
    job.turn.reset();
    job.held_up_since.reset();
    again = std::exchange(job.makes_room, false);
  }
  turns_changed_.notify_all();
  return again;
}

std::optional<base::SteadyClock::time_point> NodeWork::MakeRoom() {
  RemovalJob* longest = nullptr;
  for (RemovalJob* job : turns_) {
    if (job->makes_room) return std::nullopt;
    if (job->held_up_since &&
        (longest == nullptr || *job->held_up_since < *longest->held_up_since)) {
      longest = job;
    }
  }
  if (longest == nullptr) return std::nullopt;
  const auto due = *longest->held_up_since + limits_.held_up;
  if (base::SteadyClock::now() < due) return due;
  longest->makes_room = true;
  longest->turn->Stop();
  return std::nullopt;
}

void NodeWork::NoteHeldUp(const std::string& node, RemovalJob& job, const kube::ObjectKey& pod,
                          const base::Error& why) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (!job.held_up_since) job.held_up_since = base::SteadyClock::now();
    first = job.told_of.insert(pod).second;
  }
  turns_changed_.notify_all();
  if (first) held_up_(node, pod.ToString() + " is held back: " + why.message);
}

void NodeWork::Remove(const std::string& node, const PodsToRemove& pods,
                      const io::StopToken& stop) {
  std::shared_ptr<RemovalJob> former;
  {
    const std::lock_guard lock(mutex_);
    Node& entry = nodes_[node];
    std::shared_ptr<RemovalJob>& job = pods.only_gpu ? entry.gpu_pods : entry.drain;
    if (job != nullptr && !job->trouble) return;
    former = std::move(job);
    job = std::make_shared<RemovalJob>();
    job->pods = pods;
    job->ending = io::StopSource::LinkedTo(stop);
    if (former != nullptr) job->begun = former->begun;
    job->removal.state = Removal::State::kUnderWay;
    // Its job outlives the thread: End waits for it.
    job->thread = std::thread([this, node, borrowed = job.get()] { Run(node, *borrowed); });
  }
  End(former);
}

void NodeWork::Run(const std::string& node, RemovalJob& job) {
  const io::StopToken stop = job.ending.token();
  base::Result<int> removed = 0;
  bool again = true;
  while (again) {
    if (!TakeTurn(job, stop)) return;
    if (!job.begun) job.begun = base::SteadyClock::now();
    removed = RemovePods(node, job, job.turn->token());
    // What came to its end while it was asked for room has ended.
    again = GiveTurn(job) && !removed && removed.error().code == base::Code::kCancelled;
  }
  if (stop.stopped()) return;
  {
    const std::lock_guard lock(mutex_);
    if (removed) {
      job.removal = {.state = Removal::State::kDone, .pods = *removed, .why = ""};
    } else if (IsPassing(removed.error())) {
      job.trouble = removed.error();
    } else {
      job.removal = {.state = Removal::State::kFailed, .pods = 0, .why = removed.error().message};
    }
  }
  changed_(node);
}

base::Result<int> NodeWork::RemovePods(const std::string& node, RemovalJob& job,
                                       const io::StopToken& stop) {
  const auto listed = client_->List(
      kube::kPods, "", {.label_selector = job.pods.label_selector, .field_selector = OnNode(node)},
      stop);
  if (!listed) {
    // A list that is refused is no pod that stays: upstream stays in the state too.
    base::Error error = listed.error().Within("list the pods of node " + node);
    if (error.code != base::Code::kCancelled) error.code = base::Code::kUnavailable;
    return base::Fail(std::move(error));
  }
  std::vector<Json> pods;
  for (const Json& pod : listed->items) {
    if (job.pods.only_gpu) {
      TRY_ASSIGN(const bool uses_gpu, workload::CheckGpuUse(*client_, pod, stop));
      if (!uses_gpu) continue;
    }
    pods.push_back(pod);
  }
  const api::PodRemoval& how = job.pods.how;
  const workload::DrainPlan plan = workload::PlanDrain(pods, workload::OptionsOf(how));
  if (!plan.refused.empty()) {
    return base::Fail(base::Invalid("PodsNotDeletable", base::Join(plan.refused, "; ")));
  }
  workload::EvictOptions options;
  if (how.timeout_seconds > 0) {
    options.deadline = *job.begun + std::chrono::seconds(how.timeout_seconds);
    if (options.deadline.passed() && !plan.evict.empty()) return base::Fail(NotGone(plan.evict));
  }
  options.held_up = [&](const kube::ObjectKey& pod, const base::Error& why) {
    NoteHeldUp(node, job, pod, why);
  };
  TRY(workload::EvictPods(client_, node, plan.evict, options, stop));
  return static_cast<int>(plan.evict.size());
}

base::Result<Removal> NodeWork::RemovalOf(const std::string& node, bool only_gpu) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return Removal{};
  const auto& job = only_gpu ? found->second.gpu_pods : found->second.drain;
  if (job == nullptr) return Removal{};
  if (!job->trouble) return job->removal;
  if (std::exchange(job->told, true)) return Removal{};
  return base::Fail(*job->trouble);
}

void NodeWork::WatchJobs(const std::string& node, const std::string& label_selector) {
  std::unique_ptr<JobWatch> former;  // ends after the lock
  const std::lock_guard lock(mutex_);
  std::unique_ptr<JobWatch>& watch = nodes_[node].jobs;
  if (watch != nullptr && watch->label_selector == label_selector) return;
  former = std::move(watch);
  watch = std::make_unique<JobWatch>();
  watch->label_selector = label_selector;
  const auto tell = [this, node] { changed_(node); };
  watch->informer = std::make_unique<kube::Informer<bool>>(
      client_, kube::kPods, kube::ProjectJson<bool>([](const Json& pod) -> base::Result<bool> {
        return !workload::HasEnded(pod);
      }),
      kube::InformerOptions{
          .label_selector = label_selector, .field_selector = OnNode(node), .opened = tell});
  watch->informer->AddHandler([tell](const kube::Change<bool>&) { tell(); });
  watch->informer->Start();
}

Jobs NodeWork::JobsOf(const std::string& node, const std::string& label_selector) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second.jobs == nullptr ||
      found->second.jobs->label_selector != label_selector ||
      !found->second.jobs->informer->store().synced()) {
    return Jobs::kNotLookedAt;
  }
  const auto pods = found->second.jobs->informer->store().Snapshot();
  const bool running = std::ranges::any_of(
      pods, [](const auto& pod) { return pod.second == nullptr || *pod.second; });
  return running ? Jobs::kRunning : Jobs::kNone;
}

void NodeWork::Keep(const std::string& node, UpgradeState state) {
  Node ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return;
    Node& entry = found->second;
    if (state != UpgradeState::kPodDeletionRequired) ended.gpu_pods = std::move(entry.gpu_pods);
    if (state != UpgradeState::kDrainRequired) ended.drain = std::move(entry.drain);
    if (state != UpgradeState::kWaitForJobsRequired) ended.jobs = std::move(entry.jobs);
    if (entry.gpu_pods == nullptr && entry.drain == nullptr && entry.jobs == nullptr) {
      nodes_.erase(found);
    }
  }
  End(ended.gpu_pods);
  End(ended.drain);
}

}  // namespace pitcrew::gpu_operator
