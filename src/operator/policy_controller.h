// Brings the cluster to what the active ClusterPolicy says, and says in its status how far that is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "operator/image.h"
#include "operator/metrics.h"
#include "operator/rollout.h"
#include "operator/status.h"
#include "operator/world.h"

namespace pitcrew::gpu_operator {

class PolicyController {
 public:
  // `removals_held` as in NodeController. All must outlive this object.
  PolicyController(World& world, DefaultImages images, Metrics& metrics,
                   kube::EventRecorder& events, std::function<std::string()> removals_held);

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }

 private:
  // Status as it was written last, until the watch has told of it.
  struct WrittenStatus {
    codec::Json status;
    std::uint64_t version = 0;
  };

  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop);
  base::Result<kube::Action> ReconcileActive(const PolicyView& view, const io::StopToken& stop);
  PolicyOutcome Pass(const PolicyView& view, const io::StopToken& stop);
  base::Result<Facts> GatherFacts(const api::ClusterPolicy& policy, const io::StopToken& stop);
  base::Status LabelNamespace(const api::ClusterPolicy& policy, const Facts& facts,
                              const io::StopToken& stop);
  base::Status WriteStatus(const PolicyView& view,
                           const std::function<codec::Json(const codec::Json& previous)>& make,
                           const io::StopToken& stop);
  void Tell(const PolicyView& view, const codec::Json& before, const codec::Json& after);
  void Measure(const PolicyView& view, const PolicyOutcome& outcome);
  void MeasureDriverToolkit(const api::ClusterPolicy& policy, const Facts& facts);
  void EnqueuePolicies();
  void EnqueuePoliciesSoon();
  void WatchSources();

  World& world_;
  DefaultImages images_;
  Metrics& metrics_;
  kube::EventRecorder& events_;
  std::function<std::string()> removals_held_;
  std::map<std::string, WrittenStatus> written_;  // by policy uid
  std::string labelled_namespace_for_;            // uid and generation of the policy
  std::mutex rollout_mutex_;                      // guards the pointer, not the rollout
  std::shared_ptr<Rollout> rollout_;
  std::string rollout_uid_;
  kube::Controller controller_;
};

}  // namespace pitcrew::gpu_operator
