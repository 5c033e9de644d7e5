#include "loopback/http2_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "loopback/loopback.h"
#include "support/patience.h"

namespace pitcrew::testing {
namespace {

nghttp2_nv Header(const std::string& name, const std::string& value) {
  const auto bytes = [](const std::string& text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {.name = bytes(name),
          .value = bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

int ChooseProtocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_length,
                   const unsigned char* in, unsigned int in_length, void* context) {
  const bool http2 = static_cast<const Http2ServerOptions*>(context)->http2;
  const std::string_view ours = http2 ? std::string_view("\x02h2") : "\x08http/1.1";
  const int chosen = SSL_select_next_proto(const_cast<unsigned char**>(out), out_length,
                                           reinterpret_cast<const unsigned char*>(ours.data()),
                                           ours.size(), in, in_length);
  return chosen == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

class Http2Server::Connection {
 public:
  Connection(Http2Server& server, base::FileDescriptor socket, int number)
      : server_(server), socket_(std::move(socket)), number_(number), thread_([this] {
          Serve();
          server_.Count([](Counts& counts) { ++counts.closed; });
        }) {}
  ~Connection() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 private:
  struct Stream {
    Http2Request request{};
    Http2Answer answer{};
    std::size_t sent = 0;
  };

  void Serve() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ssl_ = SSL_new(server_.context_);
    SSL_set_fd(ssl_, socket_.get());
    if (SSL_accept(ssl_) == 1) {
      if (server_.options_.http2) {
        ServeHttp2();
      } else {
        ServeHttp1();
      }
    }
    SSL_free(ssl_);
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

  void ServeHttp1() {
    std::string head;
    std::array<char, 4096> bytes{};
    while (head.find("\r\n\r\n") == std::string::npos) {
      const int count = SSL_read(ssl_, bytes.data(), bytes.size());
      if (count <= 0) return;
      head.append(bytes.data(), static_cast<std::size_t>(count));
    }
    constexpr std::string_view kAnswer =
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\none";
    SSL_write(ssl_, kAnswer.data(), kAnswer.size());
  }

  void ServeHttp2() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &OnData);
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry most{.settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                      .value = server_.options_.most_streams};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &most, 1);
    std::array<char, 16384> bytes{};
    while (Send() && (nghttp2_session_want_read(session_) != 0)) {
      const int count = SSL_read(ssl_, bytes.data(), bytes.size());
      if (count <= 0) break;
      const auto used =
          nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                   static_cast<std::size_t>(count));
      if (used < 0) break;
      if (silent_) {
        server_.stop_.token().Wait();
        break;
      }
    }
    nghttp2_session_del(session_);
  }

  bool Send() {
    for (;;) {
      const std::uint8_t* frame = nullptr;
      const auto size = nghttp2_session_mem_send(session_, &frame);
      if (size < 0) return false;
      if (size == 0) return true;
      if (SSL_write(ssl_, frame, static_cast<int>(size)) <= 0) return false;
    }
  }

  void Answer(std::int32_t id, Stream& stream) {
    stream.request.connection = number_;
    stream.answer = server_.handler_(stream.request);
    const Http2Answer& answer = stream.answer;
    if (answer.silence) {
      silent_ = true;
      return;
    }
    if (answer.goodbye || answer.goodbye_before) {
      const std::int32_t last = answer.goodbye ? id : std::max(0, id - 2);
      nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
      if (answer.goodbye_before) return;
    }
    if (answer.reset != 0) {
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, answer.reset);
      return;
    }
    static const std::string kStatus = ":status";
    if (answer.early_hints) {
      const std::string hints = "103";
      const nghttp2_nv header = Header(kStatus, hints);
      nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, id, nullptr, &header, 1, nullptr);
    }
    const std::string status = std::to_string(answer.status);
    const nghttp2_nv header = Header(kStatus, status);
    nghttp2_data_provider body{.source = {.ptr = &stream}, .read_callback = &OnBody};
    nghttp2_submit_response(session_, id, &header, 1, answer.no_body ? nullptr : &body);
  }

  static ssize_t OnBody(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer,
                        std::size_t length, std::uint32_t* flags, nghttp2_data_source* source,
                        void* context) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const std::string& body = stream.answer.body;
    const std::size_t count = std::min(length, body.size() - stream.sent);
    std::memcpy(buffer, body.data() + stream.sent, count);
    stream.sent += count;
    static_cast<Connection*>(context)->server_.Count(
        [&](Counts& counts) { counts.body_bytes += count; });
    if (stream.sent < body.size()) return static_cast<ssize_t>(count);
    if (stream.answer.stays_open) {
      if (count == 0) return NGHTTP2_ERR_DEFERRED;
      return static_cast<ssize_t>(count);
    }
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream.answer.trailers) {
      static const std::string kName = "checked";
      static const std::string kValue = "yes";
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const nghttp2_nv trailer = Header(kName, kValue);
      nghttp2_submit_trailer(session, id, &trailer, 1);
    }
    return static_cast<ssize_t>(count);
  }

  static int OnHeader(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_length, const std::uint8_t* value,
                      std::size_t value_length, std::uint8_t /*flags*/, void* context) {
    Http2Request& request =
        static_cast<Connection*>(context)->streams_[frame->hd.stream_id].request;
    const std::string_view key(reinterpret_cast<const char*>(name), name_length);
    const std::string_view text(reinterpret_cast<const char*>(value), value_length);
    if (key == ":method") request.method = text;
    if (key == ":path") request.path = text;
    return 0;
  }

  static int OnData(nghttp2_session* /*session*/, std::uint8_t /*flags*/, std::int32_t id,
                    const std::uint8_t* data, std::size_t length, void* context) {
    static_cast<Connection*>(context)->streams_[id].request.body.append(
        reinterpret_cast<const char*>(data), length);
    return 0;
  }

  static int OnFrame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* context) {
    auto& self = *static_cast<Connection*>(context);
    const bool ends_request =
        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (ends_request) self.Answer(frame->hd.stream_id, self.streams_[frame->hd.stream_id]);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
      self.server_.Count([](Counts& counts) { ++counts.pings; });
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code == NGHTTP2_CANCEL) {
      self.server_.Count([](Counts& counts) { ++counts.cancelled; });
    }
    return 0;
  }

  Http2Server& server_;
  base::FileDescriptor socket_;
  const int number_;
  SSL* ssl_ = nullptr;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Stream> streams_;
  bool silent_ = false;
  std::thread thread_;
};

base::Result<std::unique_ptr<Http2Server>> Http2Server::Start(Handler handler,
                                                              Http2ServerOptions options) {
  TRY_ASSIGN(const KeyPair root, MakeCertificate({.common_name = "test root", .authority = true}));
  TRY_ASSIGN(KeyPair authority,
             MakeCertificate({.common_name = "test authority", .authority = true},
                             options.intermediate ? &root : nullptr));
  TRY_ASSIGN(
      const KeyPair own,
      MakeCertificate({.common_name = "http2-server", .addresses = {"127.0.0.1"}}, &authority));
  TRY_ASSIGN(LoopbackSocket listener, ListenOnLoopback());
  return std::unique_ptr<Http2Server>(new Http2Server(std::move(listener.socket), listener.port,
                                                      std::move(authority), MakeServerContext(own),
                                                      std::move(handler), options));
}

Http2Server::Http2Server(base::FileDescriptor listener, int port, KeyPair authority,
                         ssl_ctx_st* context, Handler handler, Http2ServerOptions options)
    : listener_(std::move(listener)),
      port_(port),
      authority_(std::move(authority)),
      context_(context),
      handler_(std::move(handler)),
      options_(options) {
  SSL_CTX_set_alpn_select_cb(context_, &ChooseProtocol, &options_);
  thread_ = std::thread([this] { Accept(); });
}

Http2Server::~Http2Server() {
  stop_.Stop();
  thread_.join();
  connections_.clear();
  SSL_CTX_free(context_);
}

std::string Http2Server::url() const { return fmt::format("https://127.0.0.1:{}", port_); }

Http2Server::Counts Http2Server::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

bool Http2Server::WaitFor(const std::function<bool(const Counts&)>& condition) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, test_support::kPatience, [&] { return condition(counts_); });
}

void Http2Server::Count(const std::function<void(Counts&)>& change) {
  const std::scoped_lock lock(mutex_);
  change(counts_);
  changed_.notify_all();
}

void Http2Server::Accept() {
  while (io::WaitReadable({listener_.get()}, stop_.token())) {
    base::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) continue;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int number = 0;
    Count([&](Counts& counts) { number = ++counts.connections; });
    connections_.push_back(std::make_unique<Connection>(*this, std::move(socket), number));
  }
}

}  // namespace pitcrew::testing
