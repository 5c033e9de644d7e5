// The kubelet's side of the device plugin API on unix sockets of a test's own: it takes
// registrations and talks to the plugin that registered, over real gRPC.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "rpc/device_plugin.h"

namespace pitcrew::rpc::testing {

struct TakenRegistration {
  std::string version;
  std::string endpoint;
  std::string resource_name;
  bool preferred_allocation_available = false;
  bool pre_start_required = false;
};

// Serves Registration on <folder>/kubelet.sock. Waits end with the test's own time limit.
class FakeKubelet {
 public:
  static std::unique_ptr<FakeKubelet> Start(const std::filesystem::path& folder);
  virtual ~FakeKubelet() = default;

  // Blocks until `count` registrations came since the start, and returns all of them.
  virtual std::vector<TakenRegistration> WaitForRegistrations(std::size_t count) = 0;
  virtual std::vector<TakenRegistration> registrations() = 0;
  // From now on registrations of `resource` are refused with this text; empty takes them again.
  virtual void Refuse(const std::string& resource, const std::string& text) = 0;
  // Blocks until so many registrations were refused since the start.
  virtual void WaitForRefusals(std::size_t count) = 0;
};

// A connection to one plugin's socket. Results carry the gRPC status' text as the error message.
class PluginClient {
 public:
  static std::unique_ptr<PluginClient> Connect(const std::filesystem::path& socket);
  virtual ~PluginClient() = default;

  virtual base::Result<bool> PreferredAllocationAvailable() = 0;
  virtual base::Result<std::vector<std::string>> PreferredAllocation(
      const PreferredRequest& request) = 0;
  virtual base::Result<std::vector<ContainerAllocation>> Allocate(
      const std::vector<std::vector<std::string>>& containers) = 0;

  // The open ListAndWatch stream: the next list, or an error when it ended. Opens it at first use.
  virtual base::Result<std::vector<PluginDevice>> NextList() = 0;
  // Ends the open stream from another thread.
  virtual void CancelList() = 0;
};

}  // namespace pitcrew::rpc::testing
