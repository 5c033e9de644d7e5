// Exchanges over HTTP/2 and HTTP/1.1 on a thread of its own: connections to each server, made when
// an exchange needs one and shared as far as the protocol allows. Of http_client.cc.
#pragma once

#include <memory>

#include "base/result.h"
#include "io/http_exchange.h"

namespace pitcrew::io {

class HttpEngine {
 public:
  static base::Result<std::unique_ptr<HttpEngine>> Create(HttpClientOptions options);
  ~HttpEngine();
  HttpEngine(const HttpEngine&) = delete;
  HttpEngine& operator=(const HttpEngine&) = delete;

  // Thread-safe, both.
  void Submit(ExchangePointer exchange);
  // Makes the I/O thread look at abandoned exchanges and at what readers have taken.
  void Wake();

 private:
  class Loop;
  explicit HttpEngine(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace pitcrew::io
