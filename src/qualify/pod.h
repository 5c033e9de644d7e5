// The pod that qualifies the GPUs of a node. It is made from the validator's DaemonSet, so that it
// has the same image, rights, runtime class and secrets, and goes with the same ClusterPolicy.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::qualify {

inline constexpr std::string_view kApp = "nvidia-qualification";  // label app

struct PodRequest {
  std::string node;
  std::string memory = {};    // "": the program's default
  std::string deadline = {};  // "": the program's default
  bool even_if_used = false;
};

// kInvalid "NotAValidator" for a DaemonSet without the container that gets the node's GPUs.
base::Result<codec::Json> MakePod(const PodRequest& request, const codec::Json& daemon_set);

// What a pod's status says about its end.
struct Progress {
  std::string phase;
  std::string detail;  // what holds it up, in words; "" when nothing does
  bool operator==(const Progress&) const = default;

  [[nodiscard]] bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
};
Progress ProgressOf(const codec::Json& pod);

}  // namespace pitcrew::qualify
