#include "io/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "io/http_engine.h"
#include "io/http_exchange.h"
#include "io/proxy.h"

namespace pitcrew::io {
namespace {

bool IsToken(std::string_view name) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](unsigned char character) {
    return std::isalnum(character) != 0 ||
           kOthers.find(static_cast<char>(character)) != std::string_view::npos;
  });
}

// Nothing that comes from outside, a token with a newline in it for one, adds lines to a request.
base::Status CheckHead(const HttpRequest& request) {
  if (!IsToken(request.method)) {
    return base::Fail(base::Invalid("InvalidRequest",
                                    fmt::format("\"{}\" is not an HTTP method", request.method)));
  }
  for (const auto& header : request.headers) {
    const bool clean = std::ranges::none_of(header.value, [](unsigned char byte) {
      return (byte < ' ' && byte != '\t') || byte == 0x7F;
    });
    if (IsToken(header.name) && clean) continue;
    // Not the value: it may be a secret.
    return base::Fail(base::Invalid(
        "InvalidRequest",
        fmt::format("the value of the header \"{}\" has a line break or another control character",
                    header.name)));
  }
  return {};
}

class Client final : public HttpClient {
 public:
  explicit Client(std::unique_ptr<HttpEngine> engine)
      : engine_(std::move(engine)), proxies_(ProxyVariables::FromEnvironment()) {}

  base::Result<HttpResponse> Send(HttpRequest request, const StopToken& stop) override {
    TRY_ASSIGN(const auto exchange, Submit(std::move(request), stop, false));
    return exchange->WaitForEnd();
  }

  base::Result<std::unique_ptr<HttpStream>> Open(HttpRequest request,
                                                 const StopToken& stop) override;

  void Wake() { engine_->Wake(); }

 private:
  base::Result<ExchangePointer> Submit(HttpRequest request, const StopToken& stop, bool streaming) {
    if (stop.stopped()) return base::Fail(stop.error());
    TRY_ASSIGN(auto url, ParseUrl(request.url));
    TRY(CheckHead(request));
    TRY_ASSIGN(auto proxy, ProxyOf(request, url));
    auto exchange = std::make_shared<Exchange>(std::move(request), std::move(url), std::move(proxy),
                                               stop, streaming);
    engine_->Submit(exchange);
    return exchange;
  }

  [[nodiscard]] base::Result<std::optional<Url>> ProxyOf(const HttpRequest& request,
                                                         const Url& url) const {
    if (request.proxy_url.empty()) return proxies_.For(url);
    TRY_ASSIGN(auto proxy, ParseProxy(request.proxy_url, "proxy-url"));
    return proxy;
  }

  const std::unique_ptr<HttpEngine> engine_;
  const ProxySettings proxies_;
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
  TRY_ASSIGN(auto engine, HttpEngine::Create(options));
  return std::make_unique<Client>(std::move(engine));
}

}  // namespace pitcrew::io
