#include "dashboard/access.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "codec/json.h"
#include "dashboard/secret.h"

namespace pitcrew::dashboard {
namespace {

// The host without its port: "127.0.0.1:8080", "[::1]:8080".
std::string_view HostOf(std::string_view header) {
  if (header.starts_with('[')) return header.substr(0, header.find(']') + 1);
  return header.substr(0, header.find(':'));
}

std::string_view PortOf(std::string_view header) {
  const auto host = HostOf(header);
  return host.size() < header.size() ? header.substr(host.size() + 1) : std::string_view();
}

class Loopback final : public Access {
 public:
  explicit Loopback(std::string token) : token_(std::move(token)) {}

  std::optional<io::HttpAnswer> RefuseAnybody(const io::HttpServerRequest& request) override {
    const auto host = HostOf(request.header("host"));
    if (host == "127.0.0.1" || host == "localhost" || host == "[::1]") return std::nullopt;
    return Refusal(421, "this server answers on the loopback address only");
  }

  std::optional<io::HttpAnswer> Refuse(const io::HttpServerRequest& request) override {
    if (AreSame(token_, BearerToken(request))) return std::nullopt;
    if (AreSame(token_, CookieValue(request, CookieOf(request)))) return std::nullopt;
    return Refusal(401, "open the address that `pitcrew dashboard` has printed");
  }

  io::HttpAnswer Enter(const io::HttpServerRequest& request) override {
    if (auto refused = Refuse(request)) return *std::move(refused);
    return {.status = 204,
            .body = "",
            .headers = {{"Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict",
                                                   CookieOf(request), token_)}}};
  }

  [[nodiscard]] std::string_view asks_for() const override { return "link"; }

 private:
  // Cookies are a host's, not a port's: another dashboard on this machine keeps its own.
  static std::string CookieOf(const io::HttpServerRequest& request) {
    return fmt::format("pitcrew-{}", PortOf(request.header("host")));
  }

  const std::string token_;
};

}  // namespace

io::HttpAnswer Refusal(int status, std::string_view text) {
  return {.status = status,
          .content_type = "application/json",
          .body = codec::ToJsonText({{"error", text}}) + "\n"};
}

std::string_view BearerToken(const io::HttpServerRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  const auto header = request.header("authorization");
  if (base::ToLower(header.substr(0, kScheme.size())) != kScheme) return {};
  return base::Trim(header.substr(kScheme.size()));
}

std::string CookieValue(const io::HttpServerRequest& request, std::string_view name) {
  for (const std::string& cookie : base::SplitTrimmed(request.header("cookie"), ';')) {
    const auto sign = cookie.find('=');
    if (sign != std::string::npos && std::string_view(cookie).substr(0, sign) == name) {
      return cookie.substr(sign + 1);
    }
  }
  return "";
}

std::unique_ptr<Access> LoopbackAccess(std::string token) {
  return std::make_unique<Loopback>(std::move(token));
}

}  // namespace pitcrew::dashboard
