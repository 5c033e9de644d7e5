// Which pod of a DaemonSet is behind, and why. Pods are not kept in memory: 10,000 nodes have
// 100,000 of them. One is looked for when a DaemonSet is behind, and then watched by its name until
// it is ready; so what is said about it is as new as its status, and stays the same pod meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "desired/lagging_pod.h"
#include "io/stop.h"
#include "kube/client.h"
#include "operator/watches/named_object.h"

namespace pitcrew::gpu_operator {

// What is looked for.
struct DaemonSetPods {
  std::string name;  // of the DaemonSet
  std::string uid;
  std::string label_selector;  // of its pods
  std::int64_t desired = 0;
};

// Thread-safe. Looks on a thread of its own: one look may take dozens of calls to the API server,
// and a roll-out does not wait for what is only written into a status.
class LaggingPods {
 public:
  // `changed`: what Find says may have become something else. `later`: ask again after that time.
  // Both are called from other threads, and must not block.
  LaggingPods(std::shared_ptr<kube::Client> client, std::string operator_namespace,
              std::function<void()> changed, std::function<void(std::chrono::nanoseconds)> later);
  ~LaggingPods();
  LaggingPods(const LaggingPods&) = delete;
  LaggingPods& operator=(const LaggingPods&) = delete;

  // The pod that is behind; the one found before, for as long as it is. Nothing when there is none,
  // when it is still being looked for, when it is too early to look again (the more pods, the more
  // a look costs), or when they cannot be read. Makes no call.
  std::optional<desired::LaggingPod> Find(const DaemonSetPods& daemonset);
  // Nothing of that DaemonSet is behind: its pod is not watched any longer.
  void Forget(const std::string& daemonset);
  // The same for all DaemonSets but these.
  void Keep(const std::set<std::string>& daemonsets);

 private:
  using Watched = NamedObject<std::optional<desired::LaggingPod>>;
  struct Search {
    base::SteadyClock::time_point at;  // of the last look
    int in_vain = 0;                   // looks since the last one that found a pod
    bool looking = false;              // it is queued, or being looked at
    std::shared_ptr<Watched> pod;
  };
  void Work(const io::StopToken& stop);
  // One pod that is behind; none when all are ready.
  base::Result<std::optional<desired::LaggingPod>> Look(const DaemonSetPods& daemonset,
                                                        const io::StopToken& stop);
  // Ends a look, and watches the pod that it has found, if any.
  void Finish(const DaemonSetPods& daemonset, std::shared_ptr<Watched> pod);
  std::shared_ptr<Watched> Watch(const std::string& pod, const io::StopToken& stop);

  std::shared_ptr<kube::Client> client_;
  std::string operator_namespace_;
  std::function<void()> changed_;
  std::function<void(std::chrono::nanoseconds)> later_;
  std::mutex mutex_;
  std::condition_variable queued_;
  std::map<std::string, Search> searches_;  // by the DaemonSet's name
  std::deque<DaemonSetPods> queue_;
  bool ended_ = false;
  io::StopSource source_;
  std::jthread worker_;  // last: it uses all of the above
};

// How long to wait between two looks at the pods of a DaemonSet, `in_vain` of which have found none
// that is behind: from a second to five minutes.
std::chrono::milliseconds LookInterval(std::int64_t desired, int in_vain);

}  // namespace pitcrew::gpu_operator
