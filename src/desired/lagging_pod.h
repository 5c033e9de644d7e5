// Why a pod of a DaemonSet is behind, from what the kubelet and the scheduler say of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "codec/json.h"

namespace pitcrew::desired {

// A pod that is not ready.
struct LaggingPod {
  std::string name;
  std::string node;  // also before it is scheduled: a DaemonSet's pods are meant for one node
  std::string why;   // "container nvidia-driver-ctr: ImagePullBackOff: Back-off pulling image ..."

  bool operator==(const LaggingPod&) const = default;
};
// Nothing for a pod that is ready.
std::optional<LaggingPod> ReadLaggingPod(const codec::Json& pod);

// For this reason a container waits whose image the kubelet has not got, and tries again now and
// then.
bool IsPullTrouble(std::string_view reason);

}  // namespace pitcrew::desired
