#include "io/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>

#include "io/http1_client.h"
#include "io/http2_client.h"
#include "io/http_exchange.h"

namespace pitcrew::io {
namespace {

// Whether the request may have to go through a proxy. Which hosts the environment excepts is left
// to libcurl.
bool MayUseProxy(const HttpRequest& request, const UrlParts& url) {
  if (!request.proxy_url.empty()) return true;
  if (IsLoopback(url.host)) return false;
  constexpr std::array<const char*, 4> kVariables{"https_proxy", "HTTPS_PROXY", "all_proxy",
                                                  "ALL_PROXY"};
  return std::any_of(kVariables.begin(), kVariables.end(), [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  });
}

// Sends each exchange to the engine that fits its server.
class Client final : public HttpClient {
 public:
  Client(std::unique_ptr<Http1Client> http1, std::unique_ptr<Http2Client> http2)
      : http1_(std::move(http1)), http2_(std::move(http2)) {}

  base::Result<HttpResponse> Send(HttpRequest request, const StopToken& stop) override {
    TRY_ASSIGN(const auto exchange, Submit(std::move(request), stop, false));
    return exchange->WaitForEnd();
  }

  base::Result<std::unique_ptr<HttpStream>> Open(HttpRequest request,
                                                 const StopToken& stop) override;

  void Wake() {
    http2_->Wake();
    http1_->Wake();
  }

 private:
  base::Result<ExchangePointer> Submit(HttpRequest request, const StopToken& stop, bool streaming) {
    if (stop.stopped()) return base::Fail(stop.error());
    auto url = SplitUrl(request.url);
    if (!url) {
      return base::Fail(base::Invalid(
          "InvalidUrl", fmt::format("\"{}\" is not an http or https URL", request.url)));
    }
    const bool http2 = url->scheme == "https" && !MayUseProxy(request, *url);
    auto exchange =
        std::make_shared<Exchange>(std::move(request), *std::move(url), stop, streaming);
    if (http2) {
      http2_->Submit(exchange);
    } else {
      http1_->Submit(exchange);
    }
    return exchange;
  }

  std::unique_ptr<Http1Client> http1_;
  std::unique_ptr<Http2Client> http2_;  // behind http1_, to which it hands exchanges
};

class Stream final : public HttpStream {
 public:
  Stream(Client& client, ExchangePointer exchange, HttpResponse head)
      : client_(client), exchange_(std::move(exchange)), head_(std::move(head)) {}
  ~Stream() override {
    exchange_->Abandon();
    client_.Wake();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] const HttpResponse& head() const override { return head_; }

  base::Result<std::optional<std::string>> Next() override {
    bool credit_due = false;
    auto chunk = exchange_->TakeChunk(credit_due);
    if (credit_due) client_.Wake();
    return chunk;
  }

 private:
  Client& client_;
  ExchangePointer exchange_;
  HttpResponse head_;
};

base::Result<std::unique_ptr<HttpStream>> Client::Open(HttpRequest request, const StopToken& stop) {
  TRY_ASSIGN(auto exchange, Submit(std::move(request), stop, true));
  TRY_ASSIGN(auto head, exchange->WaitForHead());
  return std::make_unique<Stream>(*this, std::move(exchange), std::move(head));
}

}  // namespace

std::optional<std::string_view> HttpResponse::header(std::string_view name) const {
  for (const auto& header : headers) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

base::Result<std::unique_ptr<HttpClient>> HttpClient::Create(HttpClientOptions options) {
  TRY_ASSIGN(auto http1, Http1Client::Create());
  TRY_ASSIGN(auto http2,
             Http2Client::Create(options, [http1 = http1.get()](ExchangePointer exchange) {
               http1->Submit(std::move(exchange));
             }));
  return std::make_unique<Client>(std::move(http1), std::move(http2));
}

}  // namespace pitcrew::io
