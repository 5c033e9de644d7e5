#include "io/proxy_tunnel.h"

#include <fmt/format.h>

#include <array>

#include "io/connection.h"
#include "io/http1_parser.h"

namespace pitcrew::io {
namespace {

constexpr int kForbidden = 403;
constexpr int kProxyAuthenticationRequired = 407;

base::Status WriteAll(Connection& connection, std::string_view bytes, base::Deadline deadline,
                      const StopToken& stop) {
  while (!bytes.empty()) {
    TRY_ASSIGN(const auto count, connection.Write(bytes));
    if (count) {
      bytes.remove_prefix(*count);
    } else {
      TRY(connection.WaitReady(deadline, stop, "CONNECT"));
    }
  }
  return {};
}

base::Result<HttpResponse> ReadAnswer(Connection& connection, base::Deadline deadline,
                                      const StopToken& stop) {
  Http1Parser parser(Http1Parser::Body::kNone);
  for (;;) {
    // One byte at a time, so that none of the server's, which come behind, is taken.
    std::array<char, 1> byte{};
    TRY_ASSIGN(const auto count, connection.Read(byte));
    if (!count) {
      TRY(connection.WaitReady(deadline, stop, "CONNECT"));
      continue;
    }
    if (*count == 0) TRY(parser.End());
    TRY(parser.Feed({byte.data(), *count}));
    if (auto head = parser.TakeHead()) return *std::move(head);
  }
}

base::Error Refused(int status) {
  const bool denied = status == kForbidden || status == kProxyAuthenticationRequired;
  return {.code = denied ? base::Code::kDenied : base::Code::kUnavailable,
          .reason = "ProxyRefused",
          .message =
              fmt::format("it answers CONNECT with status {}{}", status,
                          status == kProxyAuthenticationRequired
                              ? "; it wants a user and a password: http://user:password@host:port"
                              : "")};
}

}  // namespace

base::Status OpenTunnel(Connection& connection, const Url& proxy, const TunnelEnd& end,
                        base::Deadline deadline, const StopToken& stop) {
  const std::string target = Url{.host = end.host, .port = end.port}.host_and_port();
  std::string request = fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", target);
  if (const auto credentials = BasicCredentials(proxy)) {
    request += fmt::format("Proxy-Authorization: {}\r\n", *credentials);
  }
  request += "\r\n";
  TRY(WriteAll(connection, request, deadline, stop));
  TRY_ASSIGN(const HttpResponse answer, ReadAnswer(connection, deadline, stop));
  if (answer.status / 100 != 2) return base::Fail(Refused(answer.status));
  return {};
}

}  // namespace pitcrew::io
