// Absolute http and https URLs in their parts (RFC 3986), and the header fields that stand for
// them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::io {

struct Url {
  std::string scheme{};  // in lower case
  // In lower case as it stands in the URL, percent-encoding decoded; only proxies have them.
  std::string user{};
  std::string password{};
  std::string host{};    // a name or an address; an IPv6 address without its brackets
  std::string port{};    // the scheme's own when the URL has none
  std::string target{};  // path and query, "/" at least; the fragment stays behind

  // "host:port", an IPv6 address in brackets: what CONNECT names.
  [[nodiscard]] std::string host_and_port() const;
  // The same as the Host header has it: without the scheme's own port.
  [[nodiscard]] std::string authority() const;

  bool operator==(const Url&) const = default;
};

// kInvalid "InvalidUrl" for any other scheme, a host that is neither name nor address, a port out
// of range, or characters that no URL has.
base::Result<Url> ParseUrl(std::string_view text);

// "Basic ..." for the user and password of `proxy`; nothing without a user.
std::optional<std::string> BasicCredentials(const Url& proxy);

// An IP address in network order, IPv4 as four bytes; nothing when `host` is a name.
std::optional<std::string> ParseAddress(std::string_view host);

}  // namespace pitcrew::io
