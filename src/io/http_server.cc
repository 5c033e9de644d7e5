#include "io/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <openssl/evp.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "io/tls_server.h"

namespace pitcrew::io {
namespace {

struct ListenAddress {
  std::string host;
  int port = 0;
};

base::Result<ListenAddress> ParseListenAddress(const std::string& text) {
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
  return ListenAddress{host.empty() ? "::" : host, static_cast<int>(*port)};
}

// What "Basic dXNlcjpwYXNz" says; nothing for another scheme and for what is no base64.
std::optional<HttpCredentials> ParseAuthorization(const std::string& header) {
  constexpr std::string_view kScheme = "basic ";
  if (base::ToLower(header.substr(0, kScheme.size())) != kScheme) return std::nullopt;
  const std::string encoded(base::Trim(std::string_view(header).substr(kScheme.size())));
  std::string decoded(encoded.size() + 1, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                     reinterpret_cast<const unsigned char*>(encoded.data()),
                                     static_cast<int>(encoded.size()));
  if (length < 0) return std::nullopt;
  const auto padding = std::min<std::size_t>(std::ranges::count(encoded, '='), 2);
  decoded.resize(static_cast<std::size_t>(length) - padding);
  const auto colon = decoded.find(':');
  if (colon == std::string::npos) return std::nullopt;
  return HttpCredentials{decoded.substr(0, colon), decoded.substr(colon + 1)};
}

class Server final : public HttpServer {
 public:
  explicit Server(HttpServerOptions options) : options_(std::move(options)) {
    if (!options_.tls) {
      server_ = std::make_unique<httplib::Server>();
      return;
    }
    server_ = std::make_unique<httplib::SSLServer>([this](SSL_CTX& context) {
      ServeTls(context, options_.tls);
      return true;
    });
  }
  ~Server() override {
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  base::Status Listen(const std::string& text, std::map<std::string, RequestHandler> handlers) {
    TRY_ASSIGN(const auto address, ParseListenAddress(text));
    if (options_.tls) {
      TRY_ASSIGN(const auto identity, options_.tls());
      TRY(CheckTls(identity));
    }
    Configure();
    for (auto& [path, handler] : handlers) Answer(path, std::move(handler));
    if (!Bind(address)) {
      return base::Fail(base::Unavailable(
          "AddressNotAvailable", fmt::format("cannot listen on {}: the address is in use or "
                                             "not of this machine",
                                             text)));
    }
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    // The library can only be stopped once its loop runs; the first answer proves that it does.
    const bool wildcard = address.host == "::" || address.host == "0.0.0.0";
    httplib::Client probe(wildcard ? "127.0.0.1" : address.host, port_);
    probe.Get("/");
    return {};
  }

  [[nodiscard]] int port() const override { return port_; }

 private:
  void Configure() {
    // The library would take eight or more.
    server_->new_task_queue = [this] { return new httplib::ThreadPool(options_.threads); };
    // Not SO_REUSEPORT, the library's habit: a second server on the port is an error, not a rival.
    server_->set_socket_options([](int fd) {
      const int on = 1;
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    server_->set_tcp_nodelay(true);
    server_->set_read_timeout(options_.timeout);
    server_->set_write_timeout(options_.timeout);
    server_->set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          for (const auto& [name, value] : options_.headers) response.set_header(name, value);
          if (!options_.allow ||
              options_.allow(ParseAuthorization(request.get_header_value("Authorization")))) {
            return httplib::Server::HandlerResponse::Unhandled;
          }
          response.status = 401;
          response.set_header("WWW-Authenticate", "Basic");
          response.set_content("Unauthorized\n", "text/plain; charset=utf-8");
          return httplib::Server::HandlerResponse::Handled;
        });
  }

  void Answer(const std::string& path, RequestHandler handler) {
    const auto answer = [handle = std::move(handler)](const httplib::Request& request,
                                                      httplib::Response& response) {
      HttpAnswer made = handle(RequestOf(request));
      response.status = made.status;
      for (const auto& [name, value] : made.headers) response.set_header(name, value);
      if (made.next_part) {
        SendParts(std::move(made), response);
      } else {
        SendBody(std::move(made), response);
      }
    };
    server_->Get(path, answer);
    if (!options_.any_method) return;
    server_->Post(path, answer);
    server_->Put(path, answer);
    server_->Patch(path, answer);
    server_->Delete(path, answer);
    server_->Options(path, answer);
  }

  static HttpServerRequest RequestOf(const httplib::Request& request) {
    HttpServerRequest seen{.path = request.path, .query = {}, .headers = {}};
    for (const auto& [name, value] : request.params) seen.query.try_emplace(name, value);
    for (const auto& [name, value] : request.headers) {
      seen.headers.try_emplace(base::ToLower(name), value);
    }
    return seen;
  }

  // Neither copied nor compressed: a scraper waits for less time than compression takes.
  static void SendBody(HttpAnswer made, httplib::Response& response) {
    if (made.body.empty()) {
      response.set_content("", made.content_type);
      return;
    }
    auto body = std::make_shared<const std::string>(std::move(made.body));
    response.set_content_provider(
        body->size(), made.content_type,
        [body](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          return sink.write(body->data() + offset, length);
        });
  }

  static void SendParts(HttpAnswer made, httplib::Response& response) {
    response.set_chunked_content_provider(
        made.content_type,
        [next = std::move(made.next_part)](std::size_t, httplib::DataSink& sink) {
          const auto part = next();
          if (part) return sink.write(part->data(), part->size());
          sink.done();
          return true;
        });
  }

  bool Bind(const ListenAddress& address) {
    const auto bind_to = [&](const std::string& host) {
      if (address.port == 0) {
        port_ = server_->bind_to_any_port(host);
        return port_ > 0;
      }
      port_ = address.port;
      return server_->bind_to_port(host, address.port);
    };
    // Without IPv6 the wildcard of IPv4 serves.
    return bind_to(address.host) || (address.host == "::" && bind_to("0.0.0.0"));
  }

  const HttpServerOptions options_;
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace

std::string_view HttpServerRequest::header(std::string_view lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::string_view() : found->second;
}

base::Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                            std::map<std::string, Handler> handlers,
                                                            HttpServerOptions options) {
  std::map<std::string, RequestHandler> by_path;
  for (auto& [path, handler] : handlers) {
    by_path[path] = [handle = std::move(handler)](const HttpServerRequest&) { return handle(); };
  }
  auto server = std::make_unique<Server>(std::move(options));
  TRY(server->Listen(address, std::move(by_path)));
  return std::unique_ptr<HttpServer>(std::move(server));
}

base::Result<std::unique_ptr<HttpServer>> HttpServer::StartWith(const std::string& address,
                                                                RequestHandler handler,
                                                                HttpServerOptions options) {
  auto server = std::make_unique<Server>(std::move(options));
  TRY(server->Listen(address, {{".*", std::move(handler)}}));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace pitcrew::io
