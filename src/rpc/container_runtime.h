// The container runtime's side of the kubelet's Container Runtime Interface (CRI), as far as we ask
// it: whether it takes pods. No gRPC type leaves this room.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::rpc {

struct RuntimeStatus {
  // Names that pods can choose by a RuntimeClass; "" is the default one. Empty when the runtime
  // does not tell them (containerd before 2.0).
  std::vector<std::string> handlers;
};

// Waits until the runtime that listens on `socket` takes the kubelet's calls, and returns what it
// says of itself. containerd listens before that: it refuses every call ("server is not initialized
// yet") until it has recovered its state, and tells nobody but its supervisor when it has. So it is
// asked again, at first after 10 ms, later after up to half a second. kUnsupported when whoever
// listens has no CRI (containerd can run without), kTimeout at the deadline, kCancelled on stop,
// kUnavailable for any other refusal.
base::Result<RuntimeStatus> WaitForContainerRuntime(const std::filesystem::path& socket,
                                                    const io::StopToken& stop,
                                                    base::Deadline deadline);

}  // namespace pitcrew::rpc
