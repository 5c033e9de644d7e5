// Exchanges over HTTP/2, one connection for each server, on a thread of its own. Of http_client.cc.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "io/http_exchange.h"

namespace pitcrew::io {

class Http2Client {
 public:
  // Gets the exchanges with servers that do not speak HTTP/2; called from the I/O thread.
  using Fallback = std::function<void(ExchangePointer)>;

  static base::Result<std::unique_ptr<Http2Client>> Create(HttpClientOptions options,
                                                           Fallback fallback);
  ~Http2Client();
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // Thread-safe, both.
  void Submit(ExchangePointer exchange);
  // Makes the I/O thread look at abandoned exchanges and at what readers have taken.
  void Wake();

 private:
  class Loop;
  explicit Http2Client(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace pitcrew::io
