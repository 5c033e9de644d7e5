#include "loopback/connect_proxy.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <string_view>

#include "base/strings.h"
#include "loopback/http2_server.h"
#include "loopback/loopback.h"

namespace pitcrew::testing {
namespace {

// Either side of TLS, or of TCP without it.
class Side {
 public:
  Side(int socket, SSL* ssl) : socket_(socket), ssl_(ssl) {}
  // Nothing at the end.
  [[nodiscard]] std::string Receive() const {
    std::array<char, 16384> bytes{};
    const long count = ssl_ == nullptr ? ::recv(socket_, bytes.data(), bytes.size(), 0)
                                       : SSL_read(ssl_, bytes.data(), bytes.size());
    return count <= 0 ? std::string() : std::string(bytes.data(), static_cast<std::size_t>(count));
  }
  [[nodiscard]] bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const long count = ssl_ == nullptr
                             ? ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                             : SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  [[nodiscard]] bool buffered() const { return ssl_ != nullptr && SSL_pending(ssl_) > 0; }

 private:
  int socket_;
  SSL* ssl_;
};

base::FileDescriptor ConnectTo(int port) {
  base::FileDescriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(server.get(), generic, sizeof address) != 0) server.Close();
  return server;
}

}  // namespace

base::Result<std::unique_ptr<ConnectProxy>> ConnectProxy::Start(ConnectProxyOptions options) {
  TRY_ASSIGN(KeyPair authority,
             MakeCertificate({.common_name = "proxy authority", .authority = true}));
  TRY_ASSIGN(const KeyPair own,
             MakeCertificate({.common_name = "proxy", .addresses = {"127.0.0.1"}}, &authority));
  TRY_ASSIGN(LoopbackSocket listener, ListenOnLoopback());
  SSL_CTX* context = options.tls ? MakeServerContext(own) : nullptr;
  return std::unique_ptr<ConnectProxy>(new ConnectProxy(std::move(listener.socket), listener.port,
                                                        std::move(authority), context,
                                                        std::move(options)));
}

ConnectProxy::ConnectProxy(base::FileDescriptor listener, int port, KeyPair authority,
                           ssl_ctx_st* context, ConnectProxyOptions options)
    : listener_(std::move(listener)),
      port_(port),
      authority_(std::move(authority)),
      context_(context),
      options_(std::move(options)) {
  thread_ = std::thread([this] { Accept(); });
}

ConnectProxy::~ConnectProxy() {
  stop_.Stop();
  thread_.join();
  for (std::thread& connection : connections_) connection.join();
  SSL_CTX_free(context_);
}

std::string ConnectProxy::url() const {
  return fmt::format("{}://127.0.0.1:{}", options_.tls ? "https" : "http", port_);
}

std::vector<std::string> ConnectProxy::targets() const {
  const std::scoped_lock lock(mutex_);
  return targets_;
}

void ConnectProxy::Forget() { forgotten_.Stop(); }

void ConnectProxy::Accept() {
  while (io::WaitReadable({listener_.get()}, stop_.token())) {
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) connections_.emplace_back([this, socket] { Serve(socket); });
  }
}

void ConnectProxy::Serve(int socket) {
  const base::FileDescriptor owner(socket);
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  SSL* ssl = nullptr;
  if (context_ != nullptr) {
    ssl = SSL_new(context_);
    SSL_set_fd(ssl, socket);
  }
  if (ssl == nullptr || SSL_accept(ssl) == 1) {
    const Side client(socket, ssl);
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos &&
           (client.buffered() || io::WaitReadable({socket}, stop_.token()))) {
      const std::string bytes = client.Receive();
      if (bytes.empty()) break;
      head += bytes;
    }
    const auto words = base::SplitTrimmed(head.substr(0, head.find('\r')), ' ');
    if (words.size() == 3 && words[0] == "CONNECT") {
      {
        const std::scoped_lock lock(mutex_);
        targets_.push_back(words[1]);
      }
      const bool known =
          options_.credentials.empty() ||
          head.find("Proxy-Authorization: " + options_.credentials + "\r\n") != std::string::npos;
      const int status = known ? options_.status : 407;
      const auto port = base::ParseUnsigned(words[1].substr(words[1].rfind(':') + 1)).value_or(0);
      const base::FileDescriptor server = ConnectTo(static_cast<int>(port));
      const bool answered =
          client.Send(fmt::format("HTTP/1.1 {} Answer\r\n\r\n", server.valid() ? status : 502));
      if (answered && server.valid() && status / 100 == 2) Relay(socket, ssl, server.get());
    }
  }
  SSL_free(ssl);
}

void ConnectProxy::Relay(int client, ssl_st* ssl, int server) {
  const Side near(client, ssl);
  const Side far(server, nullptr);
  for (;;) {
    const auto ready = near.buffered() ? base::Result<std::size_t>(0)
                                       : io::WaitReadable({client, server, forgotten_.token().fd()},
                                                          stop_.token());
    if (!ready) return;
    if (forgotten_.token().stopped()) return stop_.token().Wait();
    const std::string bytes = *ready == 0 ? near.Receive() : far.Receive();
    if (bytes.empty() || !(*ready == 0 ? far.Send(bytes) : near.Send(bytes))) return;
  }
}

}  // namespace pitcrew::testing
