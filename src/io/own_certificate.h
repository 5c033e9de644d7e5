// A certificate that a server makes for itself: it keeps others from listening, and proves nothing
// about who it is.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/http_server.h"

namespace pitcrew::io {

// A new key (P-256) and its certificate for these names of hosts, valid from an hour ago for
// `lifetime`; signed by itself. kInternal "CertificateFailed" when OpenSSL cannot.
base::Result<TlsIdentity> MakeOwnCertificate(const std::vector<std::string>& hosts,
                                             std::chrono::seconds lifetime);

}  // namespace pitcrew::io
