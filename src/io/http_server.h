// A small HTTP/1.1 server for health and metrics endpoints.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace pitcrew::io {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Serves GET requests from its own thread until it is destroyed. Handlers run on that server's
// threads and must be thread-safe.
class HttpServer {
 public:
  using Handler = std::function<HttpAnswer()>;

  // `address` as Go writes it: ":8080", "127.0.0.1:8081", "[::1]:9000"; port 0 takes a free one.
  // kInvalid for an address of another form; kUnavailable when it cannot be bound.
  static base::Result<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                         std::map<std::string, Handler> handlers);
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual int port() const = 0;
};

}  // namespace pitcrew::io
