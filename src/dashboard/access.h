// Who may see the fleet. The page itself (its script and style) is the same everywhere and tells
// nothing; what is below /api/ does.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/http_server.h"

namespace pitcrew::dashboard {

// An answer {"error": text} with this status.
io::HttpAnswer Refusal(int status, std::string_view text);
// The token of `Authorization: Bearer`; "" when there is none.
std::string_view BearerToken(const io::HttpServerRequest& request);
// The value of a cookie; "" when there is none.
std::string CookieValue(const io::HttpServerRequest& request, std::string_view name);

// Thread-safe.
class Access {
 public:
  virtual ~Access() = default;
  // Of every request, also for the page: the answer that refuses it, or nothing.
  virtual std::optional<io::HttpAnswer> RefuseAnybody(const io::HttpServerRequest& request) = 0;
  // Of requests below /api/. May ask the API server.
  virtual std::optional<io::HttpAnswer> Refuse(const io::HttpServerRequest& request) = 0;
  // GET /api/session with a token: a cookie that stands for it, as a page cannot send a token with
  // a stream of events; or the answer that refuses.
  virtual io::HttpAnswer Enter(const io::HttpServerRequest& request) = 0;
  // What the page asks a person for who has no session: "link" (the address that the command has
  // printed) or "token" (of a user of the cluster).
  [[nodiscard]] virtual std::string_view asks_for() const = 0;
};

// For one person on the same machine: whoever knows the token, which only this process's output
// tells. Other users of the machine reach the port too, and so does every web page that the person
// opens: those that name this machine by a name of their own (DNS rebinding) are refused.
std::unique_ptr<Access> LoopbackAccess(std::string token);

}  // namespace pitcrew::dashboard
