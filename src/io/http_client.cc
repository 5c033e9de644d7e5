#include "io/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "io/http_exchange.h"

namespace pitcrew::io {
namespace {

using Clock = std::chrono::steady_clock;
using ExchangePointer = std::shared_ptr<Exchange>;

// A call that has got nothing for so long is looked at again by hand (CurlClient::Nudge).
constexpr std::chrono::milliseconds kNudgeAfter{500};
// A connection on which nothing has come for so long, while an answer was due, is taken for dead.
constexpr std::chrono::seconds kLongestSilence{30};

base::Error Stopped() {
  return {.code = base::Code::kCancelled, .reason = "Stopped", .message = "stopped while waiting"};
}

class CurlClient;

class CurlStream final : public HttpStream {
 public:
  CurlStream(CurlClient& client, ExchangePointer exchange)
      : client_(client), exchange_(std::move(exchange)) {
    const std::scoped_lock lock(exchange_->mutex);
    head_ = exchange_->response;
  }
  ~CurlStream() override;
  CurlStream(const CurlStream&) = delete;
  CurlStream& operator=(const CurlStream&) = delete;

  [[nodiscard]] const HttpResponse& head() const override { return head_; }

  base::Result<std::optional<std::string>> Next() override {
    std::unique_lock lock(exchange_->mutex);
    exchange_->changed.wait(lock, [&] { return !exchange_->chunk.empty() || exchange_->done; });
    if (!exchange_->chunk.empty()) return std::exchange(exchange_->chunk, {});
    if (exchange_->error) return base::Fail(*exchange_->error);
    return std::nullopt;
  }

 private:
  CurlClient& client_;
  ExchangePointer exchange_;
  HttpResponse head_;
};

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(CURLM* multi) : multi_(multi), thread_([this] { Run(); }) {}

  ~CurlClient() override {
    {
      const std::scoped_lock lock(mutex_);
      quit_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    curl_multi_cleanup(multi_);
  }
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;

  base::Result<HttpResponse> Send(HttpRequest request, const StopToken& stop) override {
    if (stop.stopped()) return base::Fail(Stopped());
    auto exchange = Submit(std::move(request), stop, false);
    std::unique_lock lock(exchange->mutex);
    exchange->changed.wait(lock, [&] { return exchange->done; });
    if (exchange->error) return base::Fail(*exchange->error);
    return std::move(exchange->response);
  }

  base::Result<std::unique_ptr<HttpStream>> Open(HttpRequest request,
                                                 const StopToken& stop) override {
    if (stop.stopped()) return base::Fail(Stopped());
    auto exchange = Submit(std::move(request), stop, true);
    {
      std::unique_lock lock(exchange->mutex);
      exchange->changed.wait(lock, [&] { return exchange->head_ready || exchange->done; });
      if (!exchange->head_ready) return base::Fail(*exchange->error);
    }
    return std::make_unique<CurlStream>(*this, std::move(exchange));
  }

  void Abandon(const ExchangePointer& exchange) {
    {
      const std::scoped_lock lock(mutex_);
      abandoned_.push_back(exchange);
    }
    curl_multi_wakeup(multi_);
  }

 private:
  ExchangePointer Submit(HttpRequest request, const StopToken& stop, bool streaming) {
    auto exchange = std::make_shared<Exchange>();
    exchange->request = std::move(request);
    exchange->stop = stop;
    exchange->streaming = streaming;
    {
      const std::scoped_lock lock(mutex_);
      submitted_.push_back(exchange);
    }
    curl_multi_wakeup(multi_);
    return exchange;
  }

  void Run() {
    while (TakeOrders()) {
      int running = 0;
      curl_multi_perform(multi_, &running);
      FinishCompleted();
      FinishStoppedAndIdle();
      Nudge();
      WaitForSomething();
    }
    while (!active_.empty()) Finish(active_.begin()->second, Stopped());
  }

  // False when the client is being destroyed.
  bool TakeOrders() {
    std::vector<ExchangePointer> submitted;
    std::vector<ExchangePointer> abandoned;
    bool quit = false;
    {
      const std::scoped_lock lock(mutex_);
      submitted.swap(submitted_);
      abandoned.swap(abandoned_);
      quit = quit_;
    }
    for (const auto& exchange : submitted) Begin(exchange);
    for (const auto& exchange : abandoned) {
      if (active_.contains(exchange.get())) Finish(exchange, Stopped());
    }
    return !quit;
  }

  void Begin(const ExchangePointer& exchange) {
    exchange->started = exchange->last_byte = Clock::now();
    if (!ConfigureExchange(*exchange, sockets_)) {
      Complete(*exchange, base::Invalid("InvalidUrl", fmt::format("\"{}\" is not an http or https "
                                                                  "URL",
                                                                  exchange->request.url)));
      return;
    }
    active_.emplace(exchange.get(), exchange);
    curl_multi_add_handle(multi_, exchange->handle);
  }

  void FinishCompleted() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      Exchange* exchange = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
      const ExchangePointer owner = active_.at(exchange);
      if (code == CURLE_OPERATION_TIMEDOUT) {
        ShutIfSilent(*exchange);
      } else if (code == CURLE_OK) {
        heard_[exchange->local_port] = exchange->last_byte;
      }
      Finish(owner,
             code == CURLE_OK ? std::nullopt : std::optional(ErrorFromCurl(code, *exchange)));
    }
  }

  void FinishStoppedAndIdle() {
    const auto now = Clock::now();
    std::vector<std::pair<ExchangePointer, base::Error>> ended;
    for (const auto& [key, exchange] : active_) {
      if (exchange->stop.stopped()) {
        ended.emplace_back(exchange, Stopped());
      } else if (const auto idle = exchange->request.idle_timeout;
                 idle.count() > 0 && now - exchange->last_byte >= idle) {
        ended.emplace_back(
            exchange,
            base::Error{.code = base::Code::kTimeout,
                        .reason = "IdleTimeout",
                        .message = fmt::format("{} {}: no byte for {} ms", exchange->request.method,
                                               exchange->request.url, idle.count())});
      }
    }
    for (auto& [exchange, error] : ended) {
      if (error.code == base::Code::kTimeout) ShutIfSilent(*exchange);
      Finish(exchange, std::move(error));
    }
  }

  // Something between us and the server may have forgotten the connection and go on to acknowledge
  // what we send, so that TCP sees nothing wrong. HTTP/2 would put every further request onto it:
  // it is ended here, together with all that still waits on it.
  void ShutIfSilent(const Exchange& timed_out) {
    const int port = timed_out.local_port;
    if (port == 0) return;
    const auto since = std::max(timed_out.started, Clock::now() - kLongestSilence);
    if (const auto heard = heard_.find(port); heard != heard_.end() && heard->second >= since) {
      return;
    }
    for (const auto& [key, exchange] : active_) {
      if (exchange->local_port == port && exchange->last_byte > exchange->started &&
          exchange->last_byte >= since) {
        return;
      }
    }
    sockets_.Shut(port);
  }

  // With several streams on one connection libcurl 7.88 now and then leaves what it has read for
  // one of them lying, with nothing to wake it up, until the request times out (seen about once in
  // a thousand lists). Ending a pause makes it look again. Calls only: a watch whose event lies is
  // woken by whatever comes next on the connection.
  void Nudge() {
    const auto now = Clock::now();
    for (const auto& [key, exchange] : active_) {
      if (exchange->streaming || exchange->local_port == 0 ||
          now - std::max(exchange->last_byte, exchange->nudged) < kNudgeAfter) {
        continue;
      }
      exchange->nudged = now;
      curl_easy_pause(exchange->handle, CURLPAUSE_SEND);
      curl_easy_pause(exchange->handle, CURLPAUSE_CONT);
    }
  }

  void WaitForSomething() {
    const auto now = Clock::now();
    std::chrono::milliseconds wait{60000};  // curl shortens it to its own next timer
    std::vector<curl_waitfd> stops;
    for (const auto& [key, exchange] : active_) {
      if (!exchange->streaming) wait = std::min(wait, kNudgeAfter);
      if (const auto idle = exchange->request.idle_timeout; idle.count() > 0) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(exchange->last_byte + idle - now);
        wait = std::clamp(left, std::chrono::milliseconds(0), wait);
      }
      const int fd = exchange->stop.fd();
      if (fd < 0 || std::any_of(
                        stops.begin(), stops.end(),
                        [&](const curl_waitfd& known) { return known.fd == fd; })) {
        continue;
      }
      stops.push_back({.fd = fd, .events = CURL_WAIT_POLLIN, .revents = 0});
    }
    curl_multi_poll(multi_, stops.data(), static_cast<unsigned int>(stops.size()),
                    static_cast<int>(wait.count()), nullptr);
  }

  // By value: the map's own pointer goes away in here.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void Finish(ExchangePointer exchange, std::optional<base::Error> error) {
    curl_multi_remove_handle(multi_, exchange->handle);
    curl_easy_cleanup(std::exchange(exchange->handle, nullptr));
    active_.erase(exchange.get());
    Complete(*exchange, std::move(error));
  }

  static void Complete(Exchange& exchange, std::optional<base::Error> error) {
    const std::scoped_lock lock(exchange.mutex);
    exchange.response.body = std::move(exchange.incoming.body);
    if (!error && !exchange.head_ready) {
      error = base::Unavailable(
          "ConnectionLost",
          fmt::format("{} {}: no answer", exchange.request.method, exchange.request.url));
    }
    exchange.error = std::move(error);
    exchange.done = true;
    exchange.changed.notify_all();
  }

  CURLM* multi_;
  std::mutex mutex_;
  std::vector<ExchangePointer> submitted_;
  std::vector<ExchangePointer> abandoned_;
  bool quit_ = false;
  std::unordered_map<Exchange*, ExchangePointer> active_;  // of the I/O thread
  // When the last answer came on a connection, by its local port; of the I/O thread.
  std::unordered_map<int, Clock::time_point> heard_;
  Sockets sockets_;
  std::thread thread_;  // last: uses everything above
};

CurlStream::~CurlStream() { client_.Abandon(exchange_); }

}  // namespace

std::optional<std::string_view> HttpResponse::header(std::string_view name) const {
  for (const auto& header : headers) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

base::Result<std::unique_ptr<HttpClient>> HttpClient::Create() {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialized != CURLE_OK) {
    return base::Fail(base::Internal("HttpFailed", curl_easy_strerror(initialized)));
  }
  CURLM* multi = curl_multi_init();
  if (multi == nullptr) return base::Fail(base::Internal("HttpFailed", "curl_multi_init failed"));
  curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, 250L);
  return std::make_unique<CurlClient>(multi);
}

}  // namespace pitcrew::io
