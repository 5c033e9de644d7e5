// A kubelet's pod resources API, for tests.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "rpc/pod_resources.h"

namespace pitcrew::rpc::testing {

// Serves on a unix socket from construction to destruction.
class FakePodResources {
 public:
  // `pods` is what the first call answers.
  static std::unique_ptr<FakePodResources> Start(const std::filesystem::path& socket,
                                                 std::vector<PodDevices> pods = {});
  virtual ~FakePodResources() = default;
  // What the next calls answer. From any thread.
  virtual void Set(std::vector<PodDevices> pods) = 0;
};

}  // namespace pitcrew::rpc::testing
