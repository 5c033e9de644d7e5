#include "operator/roll_out/lagging_pods.h"

#include <algorithm>

#include "base/log.h"
#include "codec/json_items.h"
#include "kube/ownership.h"
#include "kube/projection.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;

// A look reads so much and no more: finding the one pod in 10,000 that is behind is worth the
// reading of some, not of all.
constexpr int kPageSize = 50;
constexpr int kPages = 40;
// Pods that nobody makes (a quota) are not looked for more often than this.
constexpr std::chrono::milliseconds kLongestInterval = std::chrono::minutes(5);
constexpr kube::CallLimits kOneTry{.timeout = std::chrono::seconds(5), .retry = {.attempts = 1}};

}  // namespace

std::chrono::milliseconds LookInterval(std::int64_t desired, int in_vain) {
  const std::chrono::milliseconds first(std::clamp<std::int64_t>(desired * 5, 1000, 30000));
  return std::min(first * (1 << std::min(in_vain, 8)), kLongestInterval);
}

LaggingPods::LaggingPods(std::shared_ptr<kube::Client> client, std::string operator_namespace,
                         std::function<void()> changed,
                         std::function<void(std::chrono::nanoseconds)> later)
    : client_(std::move(client)),
      operator_namespace_(std::move(operator_namespace)),
      changed_(std::move(changed)),
      later_(std::move(later)),
      worker_([this] { Work(source_.token()); }) {}

LaggingPods::~LaggingPods() {
  source_.Stop();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  queued_.notify_all();
}

void LaggingPods::Work(const io::StopToken& stop) {
  while (true) {
    DaemonSetPods daemonset;
    {
      std::unique_lock lock(mutex_);
      queued_.wait(lock, [&] { return ended_ || !queue_.empty(); });
      if (ended_) return;
      daemonset = std::move(queue_.front());
      queue_.pop_front();
    }
    const auto found = Look(daemonset, stop);
    if (stop.stopped()) return;
    if (!found) {
      base::LogWarning("the pods of a DaemonSet cannot be read", found.error(),
                       {{"daemonset", daemonset.name}});
    }
    // Without one, the DaemonSet's status is late, or pods are still to be made.
    Finish(daemonset, found && *found ? Watch((*found)->name, stop) : nullptr);
  }
}

std::shared_ptr<LaggingPods::Watched> LaggingPods::Watch(const std::string& pod,
                                                         const io::StopToken& stop) {
  auto watched = std::make_shared<Watched>(
      client_, kube::kPods, kube::ObjectKey{.namespace_name = operator_namespace_, .name = pod},
      kube::ProjectJson<std::optional<desired::LaggingPod>>(
          [](const Json& object) -> base::Result<std::optional<desired::LaggingPod>> {
            return desired::ReadLaggingPod(object);
          }),
      changed_);
  // Once it has been listed, nobody waits for it any longer.
  return watched->Get(stop).is_unknown() ? nullptr : watched;
}

void LaggingPods::Finish(const DaemonSetPods& daemonset, std::shared_ptr<Watched> pod) {
  const bool found = pod != nullptr;
  int in_vain = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto search = searches_.find(daemonset.name);
    if (search == searches_.end()) return;  // nobody asks any longer
    search->second.looking = false;
    search->second.pod = std::move(pod);
    search->second.in_vain = found ? 0 : search->second.in_vain + 1;
    in_vain = search->second.in_vain;
  }
  if (found) {
    changed_();
  } else {
    later_(LookInterval(daemonset.desired, in_vain));
  }
}

base::Result<std::optional<desired::LaggingPod>> LaggingPods::Look(const DaemonSetPods& daemonset,
                                                                   const io::StopToken& stop) {
  // Pods that have not begun come first: there are few of them in the end, and the server finds
  // them by itself.
  for (const char* phase : {"status.phase!=Running", "status.phase=Running"}) {
    const kube::ListOptions options{.label_selector = daemonset.label_selector,
                                    .field_selector = phase,
                                    .page_size = kPageSize};
    std::string continue_token;
    for (int number = 0; number < kPages; ++number) {
      const auto request =
          kube::ListRequest(kube::kPods, operator_namespace_, options, continue_token);
      TRY_ASSIGN(std::string body, client_->Send(request, kOneTry, stop));
      TRY_ASSIGN(const Json page, codec::ParseJson(body, "list of pods"));
      std::optional<desired::LaggingPod> first;
      for (const Json& pod : codec::ItemsAt(page, {"items"})) {
        if (!kube::IsControlledBy(pod, daemonset.uid)) continue;
        auto lagging = desired::ReadLaggingPod(pod);
        if (lagging && (!first || lagging->node < first->node)) first = std::move(lagging);
      }
      if (first) return first;
      continue_token = codec::FindString(page, {"metadata", "continue"});
      if (continue_token.empty()) break;
    }
  }
  return std::nullopt;
}

std::optional<desired::LaggingPod> LaggingPods::Find(const DaemonSetPods& daemonset) {
  const std::lock_guard lock(mutex_);
  Search& search = searches_[daemonset.name];
  if (search.looking) return std::nullopt;
  if (search.pod != nullptr) {
    const auto known = search.pod->Get(source_.token());
    if (known.is_present() && *known.value()) return *known.value();
    if (known.is_unknown()) return std::nullopt;
    search.pod.reset();
  }
  const auto now = base::SteadyClock::now();
  const auto interval = LookInterval(daemonset.desired, search.in_vain);
  if (search.at != base::SteadyClock::time_point() && now - search.at < interval) {
    later_(interval - (now - search.at));
    return std::nullopt;
  }
  search.at = now;
  search.looking = true;
  queue_.push_back(daemonset);
  queued_.notify_all();
  return std::nullopt;
}

void LaggingPods::Forget(const std::string& daemonset) {
  const std::lock_guard lock(mutex_);
  searches_.erase(daemonset);
}

void LaggingPods::Keep(const std::set<std::string>& daemonsets) {
  const std::lock_guard lock(mutex_);
  std::erase_if(searches_, [&](const auto& entry) { return !daemonsets.contains(entry.first); });
}

}  // namespace pitcrew::gpu_operator
