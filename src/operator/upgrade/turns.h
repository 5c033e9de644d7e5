// Which nodes have their turn: carries out what driver_upgrade/wave.h decides over all of them, and
// tells in metrics and in the policy's status what it is.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/result.h"
#include "desired/node.h"
#include "driver_upgrade/wave.h"
#include "io/stop.h"
#include "kube/store.h"
#include "operator/metrics/metrics.h"
#include "operator/upgrade/driver_pods.h"
#include "operator/upgrade/grants.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

inline constexpr std::string_view kUpgradePolicyPath = "spec.driver.upgradePolicy";

inline kube::ObjectKey KeyOfNode(const std::string& name) {
  return {.namespace_name = "", .name = name};
}

class Turns {
 public:
  // `stopped_changed` is called when what stopped() says has become something else, and must not
  // block. All must outlive this object.
  Turns(World& world, Metrics& metrics, const DriverPods& pods,
        std::function<void()> stopped_changed);

  // To be told of every change of a node, before anything is given. Whether it concerns the turns
  // of others.
  bool Note(const kube::Change<desired::Node>& change);

  // By one thread. Gives places away, takes those back that were given and not used where nothing
  // may begin any longer, and tells.
  struct Given {
    std::vector<std::string> nodes;
    std::optional<std::chrono::nanoseconds> look_again;  // there is another answer then
  };
  base::Result<Given> Give(const api::UpgradePolicy& policy, const io::StopToken& stop);
  // Nobody wants any upgrade; or what is wanted cannot be told, because of `why`.
  void GiveNone(const std::string& why = "");

  // Why no other node will begin until a person does something; "" normally. Any thread.
  [[nodiscard]] std::string stopped() const;
  // Places that have been given.
  [[nodiscard]] Grants& grants() { return grants_; }

 private:
  // Nodes that the limits look at, sorted.
  [[nodiscard]] std::set<std::string> Nodes() const;
  [[nodiscard]] std::vector<driver_upgrade::Member> Members(const api::UpgradeSchedule& schedule);
  // Whether the API server takes the selectors of the policy: "", or what it says about one.
  base::Result<std::string> CheckSelectors(const api::UpgradePolicy& policy,
                                           const io::StopToken& stop);
  void Measure(const driver_upgrade::Wave& wave);
  void SetStopped(const std::string& why);

  World& world_;
  Metrics& metrics_;
  const DriverPods& pods_;
  std::function<void()> stopped_changed_;
  Grants grants_;
  mutable std::mutex mutex_;
  // Nodes with a state. One whose driver pod is being replaced has none, and counts all the same.
  std::set<std::string> nodes_with_state_;
  std::string stopped_;
  std::string checked_selectors_;
  std::string selector_problem_;
  std::string held_;  // why none begins, as last told in the log
};

}  // namespace pitcrew::gpu_operator
