// One request on its way: between the thread that asked and the I/O thread of the engine. Of
// http_client.cc and http_engine.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/http_client.h"
#include "io/stop.h"
#include "io/url.h"

namespace pitcrew::io {

using Clock = std::chrono::steady_clock;

// A connection has to be there after this time.
constexpr std::chrono::seconds kConnectTimeout{10};
// What TCP has sent is acknowledged after this time, or the connection is dead.
constexpr std::chrono::seconds kUnacknowledgedTimeout{30};
// Bytes of a stream that may wait for its reader; the server is held back beyond them.
constexpr std::size_t kStreamWindow = 4U << 20U;

// Whether the request says how long its body is, be it empty.
bool HasBody(const HttpRequest& request);

class Exchange {
 public:
  Exchange(HttpRequest request_in, Url url_in, std::optional<Url> proxy_in, StopToken stop_in,
           bool streaming_in)
      : request(std::move(request_in)),
        url(std::move(url_in)),
        proxy(std::move(proxy_in)),
        stop(std::move(stop_in)),
        streaming(streaming_in) {}

  const HttpRequest request;
  const Url url;
  const std::optional<Url> proxy;
  const StopToken stop;
  const bool streaming;

  // Of the I/O thread.
  Clock::time_point started = Clock::now();
  Clock::time_point idle_since = started;  // the last byte, or the begin on a connection
  bool heard = false;                      // any byte of the answer has come
  int attempts = 0;                        // connections on which it was begun
  bool suspected = false;                  // its connection has been asked for a sign of life

  // The I/O thread's side.
  void NoteByte() {
    idle_since = Clock::now();
    heard = true;
  }
  void PublishHead(int status, std::vector<HttpHeader> headers);
  void Append(std::string_view bytes);
  // The end; nothing follows. An exchange that ends well without a head has lost its connection.
  void Complete(std::optional<base::Error> error);
  // Bytes that the reader has taken since the last call.
  [[nodiscard]] std::size_t TakeCredit();
  // Bytes that wait for the reader.
  [[nodiscard]] std::size_t backlog() const;
  // Why it has to end now: nobody waits for it any more, its deadline, the silence of the server.
  // Nothing: it may go on.
  [[nodiscard]] std::optional<base::Error> WhyEnd(Clock::time_point now) const;
  // Whether its connection has to prove now that it works.
  [[nodiscard]] bool SuspectsConnection(Clock::time_point now) const;
  // The moment at which WhyEnd and SuspectsConnection have to be asked again.
  [[nodiscard]] base::Deadline deadline() const;
  // An error that names the request.
  [[nodiscard]] base::Error Failure(base::Code code, std::string reason,
                                    std::string_view detail) const;

  // The caller's side. WaitForHead's response has no body.
  [[nodiscard]] base::Result<HttpResponse> WaitForHead();
  [[nodiscard]] base::Result<HttpResponse> WaitForEnd();
  // As HttpStream::Next. `credit_due` is set when the I/O thread should be told to look at what
  // the reader has taken.
  [[nodiscard]] base::Result<std::optional<std::string>> TakeChunk(bool& credit_due);
  void Abandon() { abandoned_ = true; }

 private:
  std::atomic<bool> abandoned_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;
  std::string chunk_;       // of a stream: arrived, not yet taken
  std::size_t credit_ = 0;  // of a stream: taken, not yet told to the server
  bool head_ready_ = false;
  bool done_ = false;
  std::optional<base::Error> error_;
};

using ExchangePointer = std::shared_ptr<Exchange>;

// What callers have submitted and the I/O thread has not taken yet. Thread-safe.
class Inbox {
 public:
  void Add(ExchangePointer exchange);
  // The engine is being destroyed.
  void Close();
  // What was added since the last call; nothing once it is closed.
  [[nodiscard]] std::optional<std::vector<ExchangePointer>> TakeAll();

 private:
  std::mutex mutex_;
  std::vector<ExchangePointer> exchanges_;
  bool closed_ = false;
};

// For I/O threads: writing to a connection that the server has closed must not end the process;
// signals are for the threads that wait for them.
void BlockSignals();

}  // namespace pitcrew::io
