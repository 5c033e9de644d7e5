// TLS as a server: private to this room.
#pragma once

#include <openssl/ssl.h>

#include <functional>

#include "base/result.h"
#include "io/http_server.h"

namespace pitcrew::io {

// Lets every connection of the context begin with what `identity` then returns, which must live as
// long as the context.
void ServeTls(SSL_CTX& context, const std::function<base::Result<TlsIdentity>()>& identity);

// kInvalid "BadTlsIdentity" says what of it cannot be used.
base::Status CheckTls(const TlsIdentity& identity);

}  // namespace pitcrew::io
