// Brings the cluster to what NVIDIADriver objects say, and says in the status of each how far that
// is (reference operator-behaviour.md section 8). One object is one key.
//
// They are carried out while the active ClusterPolicy has useNvidiaDriverCRD. When it no longer
// has, their DaemonSets are deleted and the pods stay, as orphans; the same happens to the policy's
// own DaemonSet when it sets the field.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "desired/driver_objects/render.h"
#include "desired/driver_objects/status.h"
#include "desired/image.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "operator/policy/live_facts.h"
#include "operator/policy/status_writer.h"
#include "operator/roll_out/rollout.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

struct DriverControllerOptions {
  desired::DefaultImages images = {};
  // As in UpgradeController.
  std::function<std::string(const std::string&)> upgrade_stopped = [](const std::string&) {
    return "";
  };
  // As in PolicyController.
  std::chrono::milliseconds progress_interval = std::chrono::seconds(5);
  std::chrono::milliseconds refusal_retry = std::chrono::minutes(1);
  std::function<void()> synced = {};
};

class DriverController {
 public:
  // The world has a watch of NVIDIADrivers. All must outlive this object. World::Stop before this
  // object goes.
  DriverController(World& world, kube::EventRecorder& events, DriverControllerOptions options);

  base::Status Run(const io::StopToken& stop) { return controller_.Run(stop); }
  // Looks at every driver again.
  void EnqueueAllSoon();
  [[nodiscard]] kube::ControllerStatistics statistics() const { return controller_.statistics(); }

 private:
  // What became of the objects, and when to look again.
  struct Pass {
    desired::DriverOutcome outcome;
    desired::Retry retry = desired::Retry::kWhenChanged;
  };

  base::Result<kube::Action> Reconcile(const kube::ObjectKey& key, const io::StopToken& stop);
  Pass Look(const desired::DriverView& view, Rollout& rollout, const io::StopToken& stop);
  // Why the driver cannot have nodes of its own; none when it can.
  [[nodiscard]] std::optional<desired::DriverOutcome> Conflict(
      const desired::DriverView& view, const desired::DriverAssignment& assignment) const;
  // Nodes that the driver is for, and that do not have its owner label yet.
  [[nodiscard]] std::size_t NodesToCome(const std::string& driver,
                                        const desired::DriverAssignment& assignment) const;
  Pass RollOut(const desired::DriverView& view, const api::ClusterPolicy& policy, Rollout& rollout,
               const io::StopToken& stop);
  // The policy describes the driver again: DaemonSets go, pods stay.
  Pass HandBack(Rollout& rollout, const io::StopToken& stop);
  base::Result<desired::Facts> Facts(const io::StopToken& stop);
  [[nodiscard]] const desired::OwnedObject* Standing(const std::string& name);
  std::shared_ptr<Rollout> RolloutOf(const desired::DriverView& view);
  void Forget(const std::string& name);
  void WatchSources();

  World& world_;
  DriverControllerOptions options_;
  std::mutex mutex_;  // guards the map, not the roll-outs
  struct Own {
    std::string uid;
    std::shared_ptr<Rollout> rollout;
  };
  std::map<std::string, Own> rollouts_;                   // by name
  std::shared_ptr<const desired::OwnedObject> standing_;  // keeps what Standing gave alive
  kube::Controller controller_;
  StatusWriter status_writer_;
  // Its watches call the controller: they end first.
  LiveFacts facts_;
};

}  // namespace pitcrew::gpu_operator
