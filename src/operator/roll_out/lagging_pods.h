// Which pod of a DaemonSet is behind, and why. Pods are not kept in memory: 10,000 nodes have
// 100,000 of them. One is looked for when a DaemonSet is behind, and then watched by its name until
// it is ready; so what is said about it is as new as its status, and stays the same pod meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

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

// Used by one thread.
class LaggingPods {
 public:
  // `changed`: what Find says may have become something else; called from threads of watches.
  // `later`: ask again after that time; called from Find.
  LaggingPods(std::shared_ptr<kube::Client> client, std::string operator_namespace,
              std::function<void()> changed, std::function<void(std::chrono::nanoseconds)> later);

  // The pod that is behind; the one found before, for as long as it is. Nothing when there is none,
  // when it is too early to look again (the more pods, the more a look costs), or when they cannot
  // be read.
  std::optional<desired::LaggingPod> Find(const DaemonSetPods& daemonset,
                                          const io::StopToken& stop);
  // Nothing of that DaemonSet is behind: its pod is not watched any longer.
  void Forget(const std::string& daemonset);
  // The same for all DaemonSets but these.
  void Keep(const std::set<std::string>& daemonsets);

 private:
  struct Search {
    base::SteadyClock::time_point at;  // of the last look
    int in_vain = 0;                   // looks since one was found
    std::unique_ptr<NamedObject<std::optional<desired::LaggingPod>>> pod;
  };
  base::Result<std::optional<desired::LaggingPod>> Look(const DaemonSetPods& daemonset,
                                                        const io::StopToken& stop);

  std::shared_ptr<kube::Client> client_;
  std::string operator_namespace_;
  std::function<void()> changed_;
  std::function<void(std::chrono::nanoseconds)> later_;
  std::map<std::string, Search> searches_;
};

// How long to wait between two looks at the pods of a DaemonSet, `in_vain` of which have found none
// that is behind: from a second to five minutes.
std::chrono::milliseconds LookInterval(std::int64_t desired, int in_vain);

}  // namespace pitcrew::gpu_operator
