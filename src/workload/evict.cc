#include "workload/evict.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/bell.h"
#include "base/strings.h"
#include "kube/informer.h"
#include "kube/projection.h"

namespace pitcrew::workload {
namespace {

using codec::Json;

// Silence is no refusal, and says nothing about the pods.
base::Error SaidNothing(base::Error error) {
  if (error.code == base::Code::kTimeout) error.code = base::Code::kUnavailable;
  return error;
}

// An API server that does not answer, or that many evictions under one budget keep from writing it
// (504), is asked again: the uid makes that harmless. kConflict: the pod has another uid, or
// somebody changed it meanwhile.
base::Status SendEviction(kube::Client& client, const PodReference& pod,
                          const kube::CallLimits& limits, const io::StopToken& stop) {
  // Never another pod that has come under the same name.
  const Json eviction = {
      {"apiVersion", "policy/v1"},
      {"kind", "Eviction"},
      {"metadata", {{"name", pod.key.name}, {"namespace", pod.key.namespace_name}}},
      {"deleteOptions", {{"preconditions", {{"uid", pod.uid}}}}}};
  kube::WriteOptions options;
  options.subresource = "eviction";
  TRY_ASSIGN(auto request, kube::CreateRequest(kube::kPods, eviction, options));
  request.repeatable = true;
  const auto sent = client.Send(request, limits, stop);
  if (sent || sent.error().code == base::Code::kNotFound) return {};  // sent, or that pod is gone
  return base::Fail(SaidNothing(sent.error()));
}

std::vector<PodReference> StillThere(const kube::Store<std::string>& store,
                                     const std::vector<PodReference>& pods) {
  std::set<std::string> uids;
  for (const auto& [key, uid] : store.Snapshot()) uids.insert(*uid);
  std::vector<PodReference> remaining;
  std::ranges::copy_if(pods, std::back_inserter(remaining),
                       [&](const PodReference& pod) { return uids.contains(pod.uid); });
  return remaining;
}

// One thread per pod, because each waits for its own budget; what they have to tell rings.
class Evictions {
 public:
  // All of them outlive it.
  Evictions(std::shared_ptr<kube::Client> client, const EvictOptions& options,
            const kube::Store<std::string>& pods, const base::Bell& changed)
      : client_(std::move(client)), options_(options), pods_(pods), changed_(changed) {}
  ~Evictions() {
    ending_.Stop();
    for (auto& thread : threads_) thread.join();
  }
  Evictions(const Evictions&) = delete;
  Evictions& operator=(const Evictions&) = delete;

  void Start(const PodReference& pod) {
    Set(pod, base::Unavailable("NotAnswered", "its eviction has not been answered"), false);
    threads_.emplace_back([this, pod] {
      const auto status = AskWhileThere(pod);
      if (status) {
        Forget(pod);
      } else if (status.error().code != base::Code::kCancelled) {
        Set(pod, status.error(), true);
      }
      changed_.Ring();
    });
  }
  // Why a pod is still there, as far as its eviction tells; null when it was accepted.
  [[nodiscard]] std::optional<base::Error> Trouble(const PodReference& pod) const {
    const std::lock_guard lock(mutex_);
    const auto found = troubles_.find(pod);
    return found == troubles_.end() ? std::nullopt : std::optional(found->second.first);
  }
  [[nodiscard]] bool HasFailed(const PodReference& pod) const {
    const std::lock_guard lock(mutex_);
    const auto found = troubles_.find(pod);
    return found != troubles_.end() && found->second.second;
  }

 private:
  base::Status AskWhileThere(const PodReference& pod) {
    kube::CallLimits limits{.timeout = options_.answer_timeout,
                            .retry = {.backoff = options_.pauses,
                                      .longest_retry_after = std::chrono::minutes(5),
                                      .after_too_many = false,
                                      .after_silence = true}};
    for (int conflicts = 1;; ++conflicts) {
      auto status = AskAndAwaitBudget(pod, limits);
      if (status || status.error().code != base::Code::kConflict) return status;
      Set(pod, status.error(), false);
      if (ending_.token().WaitFor(options_.pauses.Delay(conflicts))) {
        return base::Fail(ending_.token().error());
      }
      // Only the watch tells whether it is still the pod that shall go.
      if (StillThere(pods_, {pod}).empty()) return {};
    }
  }
  // From the first refusal of a budget on, `limits` wait for it.
  base::Status AskAndAwaitBudget(const PodReference& pod, kube::CallLimits& limits) {
    auto status = SendEviction(*client_, pod, limits, ending_.token());
    if (status || status.error().code != base::Code::kTooMany || limits.retry.after_too_many) {
      return status;
    }
    if (options_.held_up) options_.held_up(pod.key, status.error());
    Set(pod, status.error(), false);
    limits.retry.attempts = std::numeric_limits<int>::max();
    limits.retry.after_too_many = true;
    return SendEviction(*client_, pod, limits, ending_.token());
  }
  void Set(const PodReference& pod, const base::Error& error, bool final) {
    const std::lock_guard lock(mutex_);
    troubles_[pod] = {error, final};
  }
  void Forget(const PodReference& pod) {
    const std::lock_guard lock(mutex_);
    troubles_.erase(pod);
  }

  const std::shared_ptr<kube::Client> client_;
  const EvictOptions& options_;
  const kube::Store<std::string>& pods_;
  const base::Bell& changed_;
  const io::StopSource ending_;
  mutable std::mutex mutex_;
  std::map<PodReference, std::pair<base::Error, bool>> troubles_;
  std::vector<std::thread> threads_;
};

// The pods that remain, each with what its eviction met; the code of `why`.
base::Error NotGone(const base::Error& why, const std::vector<PodReference>& remaining,
                    const Evictions& evictions) {
  std::vector<std::string> parts;
  for (const auto& pod : remaining) {
    const auto trouble = evictions.Trouble(pod);
    parts.push_back(trouble ? fmt::format("{} ({})", pod.key.ToString(), trouble->message)
                            : fmt::format("{} (ending)", pod.key.ToString()));
  }
  return {why.code, why.reason, fmt::format("{}: {}", why.message, fmt::join(parts, "; "))};
}

}  // namespace

base::Status EvictPods(const std::shared_ptr<kube::Client>& client, const std::string& node,
                       const std::vector<PodReference>& pods, const EvictOptions& options,
                       const io::StopToken& stop) {
  if (pods.empty()) return {};
  TRY_ASSIGN(const auto changed, base::Bell::Create());
  kube::InformerOptions selection;
  selection.field_selector = "spec.nodeName=" + node;
  kube::Informer<std::string> informer(
      client, kube::kPods,
      kube::ProjectJson<std::string>([](const Json& pod) -> base::Result<std::string> {
        return codec::FindString(pod, {"metadata", "uid"});
      }),
      selection);
  informer.AddHandler([&](const kube::Change<std::string>&) { changed.Ring(); });
  informer.Start();
  if (const auto synced = informer.WaitUntilSynced(stop, options.deadline); !synced) {
    return base::Fail(SaidNothing(synced.error()));
  }
  Evictions evictions(client, options, informer.store(), changed);
  for (const auto& pod : StillThere(informer.store(), pods)) evictions.Start(pod);
  while (true) {
    changed.Silence();
    const auto remaining = StillThere(informer.store(), pods);
    if (remaining.empty()) return {};
    const auto failed = [&](const PodReference& pod) { return evictions.HasFailed(pod); };
    if (std::ranges::all_of(remaining, failed)) {
      return base::Fail(NotGone({evictions.Trouble(remaining.front())->code, "PodsNotEvicted",
                                 "pods could not be evicted"},
                                remaining, evictions));
    }
    const auto woken = io::WaitReadable({changed.fd()}, stop, options.deadline);
    if (woken) continue;
    auto why = woken.error();
    if (why.code == base::Code::kTimeout) {
      why = {base::Code::kTimeout, "PodsNotGone", "pods were not gone in time"};
    }
    return base::Fail(NotGone(why, remaining, evictions));
  }
}

}  // namespace pitcrew::workload
