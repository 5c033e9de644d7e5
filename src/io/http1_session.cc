#include "io/http1_session.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <utility>

namespace pitcrew::io {
namespace {

// Those that only read: sent twice, they have the same effect as once (Go's rule).
bool IsRepeatable(const HttpRequest& request) {
  return request.body.empty() && (request.method == "GET" || request.method == "HEAD");
}

}  // namespace

std::string FormatHttp1Head(const HttpRequest& request, const Url& url, const Url* asks_proxy) {
  const std::string authority = url.authority();
  std::string head = asks_proxy == nullptr
                         ? fmt::format("{} {} HTTP/1.1\r\n", request.method, url.target)
                         : fmt::format("{} {}://{}{} HTTP/1.1\r\n", request.method, url.scheme,
                                       authority, url.target);
  head += fmt::format("Host: {}\r\n", authority);
  if (asks_proxy != nullptr) {
    if (const auto credentials = BasicCredentials(*asks_proxy)) {
      head += fmt::format("Proxy-Authorization: {}\r\n", *credentials);
    }
  }
  for (const auto& header : request.headers) {
    head += fmt::format("{}: {}\r\n", header.name, header.value);
  }
  if (HasBody(request)) head += fmt::format("Content-Length: {}\r\n", request.body.size());
  return head + "\r\n";
}

Http1Session::Http1Session(Connection connection, std::optional<Url> proxy,
                           HttpClientOptions options, OnEnd on_end)
    : connection_(std::move(connection)),
      proxy_(std::move(proxy)),
      options_(options),
      on_end_(std::move(on_end)) {}

void Http1Session::Begin(const ExchangePointer& exchange) {
  exchange_ = exchange;
  const HttpRequest& request = exchange->request;
  parser_ = Http1Parser(request.method == "HEAD" ? Http1Parser::Body::kNone
                                                 : Http1Parser::Body::kExpected);
  head_ = FormatHttp1Head(request, exchange->url, proxy_ ? &*proxy_ : nullptr);
  sent_ = 0;
  ++served_;
}

bool Http1Session::Cancel(const ExchangePointer& exchange) {
  if (exchange_ != exchange) return false;
  // The rest of the answer would come before the next one's.
  exchange_ = nullptr;
  broken_ = true;
  return true;
}

bool Http1Session::held_back() const {
  return exchange_ != nullptr && exchange_->streaming && exchange_->backlog() >= kStreamWindow;
}

std::string_view Http1Session::unsent() const {
  if (exchange_ == nullptr) return {};
  if (sent_ < head_.size()) return std::string_view(head_).substr(sent_);
  return std::string_view(exchange_->request.body).substr(sent_ - head_.size());
}

short Http1Session::events() const {
  const bool read = !held_back();
  const bool write = unsent().empty() ? read && connection_.wants_write() : write_waits_for_room_;
  return static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0));
}

base::Deadline Http1Session::deadline() const {
  if (more_to_read_) return Clock::time_point::min();
  if (exchange_ == nullptr) return last_used_ + options_.close_unused_after;
  return base::Deadline::Never();
}

base::Result<bool> Http1Session::Work(Clock::time_point now) {
  if (exchange_ != nullptr && exchange_->streaming) {
    static_cast<void>(exchange_->TakeCredit());  // backlog() is all that is needed of it
  }
  // A server may answer and hang up before it has read the whole request: what it says counts.
  const auto written = Write();
  TRY(Read());
  if (!written) return base::Fail(written.error());
  return !broken_ && (exchange_ != nullptr || now - last_used_ < options_.close_unused_after);
}

base::Status Http1Session::Write() {
  for (;;) {
    const std::string_view bytes = unsent();
    if (bytes.empty()) return {};
    TRY_ASSIGN(const auto count, connection_.Write(bytes));
    write_waits_for_room_ = !count && connection_.wants_write();
    if (!count) return {};
    sent_ += *count;
  }
}

base::Status Http1Session::Read() {
  std::array<char, kReadSize> buffer{};
  std::size_t total = 0;
  more_to_read_ = false;
  while (!broken_ && !held_back()) {
    TRY_ASSIGN(const auto count, connection_.Read(buffer));
    if (!count) return {};
    if (exchange_ == nullptr) {
      // Its end, or an answer to nothing.
      broken_ = true;
      return {};
    }
    if (*count == 0) {
      TRY(parser_.End());
    } else {
      exchange_->NoteByte();
      TRY(parser_.Feed({buffer.data(), *count}));
    }
    Deliver();
    total += *count;
    if (total >= kReadAtOnce) {
      more_to_read_ = !broken_;
      return {};
    }
  }
  return {};
}

void Http1Session::Deliver() {
  if (auto head = parser_.TakeHead()) {
    exchange_->PublishHead(head->status, std::move(head->headers));
  }
  if (const std::string body = parser_.TakeBody(); !body.empty()) exchange_->Append(body);
  if (!parser_.done()) return;
  // An answer before the whole request: the server may still wait for the rest.
  if (!parser_.keep_alive() || !unsent().empty()) broken_ = true;
  End(Outcome::kDone, std::nullopt);
}

void Http1Session::End(Outcome outcome, std::optional<base::Error> error) {
  last_used_ = Clock::now();
  const ExchangePointer ended = std::exchange(exchange_, nullptr);
  on_end_(ended, outcome, std::move(error));
}

void Http1Session::Close(const base::Error& error) {
  broken_ = true;
  if (exchange_ == nullptr) return;
  // A connection that lay unused may have been ended by the server at the moment it was used again.
  const bool too_late = served_ > 1 && !parser_.started() &&
                        error.code == base::Code::kUnavailable && IsRepeatable(exchange_->request);
  if (too_late) {
    End(Outcome::kTryAgain, std::nullopt);
  } else {
    End(Outcome::kDone, exchange_->Failure(error.code, error.reason, error.message));
  }
}

}  // namespace pitcrew::io
