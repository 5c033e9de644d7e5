#include "io/http_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/strings.h"

namespace pitcrew::io {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kConnectTimeout{10};
// A peer that vanished without a word is noticed after about this time.
constexpr std::chrono::seconds kDeadPeerTimeout{30};
// Bytes that may wait for the reader of a stream. Pausing one stream would stop all that share the
// connection, so a reader that is this far behind loses its stream instead.
constexpr std::size_t kLongestBacklog = 64U << 20U;

struct Exchange {
  HttpRequest request;
  StopToken stop;
  bool streaming = false;

  // Of the I/O thread.
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  curl_slist* connect_to = nullptr;
  char message[CURL_ERROR_SIZE] = {};
  Clock::time_point started;
  Clock::time_point last_byte;
  bool too_slow = false;
  HttpResponse incoming;

  // Shared with the caller.
  std::mutex mutex;
  std::condition_variable changed;
  HttpResponse response;
  std::string chunk;  // arrived, not yet taken
  bool head_ready = false;
  bool done = false;
  std::optional<base::Error> error;

  ~Exchange() {
    curl_slist_free_all(headers);
    curl_slist_free_all(connect_to);
    if (handle != nullptr) curl_easy_cleanup(handle);
  }
};
using ExchangePointer = std::shared_ptr<Exchange>;

base::Error Stopped() {
  return {.code = base::Code::kCancelled, .reason = "Stopped", .message = "stopped while waiting"};
}

void PublishHead(Exchange& exchange) {
  const std::scoped_lock lock(exchange.mutex);
  exchange.response.status = exchange.incoming.status;
  exchange.response.headers = std::move(exchange.incoming.headers);
  exchange.head_ready = true;
  exchange.changed.notify_all();
}

std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* context) {
  auto& exchange = *static_cast<Exchange*>(context);
  const std::size_t length = size * count;
  exchange.last_byte = Clock::now();
  const std::string_view line = base::Trim({data, length});
  if (line.starts_with("HTTP/")) {
    exchange.incoming = {};
  } else if (line.empty()) {
    long status = 0;
    curl_easy_getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &status);
    exchange.incoming.status = static_cast<int>(status);
    if (status >= 200) PublishHead(exchange);
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    exchange.incoming.headers.push_back(
        {base::ToLower(line.substr(0, colon)), std::string(base::Trim(line.substr(colon + 1)))});
  }
  return length;
}

std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* context) {
  auto& exchange = *static_cast<Exchange*>(context);
  const std::size_t length = size * count;
  exchange.last_byte = Clock::now();
  if (!exchange.streaming) {
    exchange.incoming.body.append(data, length);
    return length;
  }
  const std::scoped_lock lock(exchange.mutex);
  if (exchange.chunk.size() + length > kLongestBacklog) {
    exchange.too_slow = true;
    return 0;
  }
  exchange.chunk.append(data, length);
  exchange.changed.notify_all();
  return length;
}

int OnSocket(void* /*context*/, curl_socket_t socket, curlsocktype /*purpose*/) {
  const unsigned int timeout = std::chrono::milliseconds(kDeadPeerTimeout).count();
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  return CURL_SOCKOPT_OK;
}

base::Error ErrorFromCurl(CURLcode code, const Exchange& exchange) {
  using base::Code;
  const std::string detail =
      exchange.message[0] != '\0' ? exchange.message : curl_easy_strerror(code);
  const std::string message =
      fmt::format("{} {}: {}", exchange.request.method, exchange.request.url, detail);
  const auto error = [&](Code kind, std::string reason) {
    return base::Error{.code = kind, .reason = std::move(reason), .message = message};
  };
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return error(Code::kInvalid, "InvalidUrl");
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return error(Code::kUnavailable, "NameNotResolved");
    case CURLE_COULDNT_CONNECT:
      return error(Code::kUnavailable, "ConnectionRefused");
    case CURLE_OPERATION_TIMEDOUT: {
      const auto limit = exchange.request.timeout;
      const bool whole = limit.count() > 0 && Clock::now() - exchange.started >= limit;
      return whole ? error(Code::kTimeout, "RequestTimeout")
                   : error(Code::kUnavailable, "ConnectionRefused");
    }
    case CURLE_SSL_CONNECT_ERROR:
      // Also when the server goes away during the handshake; nothing was sent.
      return error(Code::kUnavailable, "ConnectionRefused");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
      return error(Code::kDenied, "TlsFailed");
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return error(Code::kUnavailable, "ConnectionLost");
    case CURLE_WRITE_ERROR:
      if (exchange.too_slow) return error(Code::kUnavailable, "ReaderTooSlow");
      [[fallthrough]];
    default:
      return error(Code::kInternal, "HttpFailed");
  }
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1" || host == "[::1]";
}

struct UrlParts {
  std::string scheme;
  std::string host;
  std::string port;
  std::string rest;  // path and query
};

std::optional<UrlParts> SplitUrl(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const auto part = [&](CURLUPart which, unsigned int flags) {
    char* text = nullptr;
    std::string copy;
    if (curl_url_get(parsed.get(), which, &text, flags) == CURLUE_OK) copy = text;
    curl_free(text);
    return copy;
  };
  UrlParts parts{.scheme = part(CURLUPART_SCHEME, 0),
                 .host = part(CURLUPART_HOST, 0),
                 .port = part(CURLUPART_PORT, CURLU_DEFAULT_PORT),
                 .rest = part(CURLUPART_PATH, 0)};
  if (const auto query = part(CURLUPART_QUERY, 0); !query.empty()) parts.rest += "?" + query;
  return parts;
}

void SetBlob(CURL* handle, CURLoption option, const std::string& bytes) {
  if (bytes.empty()) return;
  curl_blob blob{};
  blob.data = const_cast<char*>(bytes.data());
  blob.len = bytes.size();
  blob.flags = CURL_BLOB_COPY;
  curl_easy_setopt(handle, option, &blob);
}

void ConfigureTls(CURL* handle, const HttpRequest& request) {
  if (request.tls == nullptr) return;
  const TlsSettings& tls = *request.tls;
  SetBlob(handle, CURLOPT_CAINFO_BLOB, tls.ca_pem);
  if (tls.insecure_skip_verify) {
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!tls.client_certificate_pem.empty()) {
    curl_easy_setopt(handle, CURLOPT_SSLCERTTYPE, "PEM");
    curl_easy_setopt(handle, CURLOPT_SSLKEYTYPE, "PEM");
    SetBlob(handle, CURLOPT_SSLCERT_BLOB, tls.client_certificate_pem);
    SetBlob(handle, CURLOPT_SSLKEY_BLOB, tls.client_key_pem);
  }
}

// curl takes the TLS name from the URL: put it there and send the connection to the real host.
void ConfigureTarget(Exchange& exchange, const UrlParts& url) {
  CURL* handle = exchange.handle;
  const HttpRequest& request = exchange.request;
  std::string target = request.url;
  if (!request.tls_server_name.empty() && url.scheme == "https" &&
      request.tls_server_name != url.host) {
    target = fmt::format("https://{}:{}{}", request.tls_server_name, url.port, url.rest);
    const std::string route =
        fmt::format("{}:{}:{}:{}", request.tls_server_name, url.port, url.host, url.port);
    exchange.connect_to = curl_slist_append(nullptr, route.c_str());
    curl_easy_setopt(handle, CURLOPT_CONNECT_TO, exchange.connect_to);
    exchange.headers =
        curl_slist_append(exchange.headers, fmt::format("Host: {}:{}", url.host, url.port).c_str());
  }
  curl_easy_setopt(handle, CURLOPT_URL, target.c_str());
  if (!request.proxy_url.empty()) {
    curl_easy_setopt(handle, CURLOPT_PROXY, request.proxy_url.c_str());
    curl_easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  } else if (IsLoopback(url.host)) {
    curl_easy_setopt(handle, CURLOPT_PROXY, "");
  }
}

void ConfigureMethod(CURL* handle, const HttpRequest& request) {
  if (request.method != "GET") {
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT" ||
      request.method == "PATCH") {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.data());
  }
}

// False when the URL cannot be understood.
bool Configure(Exchange& exchange) {
  const auto url = SplitUrl(exchange.request.url);
  if (!url) return false;
  exchange.handle = curl_easy_init();
  CURL* handle = exchange.handle;
  const HttpRequest& request = exchange.request;
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_PRIVATE, &exchange);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, exchange.message);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  curl_easy_setopt(handle, CURLOPT_PIPEWAIT, 1L);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(handle, CURLOPT_SOCKOPTFUNCTION, &OnSocket);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPIDLE, 15L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPINTVL, 5L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::chrono::milliseconds(kConnectTimeout).count()));
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  exchange.headers = curl_slist_append(nullptr, "Expect:");
  for (const auto& header : request.headers) {
    exchange.headers = curl_slist_append(exchange.headers,
                                         fmt::format("{}: {}", header.name, header.value).c_str());
  }
  ConfigureTarget(exchange, *url);
  ConfigureTls(handle, request);
  ConfigureMethod(handle, request);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, exchange.headers);
  return true;
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
    if (!Configure(*exchange)) {
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
    for (auto& [exchange, error] : ended) Finish(exchange, std::move(error));
  }

  void WaitForSomething() {
    const auto now = Clock::now();
    std::chrono::milliseconds wait{60000};  // curl shortens it to its own next timer
    std::vector<curl_waitfd> stops;
    for (const auto& [key, exchange] : active_) {
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
  std::thread thread_;                                     // last: uses everything above
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

bool LineSplitter::Append(std::string_view bytes) {
  if (begin_ > 0 && begin_ * 2 >= buffer_.size()) {
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (pending() + bytes.size() > longest_line_ && bytes.find('\n') == std::string_view::npos) {
    buffer_ = {};
    begin_ = scanned_ = 0;
    return false;
  }
  buffer_.append(bytes);
  return true;
}

std::optional<std::string> LineSplitter::Next() {
  for (;;) {
    const auto end = buffer_.find('\n', scanned_);
    if (end == std::string::npos) {
      scanned_ = buffer_.size();
      return std::nullopt;
    }
    const std::string_view line(buffer_.data() + begin_, end - begin_);
    begin_ = scanned_ = end + 1;
    if (const auto trimmed = base::Trim(line); !trimmed.empty()) return std::string(trimmed);
  }
}

}  // namespace pitcrew::io
