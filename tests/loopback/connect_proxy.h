// An HTTP proxy that makes tunnels (CONNECT), plain or behind TLS, all of which lead to the
// loopback interface: the port is the client's, its host is only noted.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"
#include "loopback/certificate.h"

struct ssl_ctx_st;
struct ssl_st;

namespace pitcrew::testing {

struct ConnectProxyOptions {
  bool tls = false;
  std::string credentials{};  // "Basic ..." that it wants; empty: none
  int status = 200;           // of its answers; only 2xx make a tunnel
};

class ConnectProxy {
 public:
  static base::Result<std::unique_ptr<ConnectProxy>> Start(ConnectProxyOptions options = {});
  ~ConnectProxy();
  ConnectProxy(const ConnectProxy&) = delete;
  ConnectProxy& operator=(const ConnectProxy&) = delete;

  [[nodiscard]] int port() const { return port_; }
  // "http://127.0.0.1:port", or https.
  [[nodiscard]] std::string url() const;
  // Who has signed its certificate for 127.0.0.1.
  [[nodiscard]] const std::string& authority_pem() const { return authority_.certificate_pem; }
  // The targets of CONNECT so far.
  [[nodiscard]] std::vector<std::string> targets() const;
  // Nothing passes the tunnels of now any more, and nobody is told.
  void Forget();

 private:
  ConnectProxy(base::FileDescriptor listener, int port, KeyPair authority, ssl_ctx_st* context,
               ConnectProxyOptions options);
  void Accept();
  void Serve(int socket);
  void Relay(int client, ssl_st* ssl, int server);

  base::FileDescriptor listener_;
  int port_;
  KeyPair authority_;
  ssl_ctx_st* context_;  // null without TLS
  ConnectProxyOptions options_;
  io::StopSource stop_;
  io::StopSource forgotten_;
  mutable std::mutex mutex_;
  std::vector<std::string> targets_;
  std::list<std::thread> connections_;
  std::thread thread_;
};

}  // namespace pitcrew::testing
