// The image check: before the first node of a kind gives its pods up for a new version of its
// driver, a pod there proves that all images of the driver's pod can be had, and, where the
// driver's own has Pitcrew's program, that the driver would come up. What such a pod is, and what
// it says. Pure.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::driver_upgrade {

// Label `app` of the pods of image checks. They have none of a DaemonSet's labels: nobody takes
// them for pods of the driver.
inline constexpr std::string_view kImageCheckApp = "nvidia-driver-image-check";

// How long a pod may be without a word of the kubelet, may be made (its image is fetched then), and
// may run, before the check is given up.
inline constexpr std::chrono::minutes kUntilSeen{2};
inline constexpr std::chrono::minutes kUntilFetched{30};
inline constexpr std::chrono::minutes kUntilEnded{2};
// What a node lacks is looked at again after so long.
inline constexpr std::chrono::minutes kUntilRepeated{10};

// The same text for nodes that one answer holds for, where their driver comes from the same version
// of a DaemonSet: those of one kernel, system and architecture. `label` gives the value of a key.
std::string KindOfNode(const std::function<std::string_view(std::string_view key)>& label);

// Name of the pod: the same for all nodes of a kind, and whoever asks.
std::string ImageCheckName(std::string_view daemonset_uid, std::string_view revision,
                           std::string_view kind_of_node);

// The pod: the driver's container of the DaemonSet's template, which says what it would do and
// changes nothing, and one that ends at once for each other image of the template; without folders
// of the node (but Red Hat's subscription, which is read) and without resources, so that it fits
// beside all that runs there. kNotFound when the
// DaemonSet has no container of the driver.
base::Result<codec::Json> ImageCheckPod(const codec::Json& daemonset, const std::string& name,
                                        const std::string& node);

// The block of a ClusterPolicy, or of a NVIDIADriver, that chooses the image of a container of the
// driver's pod ("spec.gds"); for one that neither chooses, what does.
std::string ImageChooserOf(std::string_view container, bool of_driver_object);

struct ImageCheckContainerView {
  std::string name = {};
  std::string image = {};
  std::string state = {};    // waiting, running, terminated; "" for none
  std::string reason = {};   // why it waits, or has ended
  std::string message = {};  // likewise, or what it has left at its end
  std::optional<base::WallClock::time_point> since = {};  // it runs, or has ended

  bool operator==(const ImageCheckContainerView&) const = default;
};

struct ImageCheckPodView {
  std::string name;
  std::string uid = {};
  std::string node;
  std::string daemonset = {};  // name of its owner
  bool deleting = false;
  std::optional<base::WallClock::time_point> gone_by = {};  // of one that is to go
  base::WallClock::time_point created;
  std::string phase;
  std::string reason = {};   // of a pod that has failed
  std::string message = {};  // likewise
  std::vector<ImageCheckContainerView> containers = {};

  bool operator==(const ImageCheckPodView&) const = default;
};
base::Result<ImageCheckPodView> ReadImageCheckPod(const codec::Json& object);

struct ImageVerdict {
  enum class State {
    kUnderWay,
    kGood,     // the image can be had, and nothing is missing that it tells of
    kNoImage,  // it cannot be had; the kubelet tries again
    kMissing,  // the driver would not come up, for want of what `says` names
    kUnknown,  // nobody can tell; `says` why
  };
  State state = State::kUnderWay;
  std::string says = {};
  std::string container = {};  // of kNoImage and kMissing: whose image it is
  // The kubelet says no more than that it will try again: what it said before still holds.
  bool between_tries = false;
  // There is another verdict then, although the pod is the same. Of what a container has left at
  // its end: it is to be made anew then.
  std::optional<base::WallClock::time_point> until = std::nullopt;

  bool operator==(const ImageVerdict&) const = default;
};
ImageVerdict JudgeImage(const ImageCheckPodView& pod, base::WallClock::time_point now);

// For a wave: why nodes of the pod's kind do not begin, as a sentence without a full stop; "" for
// verdicts that hold none up. Of several containers the first is told.
std::string TroubleOf(const ImageCheckPodView& pod, const ImageVerdict& verdict);

}  // namespace pitcrew::driver_upgrade
