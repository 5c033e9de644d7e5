#include "io/http_exchange.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace pitcrew::io {

using base::Code;
using base::Error;

void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void Inbox::Add(ExchangePointer exchange) {
  const std::scoped_lock lock(mutex_);
  exchanges_.push_back(std::move(exchange));
}

void Inbox::Close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
}

std::optional<std::vector<ExchangePointer>> Inbox::TakeAll() {
  const std::scoped_lock lock(mutex_);
  if (closed_) return std::nullopt;
  return std::exchange(exchanges_, {});
}

void Exchange::PublishHead(int status, std::vector<HttpHeader> headers) {
  const std::scoped_lock lock(mutex_);
  response_.status = status;
  response_.headers = std::move(headers);
  head_ready_ = true;
  changed_.notify_all();
}

void Exchange::Append(std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  if (!streaming) {
    response_.body.append(bytes);
    return;
  }
  chunk_.append(bytes);
  changed_.notify_all();
}

void Exchange::Complete(std::optional<Error> error) {
  const std::scoped_lock lock(mutex_);
  if (!error && !head_ready_) error = Failure(Code::kUnavailable, "ConnectionLost", "no answer");
  error_ = std::move(error);
  done_ = true;
  changed_.notify_all();
}

std::size_t Exchange::TakeCredit() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(credit_, 0);
}

std::size_t Exchange::backlog() const {
  const std::scoped_lock lock(mutex_);
  return chunk_.size();
}

std::optional<Error> Exchange::WhyEnd(Clock::time_point now) const {
  if (stop.stopped()) return stop.error();
  if (abandoned_) return Failure(Code::kCancelled, "Stopped", "nobody waits for the answer");
  if (request.deadline.passed(now)) {
    const auto given =
        std::chrono::round<std::chrono::milliseconds>(request.deadline.at() - started);
    return Failure(Code::kTimeout, "RequestTimeout",
                   fmt::format("no whole answer within {} ms", std::max(0L, given.count())));
  }
  if (request.idle_timeout.count() > 0 && now - idle_since >= request.idle_timeout) {
    return Failure(Code::kTimeout, "IdleTimeout",
                   fmt::format("no byte for {} ms", request.idle_timeout.count()));
  }
  return std::nullopt;
}

bool Exchange::SuspectsConnection(Clock::time_point now) const {
  return request.suspect_after.count() > 0 && !suspected && !heard &&
         now - started >= request.suspect_after;
}

base::Deadline Exchange::deadline() const {
  base::Deadline first = request.deadline;
  if (request.idle_timeout.count() > 0) {
    first = std::min<base::Deadline>(first, idle_since + request.idle_timeout);
  }
  if (request.suspect_after.count() > 0 && !suspected && !heard) {
    first = std::min<base::Deadline>(first, started + request.suspect_after);
  }
  return first;
}

Error Exchange::Failure(Code code, std::string reason, std::string_view detail) const {
  return {.code = code,
          .reason = std::move(reason),
          .message = fmt::format("{} {}: {}", request.method, request.url, detail)};
}

base::Result<HttpResponse> Exchange::WaitForHead() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return head_ready_ || done_; });
  if (!head_ready_) return base::Fail(*error_);
  return HttpResponse{.status = response_.status, .headers = response_.headers};
}

base::Result<HttpResponse> Exchange::WaitForEnd() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_; });
  if (error_) return base::Fail(*error_);
  return std::move(response_);
}

base::Result<std::optional<std::string>> Exchange::TakeChunk(bool& credit_due) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !chunk_.empty() || done_; });
  if (!chunk_.empty()) {
    credit_ += chunk_.size();
    credit_due = credit_ >= kStreamWindow / 2;
    return std::exchange(chunk_, {});
  }
  if (error_) return base::Fail(*error_);
  return std::nullopt;
}

bool HasBody(const HttpRequest& request) {
  return !request.body.empty() || request.method == "POST" || request.method == "PUT" ||
         request.method == "PATCH";
}

}  // namespace pitcrew::io
