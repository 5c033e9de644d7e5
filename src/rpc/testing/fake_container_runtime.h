// A container runtime that takes the kubelet's calls only after a while, for tests.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace pitcrew::rpc::testing {

// Serves the Container Runtime Interface on a unix socket from construction to destruction.
class FakeContainerRuntime {
 public:
  // The first `refusals` calls get what containerd says before it is initialized, later ones the
  // names of `handlers`.
  static std::unique_ptr<FakeContainerRuntime> Start(const std::filesystem::path& socket,
                                                     int refusals,
                                                     std::vector<std::string> handlers);
  // containerd without its CRI plugin: a gRPC server that does not know the service.
  static std::unique_ptr<FakeContainerRuntime> StartWithoutInterface(
      const std::filesystem::path& socket);
  virtual ~FakeContainerRuntime() = default;
  [[nodiscard]] virtual int refused() const = 0;
  [[nodiscard]] virtual int answered() const = 0;
};

}  // namespace pitcrew::rpc::testing
