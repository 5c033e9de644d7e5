#include "io/http_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <thread>
#include <utility>

#include "base/strings.h"

namespace pitcrew::io {
namespace {

struct Address {
  std::string host;
  int port = 0;
};

base::Result<Address> ParseAddress(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto bad = [&] {
    return base::Fail(base::Invalid(
        "InvalidAddress",
        fmt::format("\"{}\" is not an address; write [HOST]:PORT, for example :8080", text)));
  };
  if (colon == std::string::npos) return bad();
  const auto port = base::ParseUnsigned(text.substr(colon + 1));
  if (!port || *port > 65535) return bad();
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Address{host.empty() ? "::" : host, static_cast<int>(*port)};
}

class Server final : public HttpServer {
 public:
  ~Server() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  base::Status Listen(const std::string& text, std::map<std::string, Handler> handlers) {
    TRY_ASSIGN(const auto address, ParseAddress(text));
    // Two threads do for health and metrics; the library would take eight or more.
    server_.new_task_queue = [] { return new httplib::ThreadPool(2); };
    // Not SO_REUSEPORT, the library's habit: a second server on the port is an error, not a rival.
    server_.set_socket_options([](int fd) {
      const int on = 1;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    for (auto& [path, handler] : handlers) {
      server_.Get(path, [handle = std::move(handler)](const httplib::Request&,
                                                      httplib::Response& response) {
        const HttpAnswer answer = handle();
        response.status = answer.status;
        response.set_content(answer.body, answer.content_type);
      });
    }
    if (!Bind(address)) {
      return base::Fail(base::Unavailable(
          "AddressNotAvailable", fmt::format("cannot listen on {}: the address is in use or "
                                             "not of this machine",
                                             text)));
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // The library can only be stopped once its loop runs; the first answer proves that it does.
    const bool wildcard = address.host == "::" || address.host == "0.0.0.0";
    httplib::Client probe(wildcard ? "127.0.0.1" : address.host, port_);
    probe.Get("/");
    return {};
  }

  [[nodiscard]] int port() const override { return port_; }

 private:
  bool Bind(const Address& address) {
    const auto bind_to = [&](const std::string& host) {
      if (address.port == 0) {
        port_ = server_.bind_to_any_port(host);
        return port_ > 0;
      }
      port_ = address.port;
      return server_.bind_to_port(host, address.port);
    };
    // Without IPv6 the wildcard of IPv4 serves.
    return bind_to(address.host) || (address.host == "::" && bind_to("0.0.0.0"));
  }

  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace

base::Result<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, std::map<std::string, Handler> handlers) {
  auto server = std::make_unique<Server>();
  TRY(server->Listen(address, std::move(handlers)));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace pitcrew::io
