// The kubelet's device plugin API, v1beta1, in plain values: what a plugin answers, the server that
// carries it on a unix socket, and the registration with the kubelet (reference: device-plugin.md
// sections 9 to 11). No gRPC type leaves this room.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::rpc {

inline constexpr std::string_view kDevicePluginVersion = "v1beta1";
inline constexpr std::string_view kDevicePluginDirectory = "/var/lib/kubelet/device-plugins";
inline constexpr std::string_view kKubeletSocketName = "kubelet.sock";

// One entry of ListAndWatch.
struct PluginDevice {
  std::string id;
  bool healthy = true;
  std::optional<std::int64_t> numa_node;

  bool operator==(const PluginDevice&) const = default;
};

struct Mount {
  std::string container_path;
  std::string host_path;
  bool read_only = false;

  bool operator==(const Mount&) const = default;
};

struct DeviceSpec {
  std::string container_path;
  std::string host_path;
  std::string permissions;  // of r, w, m

  bool operator==(const DeviceSpec&) const = default;
};

// What one container gets.
struct ContainerAllocation {
  std::map<std::string, std::string> envs;
  std::vector<Mount> mounts;
  std::vector<DeviceSpec> devices;
  std::map<std::string, std::string> annotations;
  std::vector<std::string> cdi_devices;  // qualified names

  bool operator==(const ContainerAllocation&) const = default;
};

struct PreferredRequest {
  std::vector<std::string> available;
  std::vector<std::string> must_include;
  int size = 0;
};

// Answers the kubelet's questions, one container at a time. Called from several threads. An error
// reaches the kubelet as a gRPC status of code UNKNOWN with the error's message, as upstream's
// does.
class DevicePluginHandler {
 public:
  virtual ~DevicePluginHandler() = default;
  virtual base::Result<std::vector<std::string>> PreferredAllocation(
      const PreferredRequest& request) = 0;
  virtual base::Result<ContainerAllocation> Allocate(const std::vector<std::string>& ids) = 0;
};

// A kubelet before 1.32 reads at most this much and drops the plugin when a list is longer
// (kubernetes issue 109304); many replicas of many devices reach it.
inline constexpr std::size_t kLargestList = 4UL << 20U;
// Bytes of ListAndWatch's message with these devices, whatever their health.
std::size_t ListSize(const std::vector<PluginDevice>& devices);

// Serves one resource on one socket from construction to destruction; the socket goes away with it.
class DevicePluginServer {
 public:
  // A stale socket at `socket` is replaced. `handler` must outlive the server. The devices can be
  // empty. kUnavailable when the socket cannot be made.
  static base::Result<std::unique_ptr<DevicePluginServer>> Start(
      const std::filesystem::path& socket, DevicePluginHandler& handler,
      std::vector<PluginDevice> devices);
  virtual ~DevicePluginServer() = default;

  // Every open ListAndWatch stream gets the complete list, unless it is the list that it has.
  // Thread-safe.
  virtual void Publish(std::vector<PluginDevice> devices) = 0;
};

struct Registration {
  std::string endpoint;  // base name of the plugin's socket
  std::string resource_name;
};

// Registers with the kubelet that listens on `kubelet_socket`. kUnavailable when it does not answer
// within `timeout`, kInvalid when it refuses, kCancelled on stop.
base::Status RegisterWithKubelet(const std::filesystem::path& kubelet_socket,
                                 const Registration& registration,
                                 std::chrono::milliseconds timeout, const io::StopToken& stop);

}  // namespace pitcrew::rpc
