// Looks at the images of a new driver's pod on one node of each kind before the first of them
// begins (driver_upgrade/image_check.h): makes the pods, reads what they say, and takes them away.
//
// What is being found out stands in the cluster: another operator finds the pods under their names.
// What has been found out is kept in memory; that a node runs the new driver says it too.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "desired/node.h"
#include "driver_upgrade/image_check.h"
#include "driver_upgrade/wave.h"
#include "io/stop.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "kube/informer.h"
#include "operator/upgrade/driver_pods.h"
#include "operator/watches/world.h"
#include "prom/exposition.h"

namespace pitcrew::gpu_operator {

// But for Watch and Expose for one thread: the wave's, which goes over all nodes in one pass, from
// BeginPass to EndPass.
class ImageChecks {
 public:
  // All must outlive this object.
  ImageChecks(World& world, kube::EventRecorder& events, const DriverPods& pods);

  // Makes the watch a source of the controller. `changed` is called when a pod says something else.
  void Watch(kube::Controller& controller, std::function<void()> changed);

  void BeginPass(base::WallClock::time_point now);
  // Sets what has to be looked at before the node begins.
  void LookAt(const desired::Node& node, const DriverPods::View& view,
              driver_upgrade::Member& member);
  // When all nodes of a pool have been looked at: sets what is known.
  void Answer(std::vector<driver_upgrade::Member>& members);
  // Wave::to_check.
  base::Status Start(const std::vector<std::string>& nodes, const io::StopToken& stop);
  // Takes away the pods that nobody waits for. When there is another answer although nothing else
  // has changed.
  std::optional<std::chrono::nanoseconds> EndPass(const io::StopToken& stop);

  // Adds the watch and its store.
  void Expose(prom::Exposition& exposition) const;

 private:
  using Pod = driver_upgrade::ImageCheckPodView;

  // What is wanted to be known, by the name of its pod.
  struct Question {
    std::string daemonset;
    std::string daemonset_uid;
  };
  // What was found last.
  struct Trouble {
    std::string text = {};
    std::string container = {};

    bool operator==(const Trouble&) const = default;
  };
  [[nodiscard]] bool IsAnswered(const std::string& name) const {
    return proven_.contains(name) || given_up_.contains(name);
  }
  // Reads the pod of that name, if there is one. Its node, while it is of use.
  std::string Read(const std::string& name);
  void Note(const Pod& pod, const driver_upgrade::ImageVerdict& verdict);
  base::Status StartOn(const std::string& node, const std::string& name, const Question& question,
                       const io::StopToken& stop);
  void GiveUp(const std::string& name, const std::string& node, const std::string& why);
  void Tell(const std::string& node, const std::string& message);
  void LookAgainAt(base::WallClock::time_point time);

  World& world_;
  kube::EventRecorder& events_;
  const DriverPods& pods_;
  std::function<void()> changed_;

  // By the name of the pod:
  std::set<std::string, std::less<>> proven_;
  std::set<std::string, std::less<>> given_up_;
  std::map<std::string, Trouble, std::less<>> trouble_;
  std::map<std::string, base::WallClock::time_point, std::less<>> started_;  // not seen yet

  // Of the present pass.
  base::WallClock::time_point now_;
  std::map<std::string, Question, std::less<>> questions_;
  std::map<std::string, std::string, std::less<>> name_of_node_;
  std::map<std::string, std::string, std::less<>> read_;  // name to node of pods that are of use
  std::optional<base::WallClock::time_point> look_again_;

  // Its thread uses the above: it ends first.
  kube::Informer<Pod> watch_;
};

}  // namespace pitcrew::gpu_operator
