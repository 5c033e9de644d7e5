// One resource for virtual machines: what it answers to the kubelet.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/kubelet_plugin/plugin_host.h"
#include "node/sandbox_device_plugin/offers.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::sandbox_device_plugin {

// "kubevirt-GA102GL_A10.sock" and "sandbox-pgpu.sock", as upstream's programs call them.
std::string SocketName(Client client, std::string_view resource);

// Offered to the kubelet from its first Update until it is destroyed.
class ResourcePlugin final : public rpc::DevicePluginHandler {
 public:
  // Answers for devices as they are when it is called, on any thread: `resource`, the devices that
  // were offered last, and the ids that were asked for.
  using Allocator = std::function<base::Result<rpc::ContainerAllocation>(
      const std::string& resource, const std::vector<OfferedDevice>& offered,
      const std::vector<std::string>& ids)>;

  // `host` must outlive it.
  ResourcePlugin(std::string resource, std::string socket_name, Allocator allocator,
                 kubelet_plugin::PluginHost& host);
  ~ResourcePlugin() override;
  ResourcePlugin(const ResourcePlugin&) = delete;
  ResourcePlugin& operator=(const ResourcePlugin&) = delete;

  void Update(std::vector<OfferedDevice> devices);

  base::Result<std::vector<std::string>> PreferredAllocation(
      const rpc::PreferredRequest& request) override;
  base::Result<rpc::ContainerAllocation> Allocate(const std::vector<std::string>& ids) override;

 private:
  std::vector<OfferedDevice> devices() const;

  const std::string resource_;
  const std::string socket_name_;
  const Allocator allocator_;
  kubelet_plugin::PluginHost& host_;
  mutable std::mutex mutex_;
  std::vector<OfferedDevice> devices_;  // guarded by mutex_
};

}  // namespace pitcrew::node::sandbox_device_plugin
