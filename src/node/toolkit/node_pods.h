// The operator's pods on this toolkit's node, and what a restart of the container engine does to
// them: a call of the kubelet that it breaks is repeated only 10 to 15 seconds later, unless the
// pod changes; then the kubelet tries at once.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "kube/client.h"

namespace pitcrew::node::toolkit {

// Annotation that is set on a pod to make the kubelet try it again; its value is the time.
inline constexpr std::string_view kRuntimeConfigured = "nvidia.com/gpu-operator.runtime-configured";

// How long the kubelet has after each change, until the pod is changed again. It connects again to
// a restarted engine after 0.1 s, 0.26 s, 0.5 s, 0.9 s, 1.6 s (gRPC's back-off with the kubelet's
// base of 100 ms), and every try before that fails at once. What still fails after all of them has
// another cause and is left to the kubelet.
inline const std::vector<std::chrono::milliseconds> kRetryPauses = {
    std::chrono::milliseconds(400), std::chrono::milliseconds(600), std::chrono::milliseconds(1000),
    std::chrono::milliseconds(2000), std::chrono::milliseconds(4000)};

// The UID of the pod that a process with this /proc/self/mountinfo is in, by what the kubelet
// mounts into each container (/etc/hosts, /dev/termination-log); "" when nothing tells.
std::string PodUidOf(std::string_view mountinfo);

class NodePods {
 public:
  // Pods of `namespace_name` that are on the node of the pod that this process is in, without that
  // one. It is the one named as the host; in the host's network that is the node's name, and the
  // pod is the one with `pod_uid` on it ("": not known). kNotFound when there is no such pod.
  // No wait below goes beyond `deadline`.
  static base::Result<NodePods> Find(std::shared_ptr<kube::Client> client,
                                     const std::string& namespace_name,
                                     const std::string& host_name, const std::string& pod_uid,
                                     const io::StopToken& stop, base::Deadline deadline = {});
  // The same with this pod's service account and name. No call goes beyond `deadline` either.
  static base::Result<NodePods> InCluster(const io::StopToken& stop, base::Deadline deadline = {});

  // Changes the pods that have a runtime class but no sandbox, until all have one, with the pauses
  // in between. Returns how many there were; kCancelled on stop.
  [[nodiscard]] base::Result<std::size_t> RetryWaiting(
      const std::vector<std::chrono::milliseconds>& pauses, const io::StopToken& stop) const;
  // Changes the pods that have a runtime class and are being deleted, until they are gone.
  [[nodiscard]] base::Result<std::size_t> RetryLeaving(
      const std::vector<std::chrono::milliseconds>& pauses, const io::StopToken& stop) const;
  // Waits until no pod with a runtime class is being deleted; kTimeout at the deadline.
  [[nodiscard]] base::Status AwaitLeaving(const io::StopToken& stop,
                                          base::SteadyClock::time_point deadline) const;
  // Whether another pod of the same DaemonSet takes the place of `own_pod` (successor.h); an error
  // when that cannot be known.
  [[nodiscard]] base::Result<bool> HasSuccessor(const io::StopToken& stop) const;

 private:
  enum class State { kWaiting, kLeaving };

  NodePods(std::shared_ptr<kube::Client> client, std::string namespace_name, std::string own_pod,
           std::string node, base::Deadline deadline)
      : client_(std::move(client)),
        namespace_(std::move(namespace_name)),
        own_pod_(std::move(own_pod)),
        node_(std::move(node)),
        deadline_(deadline) {}
  [[nodiscard]] bool IsIn(State state, const codec::Json& pod) const;
  [[nodiscard]] base::Status AwaitNone(State state, const io::StopToken& stop,
                                       base::SteadyClock::time_point deadline) const;
  [[nodiscard]] base::Result<std::size_t> Retry(
      State state, const std::vector<std::chrono::milliseconds>& pauses,
      const io::StopToken& stop) const;
  // One that has gone is no error.
  [[nodiscard]] base::Status Change(const kube::ObjectKey& pod, const io::StopToken& stop) const;

  std::shared_ptr<kube::Client> client_;
  std::string namespace_;
  std::string own_pod_;
  std::string node_;
  base::Deadline deadline_;
};

}  // namespace pitcrew::node::toolkit
