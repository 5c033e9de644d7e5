// What is wrong, how one knows, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "fleet/views.h"

namespace pitcrew::fleet {

struct Evidence {
  std::string object;  // "Pod gpu-operator/nvidia-driver-daemonset-x7f2p"
  std::string field;   // "container nvidia-driver-ctr", "label nvidia.com/gpu.present"
  std::string text;    // its value, or the words of the kubelet, the scheduler, a log
  Time at;             // when it was said; none when it is so now
};

struct Finding {
  std::string id;  // stable: "driver-image-not-found"; docs/troubleshooting.md lists them
  Stage stage = Stage::kReady;
  std::string object;   // what it is about: "Node gpu-b"
  std::string summary;  // one sentence without a full stop
  std::vector<Evidence> evidence;
  std::string fix;  // what to change or to run, one or more lines
  Time since;
};

}  // namespace pitcrew::fleet
