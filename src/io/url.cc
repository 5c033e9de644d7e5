#include "io/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/strings.h"

namespace pitcrew::io {
namespace {

constexpr std::uint64_t kLargestPort = 65535;

bool IsAlphanumeric(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9');
}

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::optional<std::string> DecodePercent(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// Names as DNS and people have them; a percent sign or anything else would mean something else to
// the next reader.
bool IsName(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char character) {
    return IsAlphanumeric(character) || character == '-' || character == '.' || character == '_';
  });
}

std::string_view PortOf(std::string_view scheme) { return scheme == "https" ? "443" : "80"; }

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
}

// What is wrong with the URL; empty when nothing is.
std::string_view ReadUser(std::string_view text, Url& url) {
  const auto colon = text.find(':');
  auto user = DecodePercent(text.substr(0, colon));
  auto password = DecodePercent(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (!user || !password) return "its user or password has a bad percent encoding";
  url.user = *std::move(user);
  url.password = *std::move(password);
  return {};
}

std::string_view ReadHost(std::string_view text, Url& url) {
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return "its IPv6 address has no closing bracket";
    url.host = text.substr(1, end - 1);
    if (url.host.find(':') == std::string::npos || !ParseAddress(url.host)) {
      return "what stands in brackets is not an IPv6 address";
    }
    port = text.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) return "something stands behind its IPv6 address";
  } else {
    const auto colon = text.find(':');
    url.host = text.substr(0, colon);
    if (!IsName(url.host)) return "its host is not a name or an address";
    if (colon != std::string_view::npos) port = text.substr(colon);
  }
  if (port.starts_with(':')) port.remove_prefix(1);
  if (port.empty()) {
    url.port = PortOf(url.scheme);
    return {};
  }
  const bool digits =
      std::ranges::all_of(port, [](char digit) { return digit >= '0' && digit <= '9'; });
  const auto number = base::ParseUnsigned(port);
  if (!digits || !number || *number == 0 || *number > kLargestPort) return "its port is no port";
  url.port = std::to_string(*number);
  return {};
}

std::string_view Read(std::string_view text, Url& url) {
  if (std::ranges::any_of(text, [](unsigned char byte) { return byte <= ' ' || byte == 0x7F; })) {
    return "it has a space or a control character";
  }
  const auto colon = text.find("://");
  if (colon == std::string_view::npos) return "it has no scheme";
  url.scheme = base::ToLower(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") return "its scheme is not http or https";
  text.remove_prefix(colon + 3);
  text = text.substr(0, text.find('#'));
  const auto end = text.find_first_of("/?");
  std::string_view authority = text.substr(0, end);
  if (end != std::string_view::npos) url.target = text.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    if (const auto wrong = ReadUser(authority.substr(0, at), url); !wrong.empty()) return wrong;
    authority.remove_prefix(at + 1);
  }
  return ReadHost(authority, url);
}

}  // namespace

std::string Url::host_and_port() const { return fmt::format("{}:{}", Bracketed(host), port); }

std::string Url::authority() const {
  return port == PortOf(scheme) ? Bracketed(host) : host_and_port();
}

base::Result<Url> ParseUrl(std::string_view text) {
  Url url;
  const std::string_view wrong = Read(text, url);
  if (wrong.empty()) return url;
  // Not the text itself where it may hold a password.
  const auto at = text.rfind('@');
  return base::Fail(base::Invalid(
      "InvalidUrl", fmt::format("\"{}\" is not an http or https URL: {}",
                                at == std::string_view::npos ? text : text.substr(at + 1), wrong)));
}

std::optional<std::string> BasicCredentials(const Url& proxy) {
  if (proxy.user.empty() && proxy.password.empty()) return std::nullopt;
  const std::string plain = proxy.user + ":" + proxy.password;
  // Four characters for three bytes, and the library's closing zero.
  std::string encoded((plain.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(plain.data()),
                                     static_cast<int>(plain.size()));
  encoded.resize(static_cast<std::size_t>(length));
  return "Basic " + encoded;
}

std::optional<std::string> ParseAddress(std::string_view host) {
  const std::string text(host);
  std::array<char, sizeof(in6_addr)> address{};
  if (::inet_pton(AF_INET, text.c_str(), address.data()) == 1) {
    return std::string(address.data(), sizeof(in_addr));
  }
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) {
    return std::string(address.data(), sizeof(in6_addr));
  }
  return std::nullopt;
}

}  // namespace pitcrew::io
