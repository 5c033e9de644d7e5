// Which nodes have their turn: carries out what driver_upgrade/wave.h decides over the nodes of
// each pool, and tells in metrics and in the statuses of policy and drivers what it is.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/clock.h"
#include "base/result.h"
#include "desired/node.h"
#include "driver_upgrade/wave.h"
#include "io/stop.h"
#include "kube/store.h"
#include "operator/metrics/metrics.h"
#include "operator/upgrade/driver_pods.h"
#include "operator/upgrade/grants.h"
#include "operator/upgrade/image_checks.h"
#include "operator/upgrade/node_event.h"
#include "operator/upgrade/pools.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

class Turns {
 public:
  // `told_changed` is called when what stopped() or incomplete() say has become something else, and
  // must not block. All must outlive this object.
  Turns(World& world, Metrics& metrics, const DriverPods& pods, ImageChecks& image_checks,
        std::function<void()> told_changed);

  // To be told of every change of a node, before anything is given. Whether it concerns the turns
  // of others.
  bool Note(const kube::Change<desired::Node>& change);

  // An image that a node under way cannot get for its new driver's pod.
  struct MissingImage {
    std::string image = {};  // "": none
    std::string container = {};
    std::string version = {};  // of the pod

    bool operator==(const MissingImage&) const = default;
  };
  // To be told of each. Whether that is news. Any thread.
  bool NoteMissingImage(const std::string& node, const MissingImage& missing);

  // By one thread, for all pools. Gives places away, takes those back that were given and not used
  // where nothing may begin any longer, and tells. What cannot be found out about one pool stops no
  // other.
  struct Given {
    std::vector<std::string> nodes;
    std::optional<std::chrono::nanoseconds> look_again;  // there is another answer then
    // Nodes whose metrics exporter is of interest, and those of them to look at now.
    std::set<std::string> followed = {};
    std::vector<std::string> looks = {};

    // Of several times the first; one that is over is now.
    void LookAgainIn(std::chrono::nanoseconds delay) {
      delay = std::max<std::chrono::nanoseconds>(delay, std::chrono::milliseconds(1));
      look_again = look_again ? std::min(*look_again, delay) : delay;
    }
  };
  base::Result<Given> Give(const std::vector<UpgradePool>& pools, const io::StopToken& stop);

  // Why no other node of the pool will begin until a person does something; "" normally. Any
  // thread. `driver` as in UpgradePool.
  [[nodiscard]] std::string stopped(const std::string& driver) const;
  // Whether a node of a NVIDIADriver waits for its upgrade, is under way or has failed
  // (driver-lifecycle.md section 2.18). Any thread.
  [[nodiscard]] bool incomplete() const;
  // Places that have been given.
  [[nodiscard]] Grants& grants() { return grants_; }

 private:
  // What is remembered of a pool.
  struct Lane {
    std::string stopped;
    std::string checked_selectors;
    std::string selector_problem;
    std::string held;  // why none begins, as last told in the log
  };
  // Nodes that the limits look at, sorted.
  [[nodiscard]] std::set<std::string> Nodes() const;
  [[nodiscard]] std::vector<driver_upgrade::Member> Members(const std::set<std::string>& nodes,
                                                            const UpgradePool& pool);
  using MissingImages = std::map<std::string, MissingImage>;
  void LookAtPods(const UpgradePool& pool, const MissingImages& missing_images,
                  const desired::Node& node, driver_upgrade::Member& member) const;
  [[nodiscard]] bool ChecksImages(const UpgradePool& pool) const {
    return pool.enabled && !pool.unclear && pool.policy.image_check;
  }
  // Of one pass.
  struct Sum {
    driver_upgrade::Wave wave = {};
    std::vector<HeldUpgrades> held = {};
  };
  base::Status GiveIn(const UpgradePool& pool, const std::vector<driver_upgrade::Member>& members,
                      Given& given, Sum& sum, const io::StopToken& stop);
  static void AddLooks(const UpgradePool& pool, const std::vector<driver_upgrade::Member>& members,
                       base::WallClock::time_point now, Given& given);
  void TakeBack(const std::vector<driver_upgrade::Member>& members);
  // Whether the API server takes the selectors of the policy: "", or what it says about one.
  base::Result<std::string> CheckSelectors(const UpgradePool& pool, Lane& lane,
                                           const io::StopToken& stop);
  void Measure(const Sum& sum);
  void SetStopped(const std::string& driver, const std::string& why);

  World& world_;
  Metrics& metrics_;
  const DriverPods& pods_;
  ImageChecks& image_checks_;
  std::function<void()> told_changed_;
  Grants grants_;
  mutable std::mutex mutex_;
  // Nodes with a state. One whose driver pod is being replaced has none, and counts all the same.
  std::set<std::string> nodes_with_state_;
  std::set<std::string> incomplete_;   // nodes of NVIDIADrivers
  MissingImages missing_images_;       // by node
  std::map<std::string, Lane> lanes_;  // by driver; only `stopped` is read by other threads
};

}  // namespace pitcrew::gpu_operator
