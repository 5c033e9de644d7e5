#include "dashboard/cluster_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "codec/json.h"
#include "dashboard/secret.h"
#include "kube/request.h"
#include "kube/resource.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;

const kube::ResourceKind kTokenReviews{.group = "authentication.k8s.io",
                                       .version = "v1",
                                       .plural = "tokenreviews",
                                       .kind = "TokenReview",
                                       .namespaced = false};
const kube::ResourceKind kAccessReviews{.group = "authorization.k8s.io",
                                        .version = "v1",
                                        .plural = "subjectaccessreviews",
                                        .kind = "SubjectAccessReview",
                                        .namespaced = false};

constexpr std::size_t kSessionBytes = 24;
// Sent over TLS only, to this host only, for every path of it.
constexpr std::string_view kCookie = "__Host-pitcrew";

// 0: may see the fleet; otherwise the HTTP status of a refusal, and why.
struct Verdict {
  int status = 0;
  std::string why;
};

class InCluster final : public Access {
 public:
  InCluster(std::shared_ptr<kube::Client> client, io::StopToken stop,
            ClusterAccessSettings settings)
      : client_(std::move(client)), stop_(std::move(stop)), settings_(settings) {}

  // Under which name a cluster's services are reached is not known here; who has no token gets
  // nothing under any.
  std::optional<io::HttpAnswer> RefuseAnybody(const io::HttpServerRequest& /*request*/) override {
    return std::nullopt;
  }

  std::optional<io::HttpAnswer> Refuse(const io::HttpServerRequest& request) override {
    const std::string bearer(BearerToken(request));
    const std::string key = bearer.empty() ? CookieValue(request, kCookie) : KeyOf(bearer);
    if (key.empty()) return NotSignedIn();
    std::string token = bearer;
    {
      const std::scoped_lock lock(mutex_);
      const auto session = sessions_.find(key);
      if (session == sessions_.end()) {
        if (bearer.empty()) return NotSignedIn();
      } else {
        session->second.seen = base::SteadyClock::now();
        if (session->second.seen - session->second.checked < settings_.trust) return std::nullopt;
        token = session->second.token;
      }
    }
    return Check(key, token);
  }

  io::HttpAnswer Enter(const io::HttpServerRequest& request) override {
    const std::string bearer(BearerToken(request));
    if (bearer.empty()) {
      if (auto refused = Refuse(request)) return *std::move(refused);
      return {.status = 204, .body = ""};
    }
    const std::string session = RandomText(kSessionBytes);
    if (auto refused = Check(session, bearer)) return *std::move(refused);
    return {
        .status = 204,
        .body = "",
        .headers = {{"Set-Cookie", fmt::format("{}={}; Path=/; Secure; HttpOnly; SameSite=Strict",
                                               kCookie, session)}}};
  }

  [[nodiscard]] std::string_view asks_for() const override { return "token"; }

 private:
  struct Session {
    std::string token;
    base::SteadyClock::time_point checked;
    base::SteadyClock::time_point seen;
  };

  static io::HttpAnswer NotSignedIn() { return Refusal(401, "not signed in"); }
  // No cookie has this form.
  static std::string KeyOf(const std::string& token) { return "bearer " + token; }

  // Asks the API server, and keeps or ends the session.
  std::optional<io::HttpAnswer> Check(const std::string& key, const std::string& token) {
    const Verdict verdict = Review(token);
    const std::scoped_lock lock(mutex_);
    if (verdict.status != 0) {
      // A server that does not answer says nothing about the token; nobody is let in meanwhile.
      if (verdict.status != 503) sessions_.erase(key);
      return Refusal(verdict.status, verdict.why);
    }
    const auto now = base::SteadyClock::now();
    sessions_.insert_or_assign(key, Session{.token = token, .checked = now, .seen = now});
    if (sessions_.size() > settings_.most_sessions) {
      sessions_.erase(std::ranges::min_element(
          sessions_, {}, [](const auto& entry) { return entry.second.seen; }));
    }
    return std::nullopt;
  }

  // Reviews have no name and are not kept: the answer is all there is.
  base::Result<Json> Ask(const kube::ResourceKind& kind, Json spec) {
    const kube::Request request{
        .verb = "create",
        .method = "POST",
        .path = kube::ResourcePath(kind, ""),
        .query = {},
        .content_type = "application/json",
        .body = codec::ToJsonText(
            {{"apiVersion", kind.api_version()}, {"kind", kind.kind}, {"spec", std::move(spec)}})};
    TRY_ASSIGN(const std::string answer, client_->Send(request, stop_));
    return codec::ParseJson(answer, kind.kind);
  }

  Verdict Review(const std::string& token) {
    const auto review = Ask(kTokenReviews, {{"token", token}});
    if (!review) return {503, "the API server cannot be asked: " + review.error().message};
    const Json* known = codec::Find(*review, {"status", "authenticated"});
    if (known == nullptr || *known != true) return {401, "the cluster does not know this token"};
    const Json* user = codec::Find(*review, {"status", "user"});
    if (user == nullptr) return {401, "the cluster does not say whose token this is"};
    for (const char* resource : {"nodes", "pods"}) {
      Verdict verdict = ReviewAccess(*user, resource);
      if (verdict.status != 0) return verdict;
    }
    return {};
  }

  Verdict ReviewAccess(const Json& user, const char* resource) {
    Json spec = {{"user", codec::FindString(user, {"username"})},
                 {"resourceAttributes", {{"verb", "list"}, {"resource", resource}}}};
    for (const char* member : {"uid", "groups", "extra"}) {
      if (user.contains(member)) spec[member] = user[member];
    }
    const auto review = Ask(kAccessReviews, std::move(spec));
    if (!review) return {503, "the API server cannot be asked: " + review.error().message};
    const Json* allowed = codec::Find(*review, {"status", "allowed"});
    if (allowed != nullptr && *allowed == true) return {};
    return {403, fmt::format("{} may not list {} of all namespaces",
                             codec::FindString(user, {"username"}), resource)};
  }

  const std::shared_ptr<kube::Client> client_;
  const io::StopToken stop_;
  const ClusterAccessSettings settings_;
  std::mutex mutex_;
  std::map<std::string, Session> sessions_;
};

}  // namespace

std::unique_ptr<Access> ClusterAccess(std::shared_ptr<kube::Client> client, io::StopToken stop,
                                      ClusterAccessSettings settings) {
  return std::make_unique<InCluster>(std::move(client), std::move(stop), settings);
}

}  // namespace pitcrew::dashboard
