// Keeps permittedHostDevices of KubeVirt or HyperConverged equal to what nodes offer to virtual
// machines (kubevirt/decision.h says what is ours, and when it goes). Off unless it is asked for
// (--manage-kubevirt): the chart gives the rights for it only then.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/device_names.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "kubevirt/decision.h"
#include "operator/permitted_devices/machine_watches.h"
#include "operator/watches/world.h"

namespace pitcrew::gpu_operator {

struct PermittedDeviceOptions {
  // After which the device plugins name resources. Null: permitted devices are not managed.
  std::shared_ptr<const gpu::DeviceNames> names;
  // How long an entry must have been unused before it goes: a node that is installed anew has no
  // Node object for so long.
  std::chrono::milliseconds grace = std::chrono::minutes(10);
};

class PermittedDeviceController {
 public:
  // World::Stop before this object goes.
  PermittedDeviceController(World& world, kube::EventRecorder& events,
                            PermittedDeviceOptions options);

  base::Status Run(const io::StopToken& stop);
  [[nodiscard]] kube::ControllerStatistics statistics() const { return controller_.statistics(); }

 private:
  using Target = MachineWatches::Target;
  // Of one object and resource: since when this process has seen that nobody wants it.
  using UnusedSince = std::map<std::pair<std::string, std::string>, base::SteadyClock::time_point>;

  base::Result<kube::Action> Reconcile(const io::StopToken& stop);
  base::Result<kube::Action> ReconcileTarget(const Target& target, const kubevirt::Facts& facts,
                                             const io::StopToken& stop);
  base::Status Write(const Target& target, const kubevirt::Facts& facts,
                     const std::set<std::string>& expired, const io::StopToken& stop);
  // Resources whose entries have been unused for the grace period.
  std::set<std::string> Expired(const std::string& uid) const;
  // Notes which entries are unused now. When the next one expires.
  kube::Action NoteUnused(const std::string& uid, const std::vector<kubevirt::Entry>& unused);
  // In log and Events, once for as long as it stays so.
  void Tell(const Target& target, const std::vector<kubevirt::Obstacle>& obstacles);
  void TellChange(const Target& target, const kubevirt::Decision& decision);
  void TellOnce(std::string& told, const base::Error& error);
  kubevirt::Facts FactsNow(std::vector<kubevirt::MachineNode> nodes) const;

  World& world_;
  kube::EventRecorder& events_;
  PermittedDeviceOptions options_;
  // Of the controller's one worker.
  UnusedSince unused_since_;
  std::map<std::string, std::vector<kubevirt::Obstacle>> told_;  // by uid
  std::string told_trouble_;
  kube::Controller controller_;
  MachineWatches watches_;  // after the controller, whose queue its handlers fill
};

}  // namespace pitcrew::gpu_operator
