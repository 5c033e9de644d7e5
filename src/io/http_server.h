// A small HTTP/1.1 server: health and metrics endpoints, and pages for people.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pitcrew::io {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  HttpHeaders headers = {};
  // Unset: `body` is the whole. Otherwise the body is what this returns call by call, until it
  // returns nothing, the client has gone, or the client does not take a part within
  // HttpServerOptions::timeout. It may block, and takes one of the server's threads meanwhile; it
  // is destroyed at the end, whichever it was. A part must not be empty.
  std::function<std::optional<std::string>()> next_part = nullptr;
};

// A request as a handler sees it.
struct HttpServerRequest {
  std::string path;                          // decoded, without the query
  std::map<std::string, std::string> query;  // decoded; of a repeated name the first
  // By name in lower case; of a repeated one the first.
  std::map<std::string, std::string, std::less<>> headers;

  // "" when there is none.
  [[nodiscard]] std::string_view header(std::string_view lower_case_name) const;
};

// What a client says of itself by basic authentication.
struct HttpCredentials {
  std::string user;
  std::string password;
};

// Who the server is, and which clients it takes. Texts are PEM.
struct TlsIdentity {
  std::string certificate;  // with its chain
  std::string key;
  enum class Clients {
    kAnybody,
    kAsked,           // a certificate is asked for; nobody needs one
    kAnyCertificate,  // needed, whoever signed it
    kVerifiedIfGiven,
    kVerified,  // needed, and signed by one of `client_authorities`
  };
  Clients clients = Clients::kAnybody;
  std::string client_authorities;
  // Names of a client's certificate of which it needs one; empty: any.
  std::vector<std::string> client_names;
  int min_version = 0x0303;  // as on the wire: TLS 1.2 is 0x0303
  int max_version = 0x0304;
  std::string cipher_list;    // OpenSSL's names, up to TLS 1.2; empty: OpenSSL's choice
  std::string cipher_suites;  // of TLS 1.3
  std::string groups;         // key exchange; empty: OpenSSL's choice
  bool prefer_own_order = true;
};

struct HttpServerOptions {
  // Headers of every answer.
  HttpHeaders headers = {};
  // Other methods than GET and HEAD are answered alike.
  bool any_method = false;
  std::chrono::seconds timeout{5};  // to read a request, and to write an answer (or a part of it)
  // So many requests are answered at a time; more wait. Two do for health and metrics.
  std::size_t threads = 2;
  // Whether a request is answered; 401 otherwise. Asked for each one, with nullopt when it names
  // nobody. Unset: everybody.
  std::function<bool(const std::optional<HttpCredentials>&)> allow = nullptr;
  // HTTPS instead of HTTP. Asked for each connection, which is refused on an error.
  std::function<base::Result<TlsIdentity>()> tls = nullptr;
};

// Serves GET requests from its own thread until it is destroyed. Handlers run on that server's
// threads and must be thread-safe.
class HttpServer {
 public:
  using Handler = std::function<HttpAnswer()>;
  using RequestHandler = std::function<HttpAnswer(const HttpServerRequest&)>;

  // `address` as Go writes it: ":8080", "127.0.0.1:8081", "[::1]:9000"; port 0 takes a free one.
  // Paths of handlers are regular expressions.
  // kInvalid for an address of another form; kUnavailable when it cannot be bound.
  static base::Result<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                         std::map<std::string, Handler> handlers,
                                                         HttpServerOptions options = {});
  // The same with one handler for every path.
  static base::Result<std::unique_ptr<HttpServer>> StartWith(const std::string& address,
                                                             RequestHandler handler,
                                                             HttpServerOptions options = {});
  // Ends when parts that are being made (HttpAnswer::next_part) have ended: whoever makes them
  // must be told before.
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual int port() const = 0;
};

}  // namespace pitcrew::io
