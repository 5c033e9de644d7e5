// Keys and certificates for servers on the loopback interface.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

struct ssl_ctx_st;

namespace pitcrew::testing {

struct KeyPair {
  std::string certificate_pem{};
  std::string key_pem{};
};

struct CertificateRequest {
  std::string common_name{};
  std::string organization{};            // the user's group, in client certificates
  std::vector<std::string> dns_names{};  // subject alternative names
  std::vector<std::string> addresses{};
  bool authority = false;
};

// P-256, valid from an hour ago for a day. `signer` null: signed by itself.
base::Result<KeyPair> MakeCertificate(const CertificateRequest& request,
                                      const KeyPair* signer = nullptr);

// What a server with this certificate speaks TLS by; to be freed by SSL_CTX_free.
ssl_ctx_st* MakeServerContext(const KeyPair& pair);

}  // namespace pitcrew::testing
