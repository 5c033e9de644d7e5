// TLS as a client: whom we trust and who we are, in one place for servers and proxies alike.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "io/http_client.h"

namespace pitcrew::io {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPointer = std::unique_ptr<SSL, FreeSsl>;

// What is said to the other side.
struct TlsGreeting {
  std::string server_name{};  // to check and to send: a name or an address
  bool offer_http2 = true;    // HTTP/1.1 is always offered
  // To a proxy: it never gets our client certificate, and may be known to the system's authorities
  // instead of the server's.
  bool to_proxy = false;
};

// A client's end, not yet connected to anything. kDenied "TlsFailed" when the authorities or our
// own certificate cannot be used, kInvalid "InvalidUrl" for an impossible server name.
base::Result<SslPointer> MakeTls(const TlsSettings& settings, const TlsGreeting& greeting);

// The latest error of OpenSSL in words; forgets it.
std::string LastTlsError();
base::Error TlsFailed(std::string message);
// Whether the reason of an error of OpenSSL is an alert in which the server refuses our
// certificate.
bool RefusesOurCertificate(int reason);

}  // namespace pitcrew::io
