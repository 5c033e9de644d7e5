#include "loopback/certificate.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "io/openssl_pointers.h"

namespace pitcrew::testing {
namespace {

using Key = io::KeyPointer;
using Certificate = io::CertificatePointer;
using Bio = io::BioPointer;

base::Error Problem(const char* what) {
  return base::Internal("CertificateFailed",
                        std::string(what) + ": " + ERR_error_string(ERR_get_error(), nullptr));
}

std::string Take(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(length)};
}

void AddName(X509_NAME* name, const char* field, const std::string& text) {
  if (text.empty()) return;
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(text.data()),
                             static_cast<int>(text.size()), -1, 0);
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return false;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return true;
}

std::string AlternativeNames(const CertificateRequest& request) {
  std::string names;
  for (const auto& name : request.dns_names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
  for (const auto& name : request.addresses) names += (names.empty() ? "IP:" : ",IP:") + name;
  return names;
}

}  // namespace

base::Result<KeyPair> MakeCertificate(const CertificateRequest& request, const KeyPair* signer) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  if (key == nullptr || certificate == nullptr) return base::Fail(Problem("make a key"));
  Key signer_key;
  Certificate signer_certificate;
  if (signer != nullptr) {
    const Bio key_bio = io::OpenPem(signer->key_pem);
    signer_key.reset(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
    const Bio bio = io::OpenPem(signer->certificate_pem);
    signer_certificate.reset(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!signer_key || !signer_certificate) return base::Fail(Problem("read the signer"));
  }
  X509* subject = certificate.get();
  X509* issuer = signer == nullptr ? subject : signer_certificate.get();
  X509_set_version(subject, 2);
  std::uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(subject), serial >> 1U);
  X509_gmtime_adj(X509_getm_notBefore(subject), -3600);
  X509_gmtime_adj(X509_getm_notAfter(subject), 86400);
  X509_set_pubkey(subject, key.get());
  AddName(X509_get_subject_name(subject), "O", request.organization);
  AddName(X509_get_subject_name(subject), "CN", request.common_name);
  X509_set_issuer_name(subject, X509_get_subject_name(issuer));
  AddExtension(subject, issuer, NID_basic_constraints,
               request.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (const auto names = AlternativeNames(request); !names.empty()) {
    AddExtension(subject, issuer, NID_subject_alt_name, names);
  }
  if (X509_sign(subject, signer == nullptr ? key.get() : signer_key.get(), EVP_sha256()) == 0) {
    return base::Fail(Problem("sign"));
  }
  const Bio certificate_out(BIO_new(BIO_s_mem()));
  const Bio key_out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate_out.get(), subject);
  PEM_write_bio_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return KeyPair{Take(certificate_out.get()), Take(key_out.get())};
}

SSL_CTX* MakeServerContext(const KeyPair& pair) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  BIO* certificate = BIO_new_mem_buf(pair.certificate_pem.data(), -1);
  BIO* key = BIO_new_mem_buf(pair.key_pem.data(), -1);
  X509* parsed = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
  EVP_PKEY* parsed_key = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
  SSL_CTX_use_certificate(context, parsed);
  SSL_CTX_use_PrivateKey(context, parsed_key);
  X509_free(parsed);
  EVP_PKEY_free(parsed_key);
  BIO_free(certificate);
  BIO_free(key);
  return context;
}

}  // namespace pitcrew::testing
