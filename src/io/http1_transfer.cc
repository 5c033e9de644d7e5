#include "io/http1_transfer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include "base/strings.h"

namespace pitcrew::io {
namespace {

int OnSocket(void* /*context*/, curl_socket_t socket, curlsocktype /*purpose*/) {
  const unsigned int timeout = std::chrono::milliseconds(kUnacknowledgedTimeout).count();
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  return CURL_SOCKOPT_OK;
}

void SetBlob(CURL* handle, CURLoption option, const std::string& bytes) {
  if (bytes.empty()) return;
  curl_blob blob{};
  blob.data = const_cast<char*>(bytes.data());
  blob.len = bytes.size();
  blob.flags = CURL_BLOB_COPY;
  curl_easy_setopt(handle, option, &blob);
}

}  // namespace

Http1Transfer::Http1Transfer(ExchangePointer exchange)
    : exchange_(std::move(exchange)), handle_(curl_easy_init()) {
  curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, message_);
  curl_easy_setopt(handle_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(handle_, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(handle_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(handle_, CURLOPT_SOCKOPTFUNCTION, &OnSocket);
  curl_easy_setopt(handle_, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle_, CURLOPT_TCP_KEEPIDLE, 15L);
  curl_easy_setopt(handle_, CURLOPT_TCP_KEEPINTVL, 5L);
  curl_easy_setopt(handle_, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::chrono::milliseconds(kConnectTimeout).count()));
  headers_ = curl_slist_append(nullptr, "Expect:");
  for (const auto& header : exchange_->request.headers) {
    headers_ =
        curl_slist_append(headers_, fmt::format("{}: {}", header.name, header.value).c_str());
  }
  ConfigureTarget();
  ConfigureTls();
  ConfigureMethod();
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers_);
}

Http1Transfer::~Http1Transfer() {
  curl_easy_cleanup(handle_);
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
}

void Http1Transfer::ConfigureTls() {
  if (exchange_->request.tls == nullptr) return;
  const TlsSettings& tls = *exchange_->request.tls;
  SetBlob(handle_, CURLOPT_CAINFO_BLOB, tls.ca_pem);
  if (tls.insecure_skip_verify) {
    curl_easy_setopt(handle_, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(handle_, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!tls.client_certificate_pem.empty()) {
    curl_easy_setopt(handle_, CURLOPT_SSLCERTTYPE, "PEM");
    curl_easy_setopt(handle_, CURLOPT_SSLKEYTYPE, "PEM");
    SetBlob(handle_, CURLOPT_SSLCERT_BLOB, tls.client_certificate_pem);
    SetBlob(handle_, CURLOPT_SSLKEY_BLOB, tls.client_key_pem);
  }
}

// curl takes the TLS name from the URL: put it there and send the connection to the real host.
void Http1Transfer::ConfigureTarget() {
  const HttpRequest& request = exchange_->request;
  const UrlParts& url = exchange_->url;
  std::string target = request.url;
  if (!request.tls_server_name.empty() && url.scheme == "https" &&
      request.tls_server_name != url.host) {
    target = fmt::format("https://{}:{}{}", request.tls_server_name, url.port, url.target);
    const std::string route =
        fmt::format("{}:{}:{}:{}", request.tls_server_name, url.port, url.host, url.port);
    connect_to_ = curl_slist_append(nullptr, route.c_str());
    curl_easy_setopt(handle_, CURLOPT_CONNECT_TO, connect_to_);
    headers_ = curl_slist_append(headers_, fmt::format("Host: {}", url.authority()).c_str());
  }
  curl_easy_setopt(handle_, CURLOPT_URL, target.c_str());
  if (!request.proxy_url.empty()) {
    curl_easy_setopt(handle_, CURLOPT_PROXY, request.proxy_url.c_str());
    curl_easy_setopt(handle_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  } else if (IsLoopback(url.host)) {
    curl_easy_setopt(handle_, CURLOPT_PROXY, "");
  }
}

void Http1Transfer::ConfigureMethod() {
  const HttpRequest& request = exchange_->request;
  if (request.method != "GET") {
    curl_easy_setopt(handle_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (HasBody(request)) {
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, request.body.data());
  }
}

std::size_t Http1Transfer::OnHeader(char* data, std::size_t size, std::size_t count,
                                    void* context) {
  auto& self = *static_cast<Http1Transfer*>(context);
  const std::size_t length = size * count;
  self.exchange_->last_byte = Clock::now();
  const std::string_view line = base::Trim({data, length});
  if (line.starts_with("HTTP/")) {
    self.arrived_.clear();
  } else if (line.empty()) {
    long status = 0;
    curl_easy_getinfo(self.handle_, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200) {
      self.exchange_->PublishHead(static_cast<int>(status), std::exchange(self.arrived_, {}));
    }
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    self.arrived_.push_back(
        {base::ToLower(line.substr(0, colon)), std::string(base::Trim(line.substr(colon + 1)))});
  }
  return length;
}

std::size_t Http1Transfer::OnBody(char* data, std::size_t size, std::size_t count, void* context) {
  auto& self = *static_cast<Http1Transfer*>(context);
  const std::size_t length = size * count;
  self.exchange_->last_byte = Clock::now();
  if (self.exchange_->streaming && self.exchange_->backlog() >= kStreamWindow) {
    self.paused_ = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  self.exchange_->Append({data, length});
  return length;
}

void Http1Transfer::Continue() {
  if (!exchange_->streaming || exchange_->TakeCredit() == 0 || !paused_) return;
  if (exchange_->backlog() >= kStreamWindow) return;
  paused_ = false;
  curl_easy_pause(handle_, CURLPAUSE_CONT);
}

base::Error Http1Transfer::Failure(CURLcode code) const {
  using base::Code;
  const std::string_view detail = message_[0] != '\0' ? message_ : curl_easy_strerror(code);
  const auto error = [&](Code kind, std::string reason) {
    return exchange_->Failure(kind, std::move(reason), detail);
  };
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return error(Code::kUnavailable, "NameNotResolved");
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:  // of connecting: the exchange's own deadline is not curl's
    case CURLE_SSL_CONNECT_ERROR:   // also when the server goes away during the handshake
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
      return error(Code::kUnavailable, "ConnectionLost");
    default:
      return error(Code::kInternal, "HttpFailed");
  }
}

}  // namespace pitcrew::io
