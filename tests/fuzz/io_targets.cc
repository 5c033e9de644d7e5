// What servers send: HTTP/1.1 in clear and HTTP/2 inside TLS, as bytes behind a real socket, and
// streams cut into lines.
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "fuzz/target.h"
#include "io/http1_parser.h"
#include "io/http_client.h"
#include "io/url.h"
#include "loopback/certificate.h"
#include "loopback/loopback.h"

namespace pitcrew::fuzz {
namespace {

constexpr std::chrono::milliseconds kPatience{5000};

int ChooseHttp2(SSL* /*ssl*/, const unsigned char** out, unsigned char* length,
                const unsigned char* in, unsigned int in_length, void* /*context*/) {
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  const int chosen = SSL_select_next_proto(const_cast<unsigned char**>(out), length, kHttp2,
                                           sizeof(kHttp2), in, in_length);
  return chosen == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Answers the first connection for each input with that input, whatever was asked, and closes
// others at once. Lives as long as the process.
class RawServer {
 public:
  explicit RawServer(bool with_tls) : tls_(with_tls) {
    auto listener = testing::ListenOnLoopback();
    Check(listener.has_value(), "a server can listen");
    port_ = listener->port;
    listener_ = std::move(listener->socket);
    if (with_tls) MakeContext();
    std::thread([this] { Serve(); }).detach();
  }

  io::HttpRequest RequestFor(std::string_view input) {
    {
      const std::scoped_lock lock(mutex_);
      input_ = std::string(input);
    }
    io::HttpRequest request;
    request.url = (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_) + "/";
    request.deadline = base::Deadline::After(kPatience);
    request.tls = trust_;
    return request;
  }

 private:
  void MakeContext() {
    const auto pair = testing::MakeCertificate(
        {.common_name = "server", .addresses = {"127.0.0.1"}, .authority = true});
    Check(pair.has_value(), "a certificate can be made");
    context_ = SSL_CTX_new(TLS_server_method());
    BIO* certificate = BIO_new_mem_buf(pair->certificate_pem.data(), -1);
    BIO* key = BIO_new_mem_buf(pair->key_pem.data(), -1);
    X509* parsed = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
    EVP_PKEY* parsed_key = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
    SSL_CTX_use_certificate(context_, parsed);
    SSL_CTX_use_PrivateKey(context_, parsed_key);
    SSL_CTX_set_alpn_select_cb(context_, ChooseHttp2, nullptr);
    X509_free(parsed);
    EVP_PKEY_free(parsed_key);
    BIO_free(certificate);
    BIO_free(key);
    auto trust = std::make_shared<io::TlsSettings>();
    trust->ca_pem = pair->certificate_pem;
    trust_ = trust;
  }

  void Serve() {
    while (true) {
      const base::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string answer;
      {
        const std::scoped_lock lock(mutex_);
        if (!input_) continue;
        answer = *std::exchange(input_, std::nullopt);
      }
      if (socket.valid()) tls_ ? AnswerInTls(socket.get(), answer) : Answer(socket.get(), answer);
    }
  }

  static void Answer(int socket, const std::string& answer) {
    char request[4096];
    if (::recv(socket, request, sizeof(request), 0) <= 0) return;
    (void)!::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
    ::shutdown(socket, SHUT_WR);
    while (::recv(socket, request, sizeof(request), 0) > 0) {
    }
  }

  void AnswerInTls(int socket, const std::string& answer) {
    SSL* ssl = SSL_new(context_);
    SSL_set_fd(ssl, socket);
    char request[4096];
    if (SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof(request)) > 0) {
      if (!answer.empty()) SSL_write(ssl, answer.data(), static_cast<int>(answer.size()));
      SSL_shutdown(ssl);
      ::shutdown(socket, SHUT_WR);
      while (SSL_read(ssl, request, sizeof(request)) > 0) {
      }
    }
    SSL_free(ssl);
  }

  const bool tls_;
  int port_ = 0;
  base::FileDescriptor listener_;
  SSL_CTX* context_ = nullptr;
  std::shared_ptr<const io::TlsSettings> trust_;
  std::mutex mutex_;
  std::optional<std::string> input_;
};

void Exchange(RawServer& server, std::string_view input) {
  static const auto client = io::HttpClient::Create();
  Check(client.has_value(), "a client can be made");
  const auto response = (*client)->Send(server.RequestFor(input), {});
  if (!response) {
    Check(response.error().reason != "RequestTimeout", "an answer that ends is no time-out");
  } else {
    Check(response->status >= 200 && response->status <= 999, "a status is one of a final answer");
  }
}

// However the bytes arrive, the answer is the same.
void ParseHttp1(std::string_view input) {
  struct Seen {
    bool whole = false;
    int status = 0;
    std::string body{};
    bool operator==(const Seen&) const = default;
  };
  const auto read = [&](std::size_t piece) {
    Seen seen;
    io::Http1Parser parser;
    for (std::size_t at = 0; at < input.size() && !parser.done(); at += piece) {
      if (!parser.Feed(input.substr(at, piece))) return Seen{};
      if (const auto head = parser.TakeHead()) seen.status = head->status;
      seen.body += parser.TakeBody();
    }
    seen.whole = parser.done() || parser.End().has_value();
    if (const auto head = parser.TakeHead()) seen.status = head->status;
    seen.body += parser.TakeBody();
    return seen.whole ? seen : Seen{};
  };
  const Seen at_once = read(input.size() + 1);
  const Seen in_pieces = read(3);
  if (at_once.whole && in_pieces.whole) {
    Check(at_once == in_pieces, "pieces do not change the answer");
  }
}

void ReadUrl(std::string_view input) {
  const auto url = io::ParseUrl(input);
  if (!url) return;
  (void)io::BasicCredentials(*url);
  const auto again = io::ParseUrl(url->scheme + "://" + url->host_and_port() + url->target);
  Check(
      again && again->host == url->host && again->port == url->port && again->target == url->target,
      "a URL's parts make the same URL");
}

void ReadHttp1Answer(std::string_view input) {
  static auto& server = *new RawServer(false);
  Exchange(server, input);
}

void ReadHttp2Answer(std::string_view input) {
  static auto& server = *new RawServer(true);
  Exchange(server, input);
}

// However the bytes arrive, the lines are the same, and none is empty or has a newline.
void SplitLines(std::string_view input) {
  const auto lines_of = [&](std::size_t piece) {
    io::LineSplitter splitter;
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < input.size(); at += piece) {
      Check(splitter.Append(input.substr(at, piece)), "no line is too long");
      while (const auto line = splitter.Next()) lines.push_back(*line);
    }
    return lines;
  };
  const auto lines = lines_of(input.size() + 1);
  Check(lines == lines_of(3), "pieces do not change the lines");
  for (const auto& line : lines) {
    Check(!line.empty() && line.find('\n') == std::string::npos, "a line is a line");
  }
}

constexpr Target kTargets[] = {{"http1_parser", ParseHttp1},
                               {"url", ReadUrl},
                               {"http1_answer", ReadHttp1Answer},
                               {"http2_answer", ReadHttp2Answer},
                               {"lines", SplitLines}};

}  // namespace

std::span<const Target> IoTargets() { return kTargets; }

}  // namespace pitcrew::fuzz
