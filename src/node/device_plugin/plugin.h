// One resource: answers the kubelet from a snapshot that can be exchanged while it is offered.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/device_plugin/allocation.h"
#include "node/device_plugin/preferred_allocation.h"
#include "node/device_plugin/resources.h"
#include "node/device_plugin/settings.h"
#include "node/kubelet_plugin/plugin_host.h"
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

  // `host` must outlive the plugin.
  ResourcePlugin(std::string resource, kubelet_plugin::PluginHost& host)
      : resource_(std::move(resource)), host_(host) {}
  // No longer offered.
  ~ResourcePlugin() override { host_.Withdraw(resource_); }

  // From now on answers are made from these. Streams get the new list, if it is one.
  void Update(std::vector<OfferedDevice> devices, std::shared_ptr<const Snapshot> snapshot,
              const IsHealthy& is_healthy);
  struct Count {
    std::size_t healthy = 0;
    std::size_t unhealthy = 0;
  };
  // Sends the list again with today's health.
  Count PublishHealth(const IsHealthy& is_healthy);

  // Offers it to the kubelet, after the first Update; again does nothing.
  void Offer();

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
  kubelet_plugin::PluginHost& host_;
  mutable std::mutex mutex_;
  std::shared_ptr<const State> state_;  // guarded by mutex_; never null after the first Update
  std::vector<rpc::PluginDevice> list_;
  bool offered_ = false;
};

// "nvidia-gpu.sock" for nvidia.com/gpu.
std::string SocketName(std::string_view resource);

}  // namespace pitcrew::node::device_plugin
