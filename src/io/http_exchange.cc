#include "io/http_exchange.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

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

// Of each exchange. libcurl 7.88 reads up to 32 KiB from a connection at once, and stops reading
// for all its streams when they do not fit into the buffer of the one that they are for; it does
// not always go on (seen with lists of a few dozen KiB beside a dozen watches).
constexpr long kReceiveBuffer = 64L << 10U;

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

int OnSocket(void* context, curl_socket_t socket, curlsocktype /*purpose*/) {
  static_cast<Sockets*>(context)->Add(socket);
  const unsigned int timeout = std::chrono::milliseconds(kDeadPeerTimeout).count();
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  return CURL_SOCKOPT_OK;
}

int OnClose(void* context, curl_socket_t socket) {
  static_cast<Sockets*>(context)->Close(socket);
  return 0;
}

int OnConnected(void* context, char* /*peer*/, char* /*local*/, int /*peer_port*/, int local_port) {
  static_cast<Exchange*>(context)->local_port = local_port;
  return CURL_PREREQFUNC_OK;
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

}  // namespace

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

void Sockets::Close(curl_socket_t socket) {
  open_.erase(socket);
  ::close(socket);
}

void Sockets::Shut(int local_port) {
  for (const curl_socket_t socket : open_) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    const in_port_t port = address.ss_family == AF_INET6
                               ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                               : reinterpret_cast<const sockaddr_in&>(address).sin_port;
    if (ntohs(port) == local_port) ::shutdown(socket, SHUT_RDWR);
  }
}

bool ConfigureExchange(Exchange& exchange, Sockets& sockets) {
  const auto url = SplitUrl(exchange.request.url);
  if (!url) return false;
  exchange.handle = curl_easy_init();
  CURL* handle = exchange.handle;
  const HttpRequest& request = exchange.request;
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, kReceiveBuffer);
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
  curl_easy_setopt(handle, CURLOPT_SOCKOPTDATA, &sockets);
  curl_easy_setopt(handle, CURLOPT_CLOSESOCKETFUNCTION, &OnClose);
  curl_easy_setopt(handle, CURLOPT_CLOSESOCKETDATA, &sockets);
  curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, &OnConnected);
  curl_easy_setopt(handle, CURLOPT_PREREQDATA, &exchange);
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

}  // namespace pitcrew::io
