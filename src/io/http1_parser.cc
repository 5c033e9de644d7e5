#include "io/http1_parser.h"

#include <fmt/format.h>

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "base/strings.h"

namespace pitcrew::io {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

constexpr std::uint32_t kLongestHead = 64U << 10U;
// Nobody sends more than one or two; a server that sends no end of them is given up.
constexpr int kMostInformational = 16;

std::string_view Text(string_view text) { return {text.data(), text.size()}; }

base::Error NotHttp(std::string_view what) {
  return base::Unavailable("ConnectionLost",
                           fmt::format("the answer is not HTTP/1.1 as it should be: {}", what));
}

}  // namespace

class Http1Parser::Message final : public http::basic_parser<false> {
 public:
  explicit Message(Body expected) {
    header_limit(kLongestHead);
    body_limit(boost::none);
    eager(true);
    skip(expected == Body::kNone);
  }

  HttpResponse head;
  bool head_done = false;
  std::size_t head_size = 0;
  std::string body;

 private:
  void on_request_impl(http::verb /*method*/, string_view /*name*/, string_view /*target*/,
                       int /*version*/, error_code& /*problem*/) override {}
  void on_response_impl(int code, string_view /*reason*/, int /*version*/,
                        error_code& problem) override {
    if (code < 100) problem = http::error::bad_status;
    head.status = code;
  }
  void on_field_impl(http::field /*field*/, string_view name, string_view value,
                     error_code& problem) override {
    if (head_done) return;  // a trailer
    head_size += name.size() + value.size();
    if (head_size > kLongestHead) {
      problem = http::error::header_limit;
      return;
    }
    head.headers.push_back({base::ToLower(Text(name)), std::string(Text(value))});
  }
  void on_header_impl(error_code& /*problem*/) override { head_done = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         error_code& /*problem*/) override {}
  std::size_t on_body_impl(string_view bytes, error_code& /*problem*/) override {
    body.append(Text(bytes));
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, string_view /*extensions*/,
                            error_code& /*problem*/) override {}
  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, string_view bytes,
                                 error_code& /*problem*/) override {
    body.append(Text(bytes));
    return bytes.size();
  }
  void on_finish_impl(error_code& /*problem*/) override {}
};

Http1Parser::Http1Parser(Body body) : body_(body) { Begin(); }
Http1Parser::~Http1Parser() = default;
Http1Parser::Http1Parser(Http1Parser&&) noexcept = default;
Http1Parser& Http1Parser::operator=(Http1Parser&&) noexcept = default;

void Http1Parser::Begin() { message_ = std::make_unique<Message>(body_); }

base::Status Http1Parser::Feed(std::string_view bytes) {
  if (bytes.empty()) return {};
  started_ = true;
  pending_.append(bytes);
  return Parse();
}

base::Status Http1Parser::Parse() {
  std::size_t used = 0;
  while (used < pending_.size()) {
    if (message_->is_done()) break;
    const std::string_view left = std::string_view(pending_).substr(used);
    error_code problem;
    const std::size_t count = message_->put(boost::asio::buffer(left.data(), left.size()), problem);
    used += count;
    if (problem && problem != http::error::need_more) {
      return base::Fail(NotHttp(problem.message()));
    }
    if (message_->is_done() && message_->head.status / 100 == 1) {
      if (message_->head.status == 101) return base::Fail(NotHttp("it switches the protocol"));
      if (++informational_ > kMostInformational) return base::Fail(NotHttp("too many 1xx heads"));
      Begin();
      continue;
    }
    if (count == 0) break;
  }
  pending_.erase(0, used);
  if (pending_.size() > kLongestHead) return base::Fail(NotHttp("a line without an end"));
  return {};
}

base::Status Http1Parser::End() {
  if (message_->is_done()) return {};
  if (!message_->got_some() || !pending_.empty()) {
    return base::Fail(base::Unavailable("ConnectionLost", "the server ended the connection"));
  }
  error_code problem;
  message_->put_eof(problem);
  if (!problem) return {};
  return base::Fail(
      base::Unavailable("ConnectionLost", "the server ended the connection within its answer"));
}

std::optional<HttpResponse> Http1Parser::TakeHead() {
  const bool final = message_->head_done && message_->head.status / 100 != 1;
  if (!final || message_->head.status == 0) return std::nullopt;
  return std::exchange(message_->head, {});
}

std::string Http1Parser::TakeBody() { return std::exchange(message_->body, {}); }

bool Http1Parser::done() const { return message_->is_done(); }

bool Http1Parser::keep_alive() const { return pending_.empty() && message_->keep_alive(); }

}  // namespace pitcrew::io
