// The host of kubelet device plugins: serves each resource on a socket, registers it, and does so
// again whenever that is needed, until it is withdrawn (device-plugin.md sections 9 to 11,
// kubevirt-device-plugin.md).
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::kubelet_plugin {

struct HostOptions {
  // Where the kubelet looks for plugins' sockets; it must exist.
  std::filesystem::path folder = rpc::kDevicePluginDirectory;
  // Empty: resources are served and registered nowhere.
  std::filesystem::path kubelet_socket =
      std::filesystem::path(rpc::kDevicePluginDirectory) / rpc::kKubeletSocketName;
  std::chrono::milliseconds registration_timeout{5000};
  // After a failure, of each resource by itself: doubled up to the longest.
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds longest_retry{30000};
};

// Works on threads of its own and is driven by events: a socket that disappears (a starting kubelet
// clears the folder) is served anew, and a kubelet's socket that is another one than before means a
// kubelet that has forgotten every registration, whether it cleared the folder or not. No resource
// waits for another one's registration or back-off. Thread-safe.
class PluginHost {
 public:
  // An error when the folder cannot be watched.
  static base::Result<std::unique_ptr<PluginHost>> Start(HostOptions options);
  // Withdraws every resource.
  virtual ~PluginHost() = default;

  // Serves and registers `resource` at `socket_name` in the folder from now on. `handler` is called
  // on other threads until Withdraw has returned. A resource that is offered already gets only the
  // new list. Failures are logged and tried again.
  virtual void Offer(const std::string& resource, const std::string& socket_name,
                     rpc::DevicePluginHandler& handler, std::vector<rpc::PluginDevice> devices) = 0;
  // Every open ListAndWatch stream of an offered resource gets the list, if it is another one.
  virtual void Publish(const std::string& resource, std::vector<rpc::PluginDevice> devices) = 0;
  // Ends its server and removes its socket; the kubelet sees the resource go.
  virtual void Withdraw(const std::string& resource) = 0;
};

}  // namespace pitcrew::node::kubelet_plugin
