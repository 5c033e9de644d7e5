#include "io/own_certificate.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "io/openssl_pointers.h"
#include "io/tls.h"

namespace pitcrew::io {
namespace {

constexpr std::chrono::seconds kClocksDiffer = std::chrono::hours(1);

base::Error CannotMake(const char* what) {
  return base::Internal("CertificateFailed", std::string(what) + ": " + LastTlsError());
}

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(memory, &data);
  return {data, static_cast<std::size_t>(length)};
}

bool Extend(X509* certificate, int extension, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, &context, extension, value.c_str());
  if (made == nullptr) return false;
  const bool added = X509_add_ext(certificate, made, -1) == 1;
  X509_EXTENSION_free(made);
  return added;
}

}  // namespace

base::Result<TlsIdentity> MakeOwnCertificate(const std::vector<std::string>& hosts,
                                             std::chrono::seconds lifetime) {
  const KeyPointer key(EVP_EC_gen("P-256"));
  const CertificatePointer certificate(X509_new());
  std::uint64_t serial = 0;
  if (key == nullptr || certificate == nullptr ||
      RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) {
    return base::Fail(CannotMake("make a key"));
  }
  X509* made = certificate.get();
  X509_set_version(made, X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made), (serial >> 1U) | 1U);
  X509_gmtime_adj(X509_getm_notBefore(made), -kClocksDiffer.count());
  X509_gmtime_adj(X509_getm_notAfter(made), lifetime.count());
  X509_set_pubkey(made, key.get());
  X509_NAME* name = X509_get_subject_name(made);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>("pitcrew"), -1, -1, 0);
  X509_set_issuer_name(made, name);
  std::string names;
  for (const std::string& host : hosts) names += (names.empty() ? "DNS:" : ",DNS:") + host;
  if (!Extend(made, NID_basic_constraints, "critical,CA:FALSE") ||
      !Extend(made, NID_ext_key_usage, "serverAuth") ||
      (!names.empty() && !Extend(made, NID_subject_alt_name, names)) ||
      X509_sign(made, key.get(), EVP_sha256()) == 0) {
    return base::Fail(CannotMake("make a certificate"));
  }
  const BioPointer certificate_text(BIO_new(BIO_s_mem()));
  const BioPointer key_text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate_text.get(), made);
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  TlsIdentity identity;
  identity.certificate = TextOf(certificate_text.get());
  identity.key = TextOf(key_text.get());
  return identity;
}

}  // namespace pitcrew::io
