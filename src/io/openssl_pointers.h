// OpenSSL's values, each with an owner that frees it.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace pitcrew::io {

template <auto Function>
struct FreeWith {
  template <class T>
  void operator()(T* pointer) const {
    Function(pointer);
  }
};
using ContextPointer = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;
using BioPointer = std::unique_ptr<BIO, FreeWith<BIO_free>>;
using CertificatePointer = std::unique_ptr<X509, FreeWith<X509_free>>;
using KeyPointer = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using StorePointer = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;

// Reads `pem`, which has to live as long.
inline BioPointer OpenPem(const std::string& pem) {
  return BioPointer(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

}  // namespace pitcrew::io
