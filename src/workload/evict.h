// Sending pods away: through the eviction API, so that disruption budgets count, and until they are
// gone (driver-lifecycle.md 3).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"
#include "kube/retry.h"
#include "workload/drain.h"

namespace pitcrew::workload {

struct EvictOptions {
  base::Deadline deadline;
  // How long one request to evict a pod may take, and the pauses before it is asked again.
  std::chrono::milliseconds answer_timeout = std::chrono::seconds(30);
  kube::BackoffPolicy pauses = kube::RetryPolicy().backoff;
  // Told once about each pod that a disruption budget holds back, on a thread of its own.
  std::function<void(const kube::ObjectKey& pod, const base::Error& why)> held_up;
};

// Evicts all of them at once, each with its own grace period, and waits until the objects with
// these uids are gone from the node. A budget that refuses (429) is asked again after the server's
// Retry-After, for each pod by itself; a server that does not answer a few times more, and one that
// has met another change (409) while the pod is there. A pod that is gone already is a success.
//
// The error names every pod that was not evicted: kTimeout "PodsNotGone" at the deadline,
// kCancelled on stop, else "PodsNotEvicted" with the code of what the server said: kUnavailable
// where it could not be asked.
base::Status EvictPods(const std::shared_ptr<kube::Client>& client, const std::string& node,
                       const std::vector<PodReference>& pods, const EvictOptions& options,
                       const io::StopToken& stop);

}  // namespace pitcrew::workload
