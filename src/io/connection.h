// A connection to a server as a client makes it: TCP, perhaps through a proxy, perhaps with TLS.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"
#include "io/tls.h"
#include "io/url.h"

namespace pitcrew::io {

// Where a connection leads, and how it gets there.
struct Route {
  bool tls = true;
  std::string host{};  // a name or an address, without brackets
  std::string port{};
  std::string server_name{};                      // to check and to send; empty: the host
  std::shared_ptr<const TlsSettings> settings{};  // null: the defaults
  std::optional<Url> proxy{};

  // Whether connections may serve requests for both.
  [[nodiscard]] bool SameAs(const Route& other) const;
  // Requests name the whole URL: a proxy answers them itself, for it has no connection to hand on.
  [[nodiscard]] bool asks_proxy() const { return proxy.has_value() && !tls; }
};

// Not thread-safe. SIGPIPE must be blocked in the threads that use it.
class Connection {
 public:
  // Resolves, connects (several addresses race, the first is given a head start), asks the proxy
  // for a tunnel and shakes hands; offers HTTP/2 too unless told not to. Blocks. Errors as
  // HttpClient's.
  static base::Result<Connection> Connect(const Route& route, bool offer_http2,
                                          base::Deadline deadline, const StopToken& stop);

  // Whether the server has chosen HTTP/2.
  [[nodiscard]] bool http2() const;
  [[nodiscard]] int fd() const { return socket_.get(); }

  // Neither blocks. Nothing: there is nothing to read, or no room to write, now. Zero bytes read:
  // the other side has properly ended what it sends. Errors: kUnavailable "ConnectionLost"; kDenied
  // "TlsFailed" when the server refused our certificate (TLS 1.3 tells it only here).
  base::Result<std::optional<std::size_t>> Read(std::span<char> into);
  base::Result<std::optional<std::size_t>> Write(std::string_view bytes);
  // Whether the last operation that found nothing waits for room to write, whichever it was.
  [[nodiscard]] bool wants_write() const { return wants_write_; }

  // Until the last operation that found nothing is worth another try. Errors: the stop's;
  // kUnavailable "ConnectionRefused" at the deadline, with `what` was waited for.
  base::Status WaitReady(base::Deadline deadline, const StopToken& stop,
                         std::string_view what) const;

 private:
  explicit Connection(base::FileDescriptor socket) : socket_(std::move(socket)) {}
  // Puts TLS on top of what there is: of TCP, or of the TLS that leads to a proxy.
  base::Status StartTls(const TlsSettings& settings, const TlsGreeting& greeting,
                        base::Deadline deadline, const StopToken& stop);
  base::Status Handshake(base::Deadline deadline, const StopToken& stop);
  base::Result<std::optional<std::size_t>> ResultOfTls(int result, std::size_t count);
  base::Result<std::optional<std::size_t>> ResultOfSocket(ssize_t count, bool writing);

  base::FileDescriptor socket_;
  SslPointer ssl_{};  // null: bytes go as they are
  bool wants_write_ = false;
};

}  // namespace pitcrew::io
