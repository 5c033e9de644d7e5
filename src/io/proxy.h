// Which proxy a request goes through, by the environment's variables as Go's
// golang.org/x/net/http/httpproxy reads them (whose documentation is the source of every rule
// here), so that a cluster's proxy settings mean the same to us as to the programs they were
// written for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/url.h"

namespace pitcrew::io {

// The variables' values; empty ones are not set.
struct ProxyVariables {
  std::string http_proxy{};
  std::string https_proxy{};
  std::string no_proxy{};
  bool cgi = false;  // REQUEST_METHOD is set: HTTP_PROXY may then be a header of a stranger

  // Upper case counts before lower case.
  static ProxyVariables FromEnvironment();
};

// The hosts of NO_PROXY: names (with all below them), addresses, networks, each but networks with a
// port or for every port, or "*" for everything.
class ProxyExceptions {
 public:
  explicit ProxyExceptions(std::string_view no_proxy);
  // Whether the connection to this host and port is made without a proxy. Always so for loopback.
  [[nodiscard]] bool Contain(std::string_view host, std::string_view port) const;

 private:
  struct Network {
    std::string prefix{};  // four or sixteen bytes, those behind `bits` zero
    int bits = 0;
  };
  struct Address {
    std::string bytes{};
    std::string port{};  // empty: any
  };
  struct Domain {
    std::string suffix{};     // begins with a dot
    bool also_itself = true;  // the name without the dot, too
    std::string port{};
  };
  static std::optional<Network> ParseNetwork(std::string_view text);
  void Add(std::string_view entry);

  bool everything_ = false;
  std::vector<Network> networks_;
  std::vector<Address> addresses_;
  std::vector<Domain> domains_;
};

class ProxySettings {
 public:
  explicit ProxySettings(const ProxyVariables& variables);

  // Nothing: none. kInvalid "InvalidProxy" when the variable that counts names none that we can
  // use; Go passes over such a variable, and the request goes where it was not to go.
  [[nodiscard]] base::Result<std::optional<Url>> For(const Url& target) const;

 private:
  std::string http_proxy_;
  std::string https_proxy_;
  bool cgi_;
  ProxyExceptions exceptions_;
};

// "http://proxy:3128", "https://user:password@proxy", or without a scheme, which means http.
// `origin` names where it was found, for the message.
base::Result<Url> ParseProxy(std::string_view text, std::string_view origin);

}  // namespace pitcrew::io
