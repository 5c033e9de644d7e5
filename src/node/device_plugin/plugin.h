// One resource on one socket: answers the kubelet from a snapshot that can be exchanged while it
// serves.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/device_plugin/allocation.h"
#include "node/device_plugin/preferred_allocation.h"
#include "node/device_plugin/resources.h"
#include "node/device_plugin/settings.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::device_plugin {

// What all resources of a node share at one time.
struct Snapshot {
  Settings settings;
  AllocationFacts facts;
  LinkScores scores;
};

class ResourcePlugin final : private rpc::DevicePluginHandler {
 public:
  using IsHealthy = std::function<bool(const OfferedDevice&)>;

  // `folder` is where the kubelet looks for plugins' sockets.
  ResourcePlugin(std::string resource, const std::filesystem::path& folder);
  ~ResourcePlugin() override = default;

  // From now on answers are made from these. Streams get the new list, if it is one.
  void Update(std::vector<OfferedDevice> devices, std::shared_ptr<const Snapshot> snapshot,
              const IsHealthy& is_healthy);
  // Sends the list again with today's health.
  void PublishHealth(const IsHealthy& is_healthy);

  // Serves, anew when the socket has gone (a starting kubelet clears the folder), and registers
  // unless that is done. kCancelled on stop; other errors are worth another try later.
  base::Status Register(const std::filesystem::path& kubelet_socket, const io::StopToken& stop);
  // Serves without registering.
  base::Status Serve();
  // The kubelet has forgotten us.
  void Forget() { registered_ = false; }
  [[nodiscard]] bool registered() const { return registered_; }
  [[nodiscard]] bool SocketIsThere() const;
  [[nodiscard]] const std::string& resource() const { return resource_; }
  [[nodiscard]] const std::filesystem::path& socket() const { return socket_; }

 private:
  struct State {
    std::vector<OfferedDevice> devices;
    std::shared_ptr<const Snapshot> snapshot;
  };
  [[nodiscard]] std::shared_ptr<const State> state() const;
  base::Result<std::vector<std::string>> PreferredAllocation(
      const rpc::PreferredRequest& request) override;
  base::Result<rpc::ContainerAllocation> Allocate(const std::vector<std::string>& ids) override;

  const std::string resource_;
  const std::filesystem::path socket_;
  mutable std::mutex mutex_;
  std::shared_ptr<const State> state_;  // guarded by mutex_; never null after the first Update
  std::vector<rpc::PluginDevice> list_;
  std::unique_ptr<rpc::DevicePluginServer> server_;
  bool registered_ = false;
};

// "nvidia-gpu.sock" for nvidia.com/gpu.
std::string SocketName(std::string_view resource);

}  // namespace pitcrew::node::device_plugin
