#include "io/tls_server.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/log.h"
#include "io/openssl_pointers.h"
#include "io/tls.h"

namespace pitcrew::io {
namespace {

using Clients = TlsIdentity::Clients;

base::Status Wrong(std::string_view what) {
  return base::Fail(base::Invalid("BadTlsIdentity", fmt::format("{}: {}", what, LastTlsError())));
}

base::Status UseCertificate(SSL& connection, const TlsIdentity& identity) {
  const BioPointer memory = OpenPem(identity.certificate);
  const CertificatePointer own(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
  if (own == nullptr) return Wrong("there is no certificate in the certificate's file");
  if (SSL_use_certificate(&connection, own.get()) != 1) return Wrong("the certificate is refused");
  SSL_clear_chain_certs(&connection);
  while (true) {
    const CertificatePointer next(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    SSL_add1_chain_cert(&connection, next.get());
  }
  ERR_clear_error();
  const BioPointer key_memory = OpenPem(identity.key);
  const KeyPointer key(PEM_read_bio_PrivateKey(key_memory.get(), nullptr, nullptr, nullptr));
  if (key == nullptr) return Wrong("there is no private key in the key's file");
  if (SSL_use_PrivateKey(&connection, key.get()) != 1) {
    return Wrong("the private key does not fit to the certificate");
  }
  return {};
}

// Certificates that nobody verifies are taken.
int TakeAny(int, X509_STORE_CTX*) { return 1; }

base::Status UseClientRules(SSL& connection, const TlsIdentity& identity) {
  if (identity.clients == Clients::kAnybody) {
    SSL_set_verify(&connection, SSL_VERIFY_NONE, nullptr);
    return {};
  }
  int mode = SSL_VERIFY_PEER;
  const bool needed =
      identity.clients == Clients::kAnyCertificate || identity.clients == Clients::kVerified;
  if (needed) mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  const bool verified =
      identity.clients == Clients::kVerified || identity.clients == Clients::kVerifiedIfGiven;
  SSL_set_verify(&connection, mode, verified ? nullptr : TakeAny);
  if (!verified) return {};
  const StorePointer store(X509_STORE_new());
  const BioPointer memory = OpenPem(identity.client_authorities);
  int found = 0;
  for (;; ++found) {
    const CertificatePointer authority(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
    if (authority == nullptr) break;
    X509_STORE_add_cert(store.get(), authority.get());
  }
  ERR_clear_error();
  if (found == 0) return Wrong("there is no certificate in the file of client authorities");
  SSL_set1_verify_cert_store(&connection, store.get());
  auto* parameters = SSL_get0_param(&connection);
  for (const auto& name : identity.client_names) {
    X509_VERIFY_PARAM_add1_host(parameters, name.c_str(), name.size());
  }
  return {};
}

base::Status UseProtocol(SSL& connection, const TlsIdentity& identity) {
  if (SSL_set_min_proto_version(&connection, identity.min_version) != 1 ||
      SSL_set_max_proto_version(&connection, identity.max_version) != 1) {
    return Wrong("the versions of TLS are not possible");
  }
  if (!identity.cipher_list.empty() &&
      SSL_set_cipher_list(&connection, identity.cipher_list.c_str()) != 1) {
    return Wrong("no cipher suite can be used");
  }
  if (!identity.cipher_suites.empty() &&
      SSL_set_ciphersuites(&connection, identity.cipher_suites.c_str()) != 1) {
    return Wrong("no cipher suite can be used");
  }
  if (!identity.groups.empty() && SSL_set1_groups_list(&connection, identity.groups.c_str()) != 1) {
    return Wrong("no curve can be used");
  }
  if (identity.prefer_own_order) SSL_set_options(&connection, SSL_OP_CIPHER_SERVER_PREFERENCE);
  return {};
}

base::Status Use(SSL& connection, const TlsIdentity& identity) {
  TRY(UseProtocol(connection, identity));
  TRY(UseCertificate(connection, identity));
  return UseClientRules(connection, identity);
}

int BeginConnection(SSL* connection, int* alert, void* argument) {
  const auto& identity = *static_cast<const std::function<base::Result<TlsIdentity>()>*>(argument);
  const auto now = identity();
  const auto used = now ? Use(*connection, *now) : base::Status(base::Fail(now.error()));
  if (used) return SSL_CLIENT_HELLO_SUCCESS;
  base::LogError("a connection is refused: this server has no usable certificate", used.error());
  *alert = SSL_AD_INTERNAL_ERROR;
  return SSL_CLIENT_HELLO_ERROR;
}

}  // namespace

void ServeTls(SSL_CTX& context, const std::function<base::Result<TlsIdentity>()>& identity) {
  // The newest settings count for every connection: none is resumed.
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_client_hello_cb(&context, BeginConnection,
                              const_cast<std::function<base::Result<TlsIdentity>()>*>(&identity));
}

base::Status CheckTls(const TlsIdentity& identity) {
  const ContextPointer context(SSL_CTX_new(TLS_server_method()));
  const SslPointer connection(SSL_new(context.get()));
  return Use(*connection, identity);
}

}  // namespace pitcrew::io
