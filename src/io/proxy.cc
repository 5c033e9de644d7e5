#include "io/proxy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/strings.h"

namespace pitcrew::io {
namespace {

constexpr std::size_t kV4Size = 4;
constexpr std::size_t kV6Size = 16;
// An IPv4 address in the clothes of IPv6 (::ffff:10.0.0.1) is the IPv4 address to Go.
constexpr std::string_view kMapped("\0\0\0\0\0\0\0\0\0\0\xff\xff", kV6Size - kV4Size);

std::optional<std::string> ParsePlainAddress(std::string_view text) {
  auto address = ParseAddress(text);
  if (address && address->size() == kV6Size && address->starts_with(kMapped)) {
    address->erase(0, kMapped.size());
  }
  return address;
}

bool IsLoopback(const std::string& address) {
  if (address.size() == kV4Size) return address.front() == 127;
  return address == std::string(kV6Size - 1, '\0') + '\x01';
}

// Bits behind the first `bits` become zero.
std::string Masked(std::string address, int bits) {
  for (std::size_t i = 0; i < address.size(); ++i) {
    const int of_byte = std::clamp(bits - static_cast<int>(i) * 8, 0, 8);
    address[i] = static_cast<char>(static_cast<unsigned char>(address[i]) & (0xFF00U >> of_byte));
  }
  return address;
}

struct HostPort {
  std::string_view host;
  std::string_view port;
};

// Go's net.SplitHostPort: nothing unless there is exactly one colon, or one behind brackets.
std::optional<HostPort> SplitHostPort(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[')) {
    if (host.find(']') != host.size() - 1) return std::nullopt;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view port = text.substr(colon + 1);
  if (host.find_first_of("[]") != std::string_view::npos ||
      port.find_first_of("[]") != std::string_view::npos) {
    return std::nullopt;
  }
  return HostPort{.host = host, .port = port};
}

std::string Variable(const char* upper, const char* lower) {
  for (const char* name : {upper, lower}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return {};
}

}  // namespace

ProxyVariables ProxyVariables::FromEnvironment() {
  return {.http_proxy = Variable("HTTP_PROXY", "http_proxy"),
          .https_proxy = Variable("HTTPS_PROXY", "https_proxy"),
          .no_proxy = Variable("NO_PROXY", "no_proxy"),
          .cgi = !Variable("REQUEST_METHOD", "REQUEST_METHOD").empty()};
}

ProxyExceptions::ProxyExceptions(std::string_view no_proxy) {
  for (const std::string& piece : base::Split(no_proxy, ',')) {
    const std::string entry = base::ToLower(base::Trim(piece));
    if (entry == "*") {
      everything_ = true;
      return;
    }
    if (!entry.empty()) Add(entry);
  }
}

std::optional<ProxyExceptions::Network> ProxyExceptions::ParseNetwork(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = ParseAddress(text.substr(0, slash));
  const std::string_view digits = text.substr(slash + 1);
  const auto bits = base::ParseUnsigned(digits);
  if (!address || !bits || *bits > address->size() * 8 || digits.size() > 3 ||
      !std::ranges::all_of(digits, [](char digit) { return digit >= '0' && digit <= '9'; })) {
    return std::nullopt;
  }
  Network network{.prefix = Masked(*address, static_cast<int>(*bits)),
                  .bits = static_cast<int>(*bits)};
  if (network.prefix.size() == kV6Size && network.prefix.starts_with(kMapped)) {
    network.prefix.erase(0, kMapped.size());
    network.bits -= static_cast<int>(kMapped.size()) * 8;
  }
  return network;
}

void ProxyExceptions::Add(std::string_view entry) {
  if (auto network = ParseNetwork(entry)) {
    networks_.push_back(*std::move(network));
    return;
  }
  const auto split = SplitHostPort(entry);
  std::string_view host = split ? split->host : entry;
  std::string port(split ? split->port : "");
  if (host.empty()) return;
  if (auto address = ParsePlainAddress(host)) {
    addresses_.push_back({.bytes = *std::move(address), .port = std::move(port)});
    return;
  }
  if (host.starts_with("*.")) host.remove_prefix(1);
  const bool dotted = host.starts_with('.');
  domains_.push_back({.suffix = dotted ? std::string(host) : "." + std::string(host),
                      .also_itself = !dotted,
                      .port = std::move(port)});
}

bool ProxyExceptions::Contain(std::string_view host, std::string_view port) const {
  const std::string name = base::ToLower(base::Trim(host));
  if (host == "localhost" || everything_) return true;
  const auto same_port = [&](const std::string& wanted) {
    return wanted.empty() || wanted == port;
  };
  if (const auto address = ParsePlainAddress(name)) {
    if (IsLoopback(*address)) return true;
    const bool known =
        std::ranges::any_of(networks_,
                            [&](const Network& network) {
                              return network.prefix.size() == address->size() &&
                                     Masked(*address, network.bits) == network.prefix;
                            }) ||
        std::ranges::any_of(addresses_, [&](const Address& exception) {
          return exception.bytes == *address && same_port(exception.port);
        });
    if (known) return true;
  }
  return std::ranges::any_of(domains_, [&](const Domain& domain) {
    const bool below = name.ends_with(domain.suffix);
    const bool itself = domain.also_itself && name == std::string_view(domain.suffix).substr(1);
    return (below || itself) && same_port(domain.port);
  });
}

ProxySettings::ProxySettings(const ProxyVariables& variables)
    : http_proxy_(variables.http_proxy),
      https_proxy_(variables.https_proxy),
      cgi_(variables.cgi),
      exceptions_(variables.no_proxy) {}

base::Result<std::optional<Url>> ProxySettings::For(const Url& target) const {
  const bool tls = target.scheme == "https";
  const std::string& proxy = tls ? https_proxy_ : http_proxy_;
  if (proxy.empty()) return std::nullopt;
  if (!tls && cgi_) {
    return base::Fail(base::Invalid(
        "InvalidProxy",
        "HTTP_PROXY is not used where REQUEST_METHOD is set, because it may then be a header that "
        "a stranger has sent (golang.org/s/cgihttpproxy)"));
  }
  if (exceptions_.Contain(target.host, target.port)) return std::nullopt;
  TRY_ASSIGN(auto parsed, ParseProxy(proxy, tls ? "HTTPS_PROXY" : "HTTP_PROXY"));
  return parsed;
}

base::Result<Url> ParseProxy(std::string_view text, std::string_view origin) {
  const bool has_scheme = text.find("://") != std::string_view::npos;
  auto url = ParseUrl(has_scheme ? std::string(text) : fmt::format("http://{}", text));
  if (url) return url;
  return base::Fail(base::Invalid(
      "InvalidProxy", fmt::format("{}: {}; write for example http://proxy.example:3128", origin,
                                  url.error().message)));
}

}  // namespace pitcrew::io
