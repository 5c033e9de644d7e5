// A TCP relay on a loopback port that a test can cut.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::testing {

class TcpProxy {
 public:
  // Relays to 127.0.0.1:`target_port`.
  static base::Result<std::unique_ptr<TcpProxy>> Start(int target_port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string https_url() const;
  // Resets every connection.
  void Cut();
  // Nothing passes any more on the connections of now, and nobody is told; what is sent on them is
  // still acknowledged.
  void Forget();
  // New connections are reset at once while closed; open ones are cut.
  void SetOpen(bool open);
  // Connections accepted and relayed so far.
  [[nodiscard]] int accepted() const { return accepted_; }

 private:
  TcpProxy(base::FileDescriptor listener, int port, int target_port);
  void Run();
  void Accept();
  void Relay(int fd);

  struct Link {
    base::FileDescriptor client;
    base::FileDescriptor server;
    std::atomic<bool> forgotten{false};
  };

  base::FileDescriptor listener_;
  int port_;
  int target_port_;
  std::atomic<bool> open_{true};
  std::atomic<int> accepted_{0};
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Link>> links_;  // by either descriptor
  io::StopSource stop_;
  base::FileDescriptor epoll_;
  std::thread thread_;
};

}  // namespace pitcrew::testing
