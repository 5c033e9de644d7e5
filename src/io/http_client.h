// An HTTP client: HTTP/2 over TLS with all requests to a server on one connection; HTTP/1.1 where
// there is no TLS or the server does not speak HTTP/2. A thread of its own does the I/O; callers
// block.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::io {

struct HttpHeader {
  std::string name{};
  std::string value{};
};

// Who the server must be and who we are. Requests with equal settings share connections.
struct TlsSettings {
  // Certificates of authorities, roots or intermediate ones: each is an anchor of trust, as in Go.
  // Empty, and ca_file too: the system's authorities.
  std::string ca_pem{};
  // A file with the same, which counts instead of ca_pem and is read for every new connection, so
  // that a replaced one is noticed; while it cannot be read, ca_pem stands.
  std::filesystem::path ca_file{};
  bool insecure_skip_verify = false;
  std::string client_certificate_pem{};  // with client_key_pem, or neither
  std::string client_key_pem{};

  bool operator==(const TlsSettings&) const = default;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url{};  // absolute, http:// or https://
  std::vector<HttpHeader> headers{};
  std::string body{};
  std::shared_ptr<const TlsSettings> tls{};  // null: the defaults
  std::string tls_server_name{};             // the name to check and to send; empty: the URL's host
  std::string proxy_url{};                   // empty: the environment's proxies, as Go reads them
  // Of the whole exchange, connecting included; half a minute after the request was made.
  base::Deadline deadline = base::Deadline::After(std::chrono::seconds(30));
  std::chrono::milliseconds idle_timeout{0};  // longest time without a byte from the server; 0: any
  // No answer has begun after this time: an HTTP/2 connection has to prove that it works, or is
  // replaced. The request goes on meanwhile. 0: HttpClientOptions::ping_after alone decides.
  std::chrono::milliseconds suspect_after{0};
};

struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers{};  // names in lower case
  std::string body{};

  // The first header of this (lower-case) name.
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpClientOptions {
  // An HTTP/2 server that was silent for so long gets a PING, and its connection is given up when
  // nothing comes within the time-out (the values of Kubernetes' Go client).
  std::chrono::milliseconds ping_after{30000};
  std::chrono::milliseconds ping_timeout{15000};
  // The time-out of the PING that follows when a call's deadline or HttpRequest::suspect_after has
  // passed in silence.
  std::chrono::milliseconds suspect_ping_timeout{3000};
  // A connection that nobody has used for so long is closed.
  std::chrono::milliseconds close_unused_after{90000};
};

// A body that is read while it arrives; a slow reader holds the server back, on this stream only.
// Destroying it ends the exchange. For one thread.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // Status and headers; the body is empty.
  [[nodiscard]] virtual const HttpResponse& head() const = 0;
  // The bytes that have arrived since the last call (never empty), or nothing at the proper end of
  // the body. Blocks until there are some.
  virtual base::Result<std::optional<std::string>> Next() = 0;
};

// Thread-safe. Errors: kCancelled "Stopped"; kTimeout "RequestTimeout" (deadline) or "IdleTimeout";
// kUnavailable "ConnectionRefused" (nothing was sent), "NameNotResolved", "ConnectionLost" (the
// request may have had its effect); kDenied "TlsFailed"; kInvalid "InvalidUrl".
class HttpClient {
 public:
  static base::Result<std::unique_ptr<HttpClient>> Create(HttpClientOptions options = {});
  // Every exchange must have ended; open streams are destroyed before their client.
  virtual ~HttpClient() = default;

  // The whole exchange. Any HTTP status is a success here.
  virtual base::Result<HttpResponse> Send(HttpRequest request, const StopToken& stop) = 0;
  // Returns once status and headers are there.
  virtual base::Result<std::unique_ptr<HttpStream>> Open(HttpRequest request,
                                                         const StopToken& stop) = 0;
};

// Cuts a stream of bytes into lines without their newline; empty lines are dropped.
class LineSplitter {
 public:
  // Longer lines are an error of the sender: Append then returns false and the splitter is empty.
  explicit LineSplitter(std::size_t longest_line = 64U << 20U) : longest_line_(longest_line) {}
  [[nodiscard]] bool Append(std::string_view bytes);
  // The next whole line, if there is one.
  std::optional<std::string> Next();
  // Bytes of an unfinished line.
  [[nodiscard]] std::size_t pending() const { return buffer_.size() - begin_; }

 private:
  std::size_t longest_line_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of the next line
  std::size_t scanned_ = 0;  // no newline between begin_ and here
};

}  // namespace pitcrew::io
