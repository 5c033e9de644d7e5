#include "operator/runner.h"

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "kube/events.h"
#include "kube/leader.h"
#include "operator/node_controller.h"
#include "operator/policy_controller.h"
#include "operator/world.h"

namespace pitcrew::gpu_operator {
namespace {

// Asks until the server answers: an operator that starts before its API server waits for it.
base::Result<ClusterIdentity> WaitForIdentity(kube::Client& client, const io::StopToken& stop) {
  std::chrono::milliseconds delay{200};
  while (true) {
    auto identity = ReadClusterIdentity(client, stop);
    if (identity || identity.error().code == base::Code::kCancelled) return identity;
    base::LogWarning("the cluster cannot be looked at yet", identity.error());
    if (stop.WaitFor(delay)) return identity;
    delay = std::min(delay * 2, std::chrono::milliseconds(5000));
  }
}

}  // namespace

base::Status RunControllers(const std::shared_ptr<kube::Client>& client,
                            const RunnerOptions& options, Metrics& metrics,
                            const io::StopToken& stop) {
  TRY_ASSIGN(const auto identity, WaitForIdentity(*client, stop));
  base::LogInfo("cluster", {{"kubernetes", identity.kubernetes_version},
                            {"openshift", identity.openshift_version},
                            {"namespace", options.operator_namespace}});
  World world(client, options.operator_namespace, identity);
  kube::EventRecorder events(client, "nvidia-gpu-operator", kube::MakeLeaderIdentity());
  NodeController nodes(world, options.removal_grace);
  PolicyController policies(world, options.images, metrics, events,
                            [&] { return nodes.removals_held(); });

  // Whoever ends first, by the stop or by an error, ends the other.
  io::StopSource source;
  const std::jthread relay([&] {
    if (const auto waited = io::WaitReadable({source.token().fd()}, stop); !waited) source.Stop();
  });
  base::Status node_status;
  {
    const std::jthread node_thread([&] {
      node_status = nodes.Run(source.token());
      source.Stop();
    });
    const base::Status policy_status = policies.Run(source.token());
    source.Stop();
    if (!policy_status && policy_status.error().code != base::Code::kCancelled) {
      return policy_status;
    }
  }
  if (!node_status && node_status.error().code != base::Code::kCancelled) return node_status;
  return {};
}

}  // namespace pitcrew::gpu_operator
