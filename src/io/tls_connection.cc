#include "io/tls_connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "io/http_exchange.h"
#include "io/tcp_connect.h"

namespace pitcrew::io {
namespace {

template <auto Function>
struct Free {
  template <class T>
  void operator()(T* pointer) const {
    Function(pointer);
  }
};
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

// The protocols that we offer, in the form of ALPN: each with its length in front.
constexpr std::string_view kOffer = "\x02h2\x08http/1.1";

std::string LastTlsError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown TLS error" : reason;
}

base::Error TlsFailed(std::string message) {
  return {.code = base::Code::kDenied, .reason = "TlsFailed", .message = std::move(message)};
}

base::Error ConnectionLost(std::string message) {
  return base::Unavailable("ConnectionLost", std::move(message));
}

Memory Open(const std::string& pem) {
  return Memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

base::Status TrustAuthorities(SSL_CTX* context, const TlsSettings& tls) {
  // As Go: what is given is trusted, also when it is not a root.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  std::string pem = tls.ca_pem;
  if (!tls.ca_file.empty()) {
    auto content = base::ReadFile(tls.ca_file);
    if (content) {
      pem = *std::move(content);
    } else if (pem.empty()) {
      return base::Fail(TlsFailed(content.error().message));
    }
  } else if (pem.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return {};
  }
  const Memory memory = Open(pem);
  int found = 0;
  for (;; ++found) {
    const Certificate authority(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
    if (authority == nullptr) break;
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
  }
  ERR_clear_error();
  if (found > 0) return {};
  return base::Fail(TlsFailed("the certificate authority data holds no PEM certificate"));
}

// The first certificate is ours, those behind it lead to an authority that the server knows.
base::Status PresentCertificate(SSL_CTX* context, const TlsSettings& tls) {
  const Memory certificates = Open(tls.client_certificate_pem);
  const Certificate own(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  const Memory key_memory = Open(tls.client_key_pem);
  // An empty password, so that an encrypted key is an error and not a question on the terminal.
  char password[] = "";
  const Key key(PEM_read_bio_PrivateKey(key_memory.get(), nullptr, nullptr, password));
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return base::Fail(
        TlsFailed(fmt::format("the client certificate cannot be used: {}", LastTlsError())));
  }
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return base::Fail(TlsFailed(
        fmt::format("the client key cannot be used with the certificate: {}", LastTlsError())));
  }
  for (;;) {
    const Certificate link(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
    if (link == nullptr) break;
    SSL_CTX_add1_chain_cert(context, link.get());
  }
  ERR_clear_error();
  return {};
}

bool IsAddress(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
}

base::Status ExpectServer(SSL* ssl, const std::string& name) {
  X509_VERIFY_PARAM* parameters = SSL_get0_param(ssl);
  // What the macro SSL_set_tlsext_host_name does, without its cast.
  const auto send_name = [&] {
    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    const_cast<char*>(name.c_str())) == 1;
  };
  const bool set =
      IsAddress(name)
          ? X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) == 1
          : X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size()) == 1 && send_name();
  if (set) return {};
  return base::Fail(base::Invalid("InvalidUrl", fmt::format("\"{}\" is no server name", name)));
}

base::Result<Context> MakeContext(const TlsSettings& tls) {
  Context context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return base::Fail(base::Internal("HttpFailed", LastTlsError()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (tls.insecure_skip_verify) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  } else {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    TRY(TrustAuthorities(context.get(), tls));
  }
  if (!tls.client_certificate_pem.empty()) TRY(PresentCertificate(context.get(), tls));
  return context;
}

// Whether an error of OpenSSL is an alert in which the server says so.
bool RefusesOurCertificate(int reason) {
  switch (reason - SSL_AD_REASON_OFFSET) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

// Waits until the socket is ready for what TLS wants next.
base::Status WaitFor(int fd, short events, base::Deadline deadline, const StopToken& stop) {
  std::array<pollfd, 2> entries{{{.fd = fd, .events = events, .revents = 0},
                                 {.fd = stop.fd(), .events = POLLIN, .revents = 0}}};
  ::poll(entries.data(), entries.size(), deadline.poll_milliseconds());
  if (stop.stopped()) return base::Fail(stop.error());
  if (!deadline.passed()) return {};
  return base::Fail(
      base::Unavailable("ConnectionRefused", "the server did not answer the TLS handshake"));
}

}  // namespace

bool TlsTarget::SameAs(const TlsTarget& other) const {
  if (host != other.host || port != other.port || server_name != other.server_name) return false;
  if (tls == other.tls) return true;
  if (tls == nullptr || other.tls == nullptr) return false;
  return *tls == *other.tls;
}

base::Result<TlsConnection> TlsConnection::Connect(const TlsTarget& target, base::Deadline deadline,
                                                   const StopToken& stop) {
  const TlsSettings defaults;
  const TlsSettings& tls = target.tls == nullptr ? defaults : *target.tls;
  TRY_ASSIGN(const Context context, MakeContext(tls));
  TRY_ASSIGN(auto socket, ConnectTcp(target.host, target.port, deadline, stop));
  TlsConnection connection(std::move(socket),
                           std::unique_ptr<SSL, FreeSsl>(SSL_new(context.get())));
  SSL* ssl = connection.ssl_.get();
  if (ssl == nullptr || SSL_set_fd(ssl, connection.fd()) != 1) {
    return base::Fail(base::Internal("HttpFailed", LastTlsError()));
  }
  SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(kOffer.data()), kOffer.size());
  TRY(ExpectServer(ssl, target.server_name.empty() ? target.host : target.server_name));
  TRY(connection.Handshake(deadline, stop));
  return connection;
}

base::Status TlsConnection::Handshake(base::Deadline deadline, const StopToken& stop) {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(ssl_.get());
    if (result == 1) return {};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        TRY(WaitFor(fd(), POLLIN, deadline, stop));
        break;
      case SSL_ERROR_WANT_WRITE:
        TRY(WaitFor(fd(), POLLOUT, deadline, stop));
        break;
      case SSL_ERROR_SSL: {
        const long verified = SSL_get_verify_result(ssl_.get());
        if (verified != X509_V_OK) {
          return base::Fail(TlsFailed(fmt::format("the server's certificate is not accepted: {}",
                                                  X509_verify_cert_error_string(verified))));
        }
        if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
          ERR_clear_error();
          return base::Fail(
              base::Unavailable("ConnectionRefused", "the server went away in the TLS handshake"));
        }
        return base::Fail(TlsFailed(fmt::format("TLS handshake: {}", LastTlsError())));
      }
      default:
        ERR_clear_error();
        return base::Fail(
            base::Unavailable("ConnectionRefused", "the server went away in the TLS handshake"));
    }
  }
}

bool TlsConnection::http2() const {
  const unsigned char* chosen = nullptr;
  unsigned int length = 0;
  SSL_get0_alpn_selected(ssl_.get(), &chosen, &length);
  return std::string_view(reinterpret_cast<const char*>(chosen), length) == "h2";
}

base::Result<std::optional<std::size_t>> TlsConnection::Judge(int result, std::size_t count) {
  wants_write_ = false;
  if (result == 1) return count;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = true;
      return std::nullopt;
    case SSL_ERROR_WANT_READ:
      return std::nullopt;
    case SSL_ERROR_ZERO_RETURN:
      return base::Fail(ConnectionLost("the server ended the connection"));
    case SSL_ERROR_SYSCALL:
      return base::Fail(ConnectionLost(std::strerror(errno)));
    default:
      break;
  }
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return base::Fail(ConnectionLost("the server ended the connection"));
  }
  const std::string told = LastTlsError();
  if (RefusesOurCertificate(reason)) {
    return base::Fail(TlsFailed(fmt::format("the server refuses our certificate: {}", told)));
  }
  return base::Fail(ConnectionLost(told));
}

base::Result<std::optional<std::size_t>> TlsConnection::Read(std::span<char> into) {
  ERR_clear_error();
  std::size_t count = 0;
  const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &count);
  return Judge(result, count);
}

base::Result<std::optional<std::size_t>> TlsConnection::Write(std::string_view bytes) {
  ERR_clear_error();
  std::size_t count = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
  return Judge(result, count);
}

}  // namespace pitcrew::io
