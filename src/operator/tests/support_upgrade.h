// Upgrades of drivers on a real kube-apiserver: the tests play the DaemonSet controller, the
// garbage collector and the kubelet, for the pods of drivers and of the validator.
#pragma once

#include <gmock/gmock.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "driver_upgrade/pods.h"
#include "kube/informer.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {

// Every value of a node's label that the API server has had, in order; "" for none.
class LabelHistory {
 public:
  explicit LabelHistory(const std::shared_ptr<kube::Client>& client);
  // Up to now: waits until the watch has told what a read of the node shows.
  [[nodiscard]] std::vector<std::string> Of(const std::string& node) const;
  // The most nodes that were in states between cordon-required and uncordon-required at one time.
  [[nodiscard]] int MostUnderWay() const;

 private:
  struct Seen {
    std::string state;
    std::uint64_t version = 0;  // of the node
    bool operator==(const Seen&) const = default;
  };
  static base::Result<Seen> Read(const Json& node);

  std::shared_ptr<kube::Client> client_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, std::vector<std::string>> values_;
  std::map<std::string, std::uint64_t> versions_;  // the newest that was told, by node
  std::set<std::string> under_way_;
  int most_ = 0;
  kube::Informer<Seen> informer_;  // last: its thread uses the rest
};

class UpgradeTest : public OperatorTest {
 protected:
  void SetUp() override;

  // A node of this test with a GPU, whose pods are played from now on. Returns its name.
  std::string AddNode(const std::string& name);
  // The policy, with these members of driver.upgradePolicy beside autoUpgrade.
  void CreateUpgradePolicy(const std::string& upgrade_policy_yaml = "{}");
  // Another version of the driver; returns when its DaemonSet has it.
  void ChangeDriver(const std::string& version);
  // A change of the pod template that leaves the driver's configuration as it is.
  void ChangeTemplateOnly();

  // Returns when a DaemonSet of that owner has the text in its template.
  void AwaitTemplateWith(const std::string& text, const std::string& owner = "cluster-policy");
  [[nodiscard]] std::vector<Json> DriverDaemonSets() const;
  // Those that are for the node, and stay; there are several while one takes another's place.
  [[nodiscard]] std::vector<Json> DaemonSetsFor(const std::string& node) const;
  // The first of them.
  [[nodiscard]] std::optional<Json> DaemonSetFor(const std::string& node) const;

  // What the DaemonSet controller, the garbage collector and the kubelet would do now.
  void Play();
  bool Reaches(const std::string& node, const std::string& state);
  // All nodes are done with the newest template.
  bool Settles();
  void CreatePod(const std::string& name, const std::string& node, const Json& metadata,
                 const Json& container, const Json& spec = Json::object());
  // Pods of image checks, and the nodes that they are on.
  [[nodiscard]] std::vector<std::string> ImageChecks() const;
  // One that uses a GPU, of a controller or of none.
  void CreateGpuPod(const std::string& name, const std::string& node, bool controlled = true);
  // A budget that lets pods with this name as label `app` go, or not.
  void Allow(const std::string& app, int disruptions);
  void SetNode(const std::string& node, const Json& patch);
  // The pods are played, and then the operator looks at the node for a change that says nothing:
  // what it would do by now it has done.
  [[nodiscard]] bool IsLookedAtAgain(const RunningOperator& running, const std::string& node);
  [[nodiscard]] bool IsCordoned(const std::string& node) const;
  // What stands there of the node's driver, for a test that fails.
  [[nodiscard]] std::string DriverOf(const std::string& node) const;
  [[nodiscard]] std::string StateOf(const std::string& node) const;
  // Keys of nvidia.com/gpu-driver-upgrade annotations, but for "-enabled" and "-last".
  [[nodiscard]] std::vector<std::string> Traces(const std::string& node) const;
  [[nodiscard]] std::vector<std::string> EventsOf(const std::string& node) const;

  std::vector<std::string> nodes_;
  std::set<std::string> no_pods_;      // nodes whose driver pod does not come back
  std::set<std::string> bad_drivers_;  // nodes on which the driver does not start
  std::set<std::string> no_image_;     // nodes that cannot get the image of a new driver pod
  std::string bad_image_;              // what stands in the names of images that nobody can get
  std::map<std::string, std::string> preflights_;  // what the image check says at its end, by node
  std::set<std::string> no_answers_;      // nodes on which nobody starts the pod of an image check
  std::set<std::string> bad_validators_;  // nodes whose validator is not ready
  // The garbage collector, which takes pods and revisions in any order, is not at the pods yet.
  bool frees_only_revisions_ = false;

 private:
  // Its driver pod is of the newest revision of the DaemonSet that is for the node.
  bool HasNewestDriver(const std::string& node);
  // The driver of one node, for all DaemonSets that stand.
  void PlayNode(const std::string& node);
  // Another DaemonSet that does not select the node ends a pod that it has, or adopts.
  bool EndPodOfOthers(const std::string& node);
  // Pods whose DaemonSet is gone go with it.
  void EndDependents();
  // The pod of one DaemonSet on one node: made, adopted, or waiting until the one before is gone.
  void PlayDriver(const Json& daemonset, const std::string& node);
  void EndWaiting(const std::string& node);
  // Leaves pods of DaemonSets that were deleted without them.
  void PlayGarbageCollector();
  // The newest revision that is still the DaemonSet's has no owner any more.
  void FreeRevisions(const Json& daemonset);
  void SetReady(const Json& pod, bool ready);
  void SetWithoutImage(const Json& pod);
  // As the kubelet ends a pod that is to go; so one whose deletion was cut off, with the operator
  // that asked for it, between the API server's two steps. Whether it was to go.
  bool TakeAwayIfGoing(const Json& pod);
  void PlayImageCheck(const Json& pod);
  std::string PlayRevision(const Json& daemonset);
  void SetBudget(const std::string& app, int disruptions);

  std::map<std::string, int> budgets_;                    // disruptions that a budget allows
  std::map<std::string, std::string> standing_template_;  // uid of a DaemonSet: newest revision
};

// What a node goes through whose pods all go.
inline const std::vector<std::string> kWholeWay = {
    "upgrade-required",      "cordon-required",      "wait-for-jobs-required",
    "pod-deletion-required", "pod-restart-required", "validation-required",
    "uncordon-required",     "upgrade-done"};

}  // namespace pitcrew::gpu_operator::testing
