// One resource of a PluginHost: its server, its registration, and when to try again. Private to
// this room; not thread-safe but for the attempt that it runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/kubelet_plugin/plugin_host.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::kubelet_plugin {

// What tells a file from one that was made later under the same name.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t changed_seconds = 0;
  std::int64_t changed_nanoseconds = 0;
  bool operator==(const FileIdentity&) const = default;
  // nullopt when nothing is there.
  static std::optional<FileIdentity> Of(const std::filesystem::path& path);
};

class Resource {
 public:
  // `attempt_ended` is called on another thread when a registration has been answered.
  Resource(std::string name, const std::string& socket_name, rpc::DevicePluginHandler& handler,
           std::vector<rpc::PluginDevice> devices, const HostOptions& options,
           std::function<void()> attempt_ended);
  ~Resource();
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;

  void Publish(std::vector<rpc::PluginDevice> devices);
  // Does what is due now, without waiting for the kubelet. `kubelet` is its socket as it is now.
  void Advance(const std::optional<FileIdentity>& kubelet, base::SteadyClock::time_point now);
  // When Advance is due without any event.
  [[nodiscard]] std::optional<base::SteadyClock::time_point> next_try() const { return next_try_; }

 private:
  void TakeAnswer(base::SteadyClock::time_point now);
  base::Status Serve();
  void Register();
  void Failed(const base::Error& error, base::SteadyClock::time_point now);

  const std::string name_;
  const std::filesystem::path socket_;
  rpc::DevicePluginHandler& handler_;
  std::vector<rpc::PluginDevice> devices_;
  const HostOptions& options_;
  const std::function<void()> attempt_ended_;

  std::unique_ptr<rpc::DevicePluginServer> server_;
  std::optional<FileIdentity> served_;   // our socket as we made it
  std::optional<FileIdentity> kubelet_;  // the one that was tried last
  bool registered_ = false;              // with kubelet_
  int failures_ = 0;
  std::optional<base::SteadyClock::time_point> next_try_;

  io::StopSource ending_;
  std::thread attempt_;
  std::atomic<bool> answered_ = false;
  base::Status answer_;  // once answered_
};

}  // namespace pitcrew::node::kubelet_plugin
