// What libcurl is told about one exchange. Of http1_client.cc.
#pragma once

#include <curl/curl.h>

#include <string>
#include <vector>

#include "io/http_exchange.h"

namespace pitcrew::io {

// curl keeps its address while the transfer runs.
class Http1Transfer {
 public:
  explicit Http1Transfer(ExchangePointer exchange);
  ~Http1Transfer();
  Http1Transfer(const Http1Transfer&) = delete;
  Http1Transfer& operator=(const Http1Transfer&) = delete;

  [[nodiscard]] CURL* handle() const { return handle_; }
  [[nodiscard]] const ExchangePointer& exchange() const { return exchange_; }
  // What curl's result means for the caller.
  [[nodiscard]] base::Error Failure(CURLcode code) const;
  // Goes on with a transfer that waited for its reader, when that has taken what there was.
  void Continue();

 private:
  void ConfigureTls();
  void ConfigureTarget();
  void ConfigureMethod();
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* context);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* context);

  const ExchangePointer exchange_;
  CURL* const handle_;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  char message_[CURL_ERROR_SIZE] = {};
  std::vector<HttpHeader> arrived_{};
  bool paused_ = false;
};

}  // namespace pitcrew::io
