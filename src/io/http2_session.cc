#include "io/http2_session.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace pitcrew::io {
namespace {

// All streams of a connection together are never held back: each has its own window, and a slow
// reader must not stop the others.
constexpr std::int32_t kConnectionWindow = 1 << 30;
constexpr std::size_t kWriteSize = 16U << 10U;

nghttp2_nv NameValue(std::string_view name, std::string_view value) {
  // nghttp2 copies both; it never writes to them.
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {.name = bytes(name),
          .value = bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

std::string_view Text(const std::uint8_t* bytes, std::size_t length) {
  return {reinterpret_cast<const char*>(bytes), length};
}

base::Error ProtocolError(int code) {
  return base::Unavailable("ConnectionLost", fmt::format("HTTP/2: {}", nghttp2_strerror(code)));
}

Http2Session& Self(void* context) { return *static_cast<Http2Session*>(context); }

}  // namespace

Http2Session::Http2Session(Connection connection, HttpClientOptions options, OnEnd on_end)
    : connection_(std::move(connection)), options_(options), on_end_(std::move(on_end)) {}

Http2Session::~Http2Session() = default;

base::Result<std::unique_ptr<Http2Session>> Http2Session::Create(Connection connection,
                                                                 HttpClientOptions options,
                                                                 OnEnd on_end) {
  std::unique_ptr<Http2Session> session(
      new Http2Session(std::move(connection), options, std::move(on_end)));
  TRY(session->Start());
  return session;
}

nghttp2_session_callbacks* Http2Session::Callbacks() {
  static nghttp2_session_callbacks* const callbacks = [] {
    nghttp2_session_callbacks* made = nullptr;
    nghttp2_session_callbacks_new(&made);
    nghttp2_session_callbacks_set_on_header_callback(made, &OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, &OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, &OnStreamClose);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(made, &OnNotSent);
    return made;
  }();
  return callbacks;
}

base::Status Http2Session::Start() {
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  // A stream's window opens again when its reader has taken what came.
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_session* made = nullptr;
  const int code = nghttp2_session_client_new2(&made, Callbacks(), this, option);
  nghttp2_option_del(option);
  if (code != 0) return base::Fail(ProtocolError(code));
  session_.reset(made);
  const std::array<nghttp2_settings_entry, 2> settings{
      {{.settings_id = NGHTTP2_SETTINGS_ENABLE_PUSH, .value = 0},
       {.settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, .value = kStreamWindow}}};
  nghttp2_submit_settings(made, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(made, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  return {};
}

bool Http2Session::accepts() const {
  return nghttp2_session_check_request_allowed(session_.get()) != 0;
}

void Http2Session::Begin(const ExchangePointer& exchange) {
  const HttpRequest& request = exchange->request;
  const Url& url = exchange->url;
  const std::string authority = url.authority();
  const std::string length = std::to_string(request.body.size());
  std::vector<std::string> names;
  names.reserve(request.headers.size());
  std::vector<nghttp2_nv> headers{
      NameValue(":method", request.method), NameValue(":scheme", url.scheme),
      NameValue(":authority", authority), NameValue(":path", url.target)};
  for (const auto& header : request.headers) {
    headers.push_back(NameValue(names.emplace_back(base::ToLower(header.name)), header.value));
  }
  const bool has_body = HasBody(request);
  if (has_body) headers.push_back(NameValue("content-length", length));
  nghttp2_data_provider body{.source = {.ptr = nullptr}, .read_callback = &OnReadBody};
  const std::int32_t stream_id = nghttp2_submit_request(
      session_.get(), nullptr, headers.data(), headers.size(), has_body ? &body : nullptr, nullptr);
  last_used_ = Clock::now();
  if (stream_id < 0) {
    // No stream left on this connection.
    on_end_(exchange, Outcome::kTryAgain, std::nullopt);
    return;
  }
  streams_.emplace(stream_id, Stream{.exchange = exchange});
}

bool Http2Session::Has(const ExchangePointer& exchange) const {
  return std::ranges::any_of(streams_,
                             [&](const auto& entry) { return entry.second.exchange == exchange; });
}

bool Http2Session::Cancel(const ExchangePointer& exchange) {
  const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const auto& entry) {
    return entry.second.exchange == exchange;
  });
  if (found == streams_.end()) return false;
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, found->first, NGHTTP2_CANCEL);
  streams_.erase(found);
  last_used_ = Clock::now();
  return true;
}

void Http2Session::GiveCredit() {
  for (auto& [id, stream] : streams_) {
    if (!stream.exchange->streaming) continue;
    const std::size_t taken = stream.exchange->TakeCredit();
    if (taken > 0) nghttp2_session_consume_stream(session_.get(), id, taken);
  }
}

short Http2Session::events() const {
  const bool write = outgoing_sent_ < outgoing_.size()
                         ? connection_.wants_write()
                         : nghttp2_session_want_write(session_.get()) != 0;
  return static_cast<short>(POLLIN | (write ? POLLOUT : 0));
}

base::Deadline Http2Session::deadline() const {
  if (more_to_read_) return Clock::time_point::min();
  if (streams_.empty() && !ping_sent_) return last_used_ + options_.close_unused_after;
  return next_check();
}

// While an answer to a PING is due, anything that comes is a sign of life, and gives more time.
Clock::time_point Http2Session::next_check() const {
  if (ping_sent_) return std::max(last_read_, *ping_sent_) + ping_timeout_;
  return std::max(last_read_, last_used_) + options_.ping_after;
}

base::Result<bool> Http2Session::Work(Clock::time_point now) {
  GiveCredit();
  TRY(Read());
  TRY(CheckAlive(now));
  TRY(Write());
  const bool wanted = nghttp2_session_want_read(session_.get()) != 0 ||
                      nghttp2_session_want_write(session_.get()) != 0;
  const bool forgotten = streams_.empty() && now - last_used_ >= options_.close_unused_after;
  return wanted && !forgotten;
}

base::Status Http2Session::Read() {
  std::array<char, kReadSize> buffer{};
  std::size_t total = 0;
  more_to_read_ = false;
  for (;;) {
    TRY_ASSIGN(const auto count, connection_.Read(buffer));
    if (!count) return {};
    if (*count == 0) {
      return base::Fail(base::Unavailable("ConnectionLost", "the server ended the connection"));
    }
    last_read_ = Clock::now();
    const auto used = nghttp2_session_mem_recv(
        session_.get(), reinterpret_cast<const std::uint8_t*>(buffer.data()), *count);
    if (used < 0) return base::Fail(ProtocolError(static_cast<int>(used)));
    total += *count;
    if (total >= kReadAtOnce) {
      more_to_read_ = true;
      return {};
    }
  }
}

base::Status Http2Session::Write() {
  for (;;) {
    while (outgoing_.size() < kWriteSize) {
      const std::uint8_t* frame = nullptr;
      const auto size = nghttp2_session_mem_send(session_.get(), &frame);
      if (size < 0) return base::Fail(ProtocolError(static_cast<int>(size)));
      if (size == 0) break;
      outgoing_.append(Text(frame, static_cast<std::size_t>(size)));
    }
    if (outgoing_.empty()) return {};
    TRY_ASSIGN(const auto count,
               connection_.Write(std::string_view(outgoing_).substr(outgoing_sent_)));
    if (!count) return {};
    outgoing_sent_ += *count;
    if (outgoing_sent_ == outgoing_.size()) {
      outgoing_.clear();
      outgoing_sent_ = 0;
    }
  }
}

// Something between us and the server may have forgotten the connection and go on to acknowledge
// what we send, so that TCP sees nothing wrong.
base::Status Http2Session::CheckAlive(Clock::time_point now) {
  if (streams_.empty() && !ping_sent_) return {};
  if (now < next_check()) return {};
  if (ping_sent_) {
    return base::Fail(base::Unavailable("ConnectionLost", "the server does not answer a PING"));
  }
  SendPing(now, options_.ping_timeout);
  return {};
}

void Http2Session::SuspectDead(Clock::time_point now) {
  if (!ping_sent_) SendPing(now, options_.suspect_ping_timeout);
}

void Http2Session::SendPing(Clock::time_point now, std::chrono::milliseconds ping_timeout) {
  nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, nullptr);
  ping_sent_ = now;
  ping_timeout_ = ping_timeout;
}

void Http2Session::Close(const base::Error& error) {
  auto streams = std::move(streams_);
  streams_.clear();
  for (auto& [id, stream] : streams) {
    on_end_(stream.exchange, Outcome::kDone,
            stream.exchange->Failure(error.code, error.reason, error.message));
  }
}

Http2Session::Stream* Http2Session::Find(std::int32_t stream_id) {
  const auto found = streams_.find(stream_id);
  return found == streams_.end() ? nullptr : &found->second;
}

void Http2Session::End(std::int32_t stream_id, std::uint32_t error_code) {
  const auto found = streams_.find(stream_id);
  if (found == streams_.end()) return;
  const Stream stream = std::move(found->second);
  streams_.erase(found);
  last_used_ = Clock::now();
  if (stream.ended && error_code == NGHTTP2_NO_ERROR) {
    on_end_(stream.exchange, Outcome::kDone, std::nullopt);
  } else if (error_code == NGHTTP2_REFUSED_STREAM) {
    on_end_(stream.exchange, Outcome::kTryAgain, std::nullopt);
  } else if (error_code == NGHTTP2_HTTP_1_1_REQUIRED) {
    on_end_(stream.exchange, Outcome::kNeedsHttp1, std::nullopt);
  } else {
    on_end_(stream.exchange, Outcome::kDone,
            stream.exchange->Failure(base::Code::kUnavailable, "ConnectionLost",
                                     fmt::format("the server ended the stream ({})",
                                                 nghttp2_http2_strerror(error_code))));
  }
}

ssize_t Http2Session::OnReadBody(nghttp2_session* /*session*/, std::int32_t stream_id,
                                 std::uint8_t* buffer, std::size_t length, std::uint32_t* flags,
                                 nghttp2_data_source* /*source*/, void* context) {
  Stream* stream = Self(context).Find(stream_id);
  if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const std::string& body = stream->exchange->request.body;
  const std::size_t count = std::min(length, body.size() - stream->body_sent);
  std::copy_n(body.data() + stream->body_sent, count, buffer);
  stream->body_sent += count;
  if (stream->body_sent == body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(count);
}

int Http2Session::OnHeader(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                           const std::uint8_t* name, std::size_t name_length,
                           const std::uint8_t* value, std::size_t value_length,
                           std::uint8_t /*flags*/, void* context) {
  Stream* stream = Self(context).Find(frame->hd.stream_id);
  // Headers behind the body (trailers) are of no use here.
  if (stream == nullptr || frame->headers.cat == NGHTTP2_HCAT_REQUEST) return 0;
  const std::string_view key = Text(name, name_length);
  const std::string_view text = Text(value, value_length);
  if (key == ":status") {
    // The status of an informational response (1xx), too: its headers go when the final status
    // comes.
    stream->status = static_cast<int>(base::ParseInteger(text).value_or(0));
    stream->headers.clear();
  } else if (!key.starts_with(':')) {
    stream->headers.push_back({std::string(key), std::string(text)});
  }
  return 0;
}

int Http2Session::OnFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* context) {
  if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
    Self(context).ping_sent_.reset();
  }
  Stream* stream = Self(context).Find(frame->hd.stream_id);
  if (stream == nullptr) return 0;
  const bool frame_of_answer = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
  if (!frame_of_answer) return 0;
  stream->exchange->NoteByte();
  // A head is told once; one below 200 announces another.
  if (frame->hd.type == NGHTTP2_HEADERS && stream->status >= 200) {
    stream->exchange->PublishHead(stream->status, std::move(stream->headers));
    stream->status = 0;
  }
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->ended = true;
  return 0;
}

int Http2Session::OnData(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t stream_id,
                         const std::uint8_t* data, std::size_t length, void* context) {
  nghttp2_session_consume_connection(session, length);
  Stream* stream = Self(context).Find(stream_id);
  if (stream == nullptr) return 0;
  stream->exchange->NoteByte();
  stream->exchange->Append(Text(data, length));
  if (!stream->exchange->streaming) nghttp2_session_consume_stream(session, stream_id, length);
  return 0;
}

int Http2Session::OnStreamClose(nghttp2_session* /*session*/, std::int32_t stream_id,
                                std::uint32_t error_code, void* context) {
  Self(context).End(stream_id, error_code);
  return 0;
}

// A request that waited for its turn when the server said goodbye.
int Http2Session::OnNotSent(nghttp2_session* /*session*/, const nghttp2_frame* frame, int /*code*/,
                            void* context) {
  if (frame->hd.type == NGHTTP2_HEADERS) {
    Self(context).End(frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
  }
  return 0;
}

}  // namespace pitcrew::io
