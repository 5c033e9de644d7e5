#include "io/connection.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "io/proxy_tunnel.h"
#include "io/tcp_connect.h"

namespace pitcrew::io {
namespace {

base::Error ConnectionLost(std::string message) {
  return base::Unavailable("ConnectionLost", std::move(message));
}

base::Error WentAway() {
  return base::Unavailable("ConnectionRefused", "the server went away in the TLS handshake");
}

}  // namespace

bool Route::SameAs(const Route& other) const {
  const bool same_place = tls == other.tls && host == other.host && port == other.port &&
                          server_name == other.server_name && proxy == other.proxy;
  if (!same_place) return false;
  if (settings == other.settings) return true;
  return settings != nullptr && other.settings != nullptr && *settings == *other.settings;
}

base::Result<Connection> Connection::Connect(const Route& route, bool offer_http2,
                                             base::Deadline deadline, const StopToken& stop) {
  const TlsSettings defaults;
  const TlsSettings& settings = route.settings == nullptr ? defaults : *route.settings;
  const auto through = [&](const base::Error& error) {
    return route.proxy ? error.Within(fmt::format("proxy {}", route.proxy->host_and_port()))
                       : error;
  };
  auto socket = ConnectTcp(route.proxy ? route.proxy->host : route.host,
                           route.proxy ? route.proxy->port : route.port, deadline, stop);
  if (!socket) return base::Fail(through(socket.error()));
  Connection connection(*std::move(socket));
  if (route.proxy) {
    base::Status reached;
    if (route.proxy->scheme == "https") {
      reached = connection.StartTls(
          settings, {.server_name = route.proxy->host, .offer_http2 = false, .to_proxy = true},
          deadline, stop);
    }
    if (reached && !route.asks_proxy()) {
      reached = OpenTunnel(connection, *route.proxy, {.host = route.host, .port = route.port},
                           deadline, stop);
    }
    if (!reached) return base::Fail(through(reached.error()));
  }
  if (route.tls) {
    TRY(connection.StartTls(
        settings,
        {.server_name = route.server_name.empty() ? route.host : route.server_name,
         .offer_http2 = offer_http2},
        deadline, stop));
  }
  return connection;
}

base::Status Connection::StartTls(const TlsSettings& settings, const TlsGreeting& greeting,
                                  base::Deadline deadline, const StopToken& stop) {
  TRY_ASSIGN(SslPointer ssl, MakeTls(settings, greeting));
  if (ssl_ == nullptr) {
    if (SSL_set_fd(ssl.get(), fd()) != 1) {
      return base::Fail(base::Internal("HttpFailed", LastTlsError()));
    }
  } else {
    BIO* below = BIO_new(BIO_f_ssl());
    if (below == nullptr) return base::Fail(base::Internal("HttpFailed", LastTlsError()));
    // Owns the TLS to the proxy from now on, and is itself owned by the one above.
    BIO_set_ssl(below, ssl_.release(), BIO_CLOSE);
    SSL_set_bio(ssl.get(), below, below);
  }
  ssl_ = std::move(ssl);
  return Handshake(deadline, stop);
}

base::Status Connection::WaitReady(base::Deadline deadline, const StopToken& stop,
                                   std::string_view what) const {
  const auto events = static_cast<short>(wants_write_ ? POLLOUT : POLLIN);
  std::array<pollfd, 2> entries{{{.fd = fd(), .events = events, .revents = 0},
                                 {.fd = stop.fd(), .events = POLLIN, .revents = 0}}};
  ::poll(entries.data(), entries.size(), deadline.poll_milliseconds());
  if (stop.stopped()) return base::Fail(stop.error());
  if (!deadline.passed()) return {};
  return base::Fail(
      base::Unavailable("ConnectionRefused", fmt::format("there was no answer to {}", what)));
}

base::Status Connection::Handshake(base::Deadline deadline, const StopToken& stop) {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(ssl_.get());
    if (result == 1) return {};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        wants_write_ = SSL_want_write(ssl_.get());
        TRY(WaitReady(deadline, stop, "the TLS handshake"));
        break;
      case SSL_ERROR_SSL: {
        const long verified = SSL_get_verify_result(ssl_.get());
        if (verified != X509_V_OK) {
          return base::Fail(TlsFailed(fmt::format("the server's certificate is not accepted: {}",
                                                  X509_verify_cert_error_string(verified))));
        }
        if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
          ERR_clear_error();
          return base::Fail(WentAway());
        }
        return base::Fail(TlsFailed(fmt::format("TLS handshake: {}", LastTlsError())));
      }
      default:
        ERR_clear_error();
        return base::Fail(WentAway());
    }
  }
}

bool Connection::http2() const {
  if (ssl_ == nullptr) return false;
  const unsigned char* chosen = nullptr;
  unsigned int length = 0;
  SSL_get0_alpn_selected(ssl_.get(), &chosen, &length);
  return std::string_view(reinterpret_cast<const char*>(chosen), length) == "h2";
}

base::Result<std::optional<std::size_t>> Connection::ResultOfTls(int result, std::size_t count) {
  wants_write_ = false;
  if (result == 1) return count;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = true;
      return std::nullopt;
    case SSL_ERROR_WANT_READ:
      return std::nullopt;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      ERR_clear_error();
      return base::Fail(
          ConnectionLost(errno == 0 ? "the server ended the connection" : std::strerror(errno)));
    default:
      break;
  }
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return base::Fail(ConnectionLost("the server ended the connection"));
  }
  const std::string told = LastTlsError();
  if (RefusesOurCertificate(reason)) {
    return base::Fail(TlsFailed(fmt::format("the server refuses our certificate: {}", told)));
  }
  return base::Fail(ConnectionLost(told));
}

base::Result<std::optional<std::size_t>> Connection::ResultOfSocket(ssize_t count, bool writing) {
  wants_write_ = false;
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
    wants_write_ = writing;
    return std::nullopt;
  }
  return base::Fail(ConnectionLost(std::strerror(errno)));
}

base::Result<std::optional<std::size_t>> Connection::Read(std::span<char> into) {
  if (ssl_ == nullptr) return ResultOfSocket(::recv(fd(), into.data(), into.size(), 0), false);
  ERR_clear_error();
  errno = 0;
  std::size_t count = 0;
  const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &count);
  return ResultOfTls(result, count);
}

base::Result<std::optional<std::size_t>> Connection::Write(std::string_view bytes) {
  if (ssl_ == nullptr) {
    return ResultOfSocket(::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), true);
  }
  ERR_clear_error();
  errno = 0;
  std::size_t count = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
  return ResultOfTls(result, count);
}

}  // namespace pitcrew::io
