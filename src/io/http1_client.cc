#include "io/http1_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <thread>
#include <unordered_map>
#include <utility>

#include "io/http1_transfer.h"

namespace pitcrew::io {

class Http1Client::Loop {
 public:
  explicit Loop(CURLM* multi) : multi_(multi), thread_([this] { Run(); }) {}

  ~Loop() {
    inbox_.Close();
    Wake();
    thread_.join();
    curl_multi_cleanup(multi_);
  }

  void Submit(ExchangePointer exchange) {
    inbox_.Add(std::move(exchange));
    Wake();
  }

  void Wake() { curl_multi_wakeup(multi_); }

 private:
  void Run() {
    BlockSignals();
    while (auto submitted = inbox_.TakeAll()) {
      for (auto& exchange : *submitted) Begin(std::move(exchange));
      for (const auto& [handle, transfer] : transfers_) transfer->Continue();
      int running = 0;
      curl_multi_perform(multi_, &running);
      EndCompleted();
      ExpireExchanges();
      Wait();
    }
    while (!transfers_.empty()) End(transfers_.begin()->first, Ended());
  }

  static base::Error Ended() {
    return {.code = base::Code::kCancelled, .reason = "Stopped", .message = "the client ends"};
  }

  void Begin(ExchangePointer exchange) {
    auto transfer = std::make_unique<Http1Transfer>(std::move(exchange));
    CURL* handle = transfer->handle();
    transfers_.emplace(handle, std::move(transfer));
    curl_multi_add_handle(multi_, handle);
  }

  void EndCompleted() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* handle = message->easy_handle;
      const CURLcode code = message->data.result;
      std::optional<base::Error> error;
      if (code != CURLE_OK) error = transfers_.at(handle)->Failure(code);
      End(handle, std::move(error));
    }
  }

  void ExpireExchanges() {
    const auto now = Clock::now();
    std::vector<std::pair<CURL*, base::Error>> ended;
    for (const auto& [handle, transfer] : transfers_) {
      if (auto why = transfer->exchange()->WhyEnd(now)) ended.emplace_back(handle, *std::move(why));
    }
    for (auto& [handle, error] : ended) End(handle, std::move(error));
  }

  void End(CURL* handle, std::optional<base::Error> error) {
    const auto found = transfers_.find(handle);
    const std::unique_ptr<Http1Transfer> transfer = std::move(found->second);
    transfers_.erase(found);
    curl_multi_remove_handle(multi_, handle);
    transfer->exchange()->Complete(std::move(error));
  }

  void Wait() {
    std::chrono::milliseconds wait{60000};  // curl shortens it to its own next timer
    std::vector<curl_waitfd> stops;
    const auto now = Clock::now();
    for (const auto& [handle, transfer] : transfers_) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(transfer->exchange()->deadline().left(now));
      wait = std::min(left, wait);
      const int fd = transfer->exchange()->stop.fd();
      if (fd >= 0 && std::none_of(stops.begin(), stops.end(),
                                  [&](const curl_waitfd& known) { return known.fd == fd; })) {
        stops.push_back({.fd = fd, .events = CURL_WAIT_POLLIN, .revents = 0});
      }
    }
    curl_multi_poll(multi_, stops.data(), static_cast<unsigned int>(stops.size()),
                    static_cast<int>(wait.count()), nullptr);
  }

  CURLM* const multi_;
  Inbox inbox_;
  std::unordered_map<CURL*, std::unique_ptr<Http1Transfer>> transfers_;  // of the I/O thread
  std::thread thread_;  // last: uses everything above
};

base::Result<std::unique_ptr<Http1Client>> Http1Client::Create() {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialized != CURLE_OK) {
    return base::Fail(base::Internal("HttpFailed", curl_easy_strerror(initialized)));
  }
  CURLM* multi = curl_multi_init();
  if (multi == nullptr) return base::Fail(base::Internal("HttpFailed", "curl_multi_init failed"));
  return std::unique_ptr<Http1Client>(new Http1Client(std::make_unique<Loop>(multi)));
}

Http1Client::Http1Client(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Http1Client::~Http1Client() = default;

void Http1Client::Submit(ExchangePointer exchange) { loop_->Submit(std::move(exchange)); }
void Http1Client::Wake() { loop_->Wake(); }

}  // namespace pitcrew::io
