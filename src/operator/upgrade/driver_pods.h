// What is seen of drivers in the cluster: their DaemonSets with the revisions of these, their pods,
// and the pods that prove them, by node.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/recomputed.h"
#include "base/result.h"
#include "driver_upgrade/pods.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "operator/upgrade/by_node.h"
#include "operator/watches/world.h"
#include "prom/exposition.h"

namespace pitcrew::gpu_operator {

// Thread-safe.
class DriverPods {
 public:
  // `world` must outlive this object.
  explicit DriverPods(World& world);

  // Makes the watches sources of the controller. `changed` is called with a node about which
  // something else is seen, `members_changed` when a driver pod has come or gone; both from the
  // watches' threads.
  void Watch(kube::Controller& controller, std::function<void(const std::string&)> changed,
             std::function<void()> members_changed);

  // A node's.
  struct View {
    std::shared_ptr<const driver_upgrade::DriverPod> pod;  // null when it has none
    driver_upgrade::Sync sync = driver_upgrade::Sync::kUnknown;
    std::string newest_revision;  // Templates::NewestOf
    bool restarts_only = false;   // Templates::RestartsOnly
    // The pod of a DaemonSet that waits for the place of `pod`; null when there is none.
    std::shared_ptr<const driver_upgrade::DriverPod> waiting;
    driver_upgrade::Succession succession = driver_upgrade::Succession::kNone;
    int validators = 0;
    int validators_ready = 0;
    void Count(const driver_upgrade::ValidatorPod& validator) {
      ++validators;
      if (validator.ready) ++validators_ready;
    }

    // The driver is of the newest version and works, as far as pods tell.
    [[nodiscard]] bool IsReady() const {
      return sync == driver_upgrade::Sync::kInSync && pod->ready && !pod->deleting &&
             validators == validators_ready;
    }
  };
  [[nodiscard]] View Of(const std::string& node) const;
  // Name of the pod's DaemonSet; "" when it is not known.
  [[nodiscard]] std::string DaemonSetOf(const driver_upgrade::DriverPod& pod) const {
    return templates_.Get()->DaemonSetOf(pod);
  }
  // With a driver pod, sorted.
  [[nodiscard]] std::vector<std::string> Nodes() const { return driver_pods_.Nodes(); }

  // Of() where fresh reads agree that the pod is outdated; else kUnknown stands for it, until the
  // watches have caught up. They do not tell in the order in which things happened: of a DaemonSet
  // that is deleted without its pods, the garbage collector frees pods and revisions in any order,
  // and a pod that still has its owner looks outdated when the newest revision has none. Reads once
  // per version of a DaemonSet.
  base::Result<View> ConfirmedViewOf(const std::string& node, const io::StopToken& stop);
  // The view with the node's validators by a fresh read: a watch that is silent would have the one
  // that found the former driver in order say so of the new one.
  base::Result<View> WithValidatorsRead(View view, const std::string& node,
                                        const io::StopToken& stop) const;

  // Whether the pod is of a former version of a DaemonSet that stays, by fresh reads.
  base::Result<bool> IsOutdated(const driver_upgrade::DriverPod& pod,
                                const io::StopToken& stop) const;

  // Hands the orphaned driver pod of the node over to the DaemonSet that waits for its place, if
  // fresh reads still say that it would run the same driver. Name of that DaemonSet; "" when
  // nothing has been done.
  base::Result<std::string> HandOver(const std::string& node, const io::StopToken& stop) const;

  // Adds the watches and their stores.
  void Expose(prom::Exposition& exposition) const;

 private:
  void ReadTemplates();
  // The newest version of the pod's DaemonSet by fresh reads; "" when it goes, or is gone.
  base::Result<std::string> ReadNewest(const driver_upgrade::DriverPod& pod,
                                       const io::StopToken& stop) const;
  // The DaemonSet with its revisions by a fresh read.
  base::Result<driver_upgrade::Templates> ReadRevisions(
      const driver_upgrade::DriverDaemonSet& daemonset, const io::StopToken& stop) const;

  World& world_;
  std::function<void(const std::string&)> changed_;
  ByNode<driver_upgrade::DriverPod, &driver_upgrade::DriverPod::node> driver_pods_;
  ByNode<driver_upgrade::DriverPod, &driver_upgrade::DriverPod::waits_for> waiting_pods_;
  ByNode<driver_upgrade::ValidatorPod, &driver_upgrade::ValidatorPod::node> validator_pods_;
  base::Recomputed<driver_upgrade::Templates> templates_;
  std::mutex confirmed_mutex_;
  std::map<std::string, std::string> confirmed_;  // uid of a DaemonSet: its newest version, as read
  // Their threads use all of the above: they end first.
  kube::Informer<driver_upgrade::DriverDaemonSet> daemonset_watch_;
  kube::Informer<driver_upgrade::Revision> revision_watch_;
  kube::Informer<driver_upgrade::DriverPod> driver_pod_watch_;
  kube::Informer<driver_upgrade::ValidatorPod> validator_pod_watch_;
};

}  // namespace pitcrew::gpu_operator
