#include "io/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <string_view>

#include "base/file.h"
#include "io/openssl_pointers.h"
#include "io/url.h"

namespace pitcrew::io {
namespace {

// The protocols that we offer, in the form of ALPN: each with its length in front.
constexpr std::string_view kBoth = "\x02h2\x08http/1.1";
constexpr std::string_view kOnlyHttp1 = "\x08http/1.1";

// The certificates of the settings, as they are now; empty: none are named.
base::Result<std::string> ReadAuthorities(const TlsSettings& settings) {
  if (settings.ca_file.empty()) return settings.ca_pem;
  auto content = base::ReadFile(settings.ca_file);
  if (content) return content;
  // Unknown is not absent: what was known last stands.
  if (!settings.ca_pem.empty()) return settings.ca_pem;
  return base::Fail(TlsFailed(content.error().message));
}

base::Status TrustAuthorities(SSL_CTX* context, const TlsSettings& settings, bool to_proxy) {
  TRY_ASSIGN(const std::string pem, ReadAuthorities(settings));
  const bool named = !pem.empty() || !settings.ca_file.empty();
  if (!named || to_proxy) SSL_CTX_set_default_verify_paths(context);
  if (!named) return {};
  // As Go: what is given is trusted, also when it is not a root.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  const BioPointer memory = OpenPem(pem);
  int found = 0;
  for (;; ++found) {
    const CertificatePointer authority(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
    if (authority == nullptr) break;
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
  }
  ERR_clear_error();
  if (found > 0) return {};
  return base::Fail(
      TlsFailed(settings.ca_file.empty()
                    ? "the certificate authority data holds no PEM certificate"
                    : fmt::format("{} holds no PEM certificate", settings.ca_file.string())));
}

// The first certificate is ours, those behind it lead to an authority that the server knows.
base::Status PresentCertificate(SSL_CTX* context, const TlsSettings& tls) {
  const BioPointer certificates = OpenPem(tls.client_certificate_pem);
  const CertificatePointer own(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  const BioPointer key_memory = OpenPem(tls.client_key_pem);
  // An empty password, so that an encrypted key is an error and not a question on the terminal.
  char password[] = "";
  const KeyPointer key(PEM_read_bio_PrivateKey(key_memory.get(), nullptr, nullptr, password));
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
    const CertificatePointer link(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
    if (link == nullptr) break;
    SSL_CTX_add1_chain_cert(context, link.get());
  }
  ERR_clear_error();
  return {};
}

base::Status ExpectServer(SSL* ssl, const std::string& name) {
  X509_VERIFY_PARAM* parameters = SSL_get0_param(ssl);
  // What the macro SSL_set_tlsext_host_name does, without its cast.
  const auto send_name = [&] {
    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    const_cast<char*>(name.c_str())) == 1;
  };
  const bool set =
      ParseAddress(name)
          ? X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) == 1
          : X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size()) == 1 && send_name();
  if (set) return {};
  return base::Fail(base::Invalid("InvalidUrl", fmt::format("\"{}\" is no server name", name)));
}

base::Result<ContextPointer> MakeContext(const TlsSettings& settings, bool to_proxy) {
  ContextPointer context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return base::Fail(base::Internal("HttpFailed", LastTlsError()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (settings.insecure_skip_verify) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  } else {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    TRY(TrustAuthorities(context.get(), settings, to_proxy));
  }
  if (!to_proxy && !settings.client_certificate_pem.empty()) {
    TRY(PresentCertificate(context.get(), settings));
  }
  return context;
}

}  // namespace

std::string LastTlsError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown TLS error" : reason;
}

base::Error TlsFailed(std::string message) {
  return {.code = base::Code::kDenied, .reason = "TlsFailed", .message = std::move(message)};
}

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

base::Result<SslPointer> MakeTls(const TlsSettings& settings, const TlsGreeting& greeting) {
  TRY_ASSIGN(const ContextPointer context, MakeContext(settings, greeting.to_proxy));
  SslPointer ssl(SSL_new(context.get()));
  if (ssl == nullptr) return base::Fail(base::Internal("HttpFailed", LastTlsError()));
  const std::string_view offer = greeting.offer_http2 ? kBoth : kOnlyHttp1;
  SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>(offer.data()),
                      static_cast<unsigned int>(offer.size()));
  TRY(ExpectServer(ssl.get(), greeting.server_name));
  return ssl;
}

}  // namespace pitcrew::io
