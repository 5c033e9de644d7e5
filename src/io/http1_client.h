// Exchanges over HTTP/1.1, each on a connection for itself, by libcurl on a thread of its own. Of
// http_client.cc.
#pragma once

#include <memory>

#include "base/result.h"
#include "io/http_exchange.h"

namespace pitcrew::io {

class Http1Client {
 public:
  static base::Result<std::unique_ptr<Http1Client>> Create();
  ~Http1Client();
  Http1Client(const Http1Client&) = delete;
  Http1Client& operator=(const Http1Client&) = delete;

  // Thread-safe, both.
  void Submit(ExchangePointer exchange);
  // Makes the I/O thread look at abandoned exchanges and at what readers have taken.
  void Wake();

 private:
  class Loop;
  explicit Http1Client(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace pitcrew::io
