// A TCP connection with TLS, made by a client. Of http2_client.cc.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/http_client.h"
#include "io/stop.h"

namespace pitcrew::io {

struct TlsTarget {
  std::string host{};  // a name or an address, without brackets
  std::string port{};
  std::string server_name{};  // to check and to send; empty: the host
  std::shared_ptr<const TlsSettings> tls{};

  // Whether a connection to this target serves the other one too.
  [[nodiscard]] bool SameAs(const TlsTarget& other) const;
};

// Not thread-safe. SIGPIPE must be blocked in the threads that use it.
class TlsConnection {
 public:
  // Resolves, connects (several addresses race, the first is given a head start) and shakes hands;
  // offers HTTP/2 and HTTP/1.1. Blocks. Errors as HttpClient's; kCancelled "Stopped".
  static base::Result<TlsConnection> Connect(const TlsTarget& target, base::Deadline deadline,
                                             const StopToken& stop);

  // Whether the server has chosen HTTP/2.
  [[nodiscard]] bool http2() const;
  [[nodiscard]] int fd() const { return socket_.get(); }

  // Neither blocks. Nothing: there is nothing to read, or no room to write, now. Errors:
  // kUnavailable "ConnectionLost", also when the server ended the connection properly; kDenied
  // "TlsFailed" when the server refused our certificate (TLS 1.3 tells it only here).
  base::Result<std::optional<std::size_t>> Read(std::span<char> into);
  base::Result<std::optional<std::size_t>> Write(std::string_view bytes);
  // Whether the last operation that found nothing waits for room to write, whichever it was.
  [[nodiscard]] bool wants_write() const { return wants_write_; }

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  TlsConnection(base::FileDescriptor socket, std::unique_ptr<SSL, FreeSsl> ssl)
      : socket_(std::move(socket)), ssl_(std::move(ssl)) {}

  base::Status Handshake(base::Deadline deadline, const StopToken& stop);
  base::Result<std::optional<std::size_t>> Judge(int result, std::size_t count);

  base::FileDescriptor socket_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  bool wants_write_ = false;
};

}  // namespace pitcrew::io
