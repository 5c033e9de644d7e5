// Who a real kube-apiserver knows and lets see nodes and pods is who may see the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/api_server.h"
#include "dashboard/cluster_access.h"
#include "dashboard/feed.h"
#include "dashboard/site.h"
#include "io/http_client.h"
#include "io/own_certificate.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;
using pitcrew::testing::ApiServer;
using ::testing::HasSubstr;

constexpr kube::ResourceKind kBindings{.group = "rbac.authorization.k8s.io",
                                       .version = "v1",
                                       .plural = "clusterrolebindings",
                                       .kind = "ClusterRoleBinding",
                                       .namespaced = false};
constexpr kube::WriteOptions kCreator{.field_manager = "test", .subresource = {}};

io::HttpServerRequest Bearing(const std::string& token) {
  return {.path = "/api/fleet", .query = {}, .headers = {{"authorization", "Bearer " + token}}};
}
io::HttpServerRequest WithSession(const std::string& cookie) {
  return {.path = "/api/fleet", .query = {}, .headers = {{"cookie", cookie}}};
}
int StatusOf(const std::optional<io::HttpAnswer>& refusal) {
  return refusal ? refusal->status : 200;
}
// "name=value" of the cookie that an answer sets.
std::string CookieOf(const io::HttpAnswer& answer) {
  for (const auto& [name, value] : answer.headers) {
    if (name == "Set-Cookie") return value.substr(0, value.find(';'));
  }
  return "";
}

class ClusterAccessTest : public ::testing::Test {
 protected:
  std::unique_ptr<Access> Make(ClusterAccessSettings settings = {}) {
    return ClusterAccess(client_, {}, settings);
  }
  ApiServer& server_ = ApiServer::Shared();
  const std::shared_ptr<kube::Client> client_ = server_.MakeClient();
};

TEST_F(ClusterAccessTest, TokensOfUsersWhoMayListNodesAndPodsLetIn) {
  const auto access = Make();
  EXPECT_EQ(StatusOf(access->Refuse({})), 401);
  EXPECT_EQ(StatusOf(access->Refuse(Bearing("nobody's"))), 401);
  const auto stranger = access->Refuse(Bearing(server_.stranger_token()));
  EXPECT_EQ(StatusOf(stranger), 403);
  EXPECT_THAT(stranger->body, HasSubstr("may not list nodes of all namespaces"));
  EXPECT_EQ(StatusOf(access->Refuse(Bearing(server_.admin_token()))), 200);
}

TEST_F(ClusterAccessTest, ASessionStandsForAToken) {
  const auto access = Make();
  EXPECT_EQ(access->Enter({}).status, 401);
  EXPECT_EQ(access->Enter(Bearing(server_.stranger_token())).status, 403);
  const auto entered = access->Enter(Bearing(server_.admin_token()));
  ASSERT_EQ(entered.status, 204);
  ASSERT_EQ(entered.headers.size(), 1U);
  EXPECT_THAT(entered.headers[0].second, HasSubstr("; Path=/; Secure; HttpOnly; SameSite=Strict"));
  const std::string cookie = CookieOf(entered);
  EXPECT_EQ(StatusOf(access->Refuse(WithSession(cookie))), 200);
  EXPECT_EQ(access->Enter(WithSession(cookie)).status, 204);
  EXPECT_EQ(StatusOf(access->Refuse(WithSession("__Host-pitcrew=made-up"))), 401);
  // A token is no session, and another process knows none of this one's.
  EXPECT_EQ(StatusOf(access->Refuse(WithSession("__Host-pitcrew=bearer " + server_.admin_token()))),
            401);
  EXPECT_EQ(StatusOf(Make()->Refuse(WithSession(cookie))), 401);
}

TEST_F(ClusterAccessTest, OnlySoManySessionsAreKept) {
  const auto access = Make({.most_sessions = 2});
  const std::string first = CookieOf(access->Enter(Bearing(server_.admin_token())));
  const std::string second = CookieOf(access->Enter(Bearing(server_.admin_token())));
  EXPECT_EQ(StatusOf(access->Refuse(WithSession(first))), 200);  // seen later than the second
  const std::string third = CookieOf(access->Enter(Bearing(server_.admin_token())));
  EXPECT_EQ(StatusOf(access->Refuse(WithSession(first))), 200);
  EXPECT_EQ(StatusOf(access->Refuse(WithSession(second))), 401);
  EXPECT_EQ(StatusOf(access->Refuse(WithSession(third))), 200);
}

// Rights that are taken away end the session with the next question to the API server.
TEST_F(ClusterAccessTest, ASessionEndsWithTheRights) {
  const auto access = Make({.trust = std::chrono::seconds(0)});
  const auto review =
      client_->Send({.verb = "create",
                     .method = "POST",
                     .path = "/apis/authentication.k8s.io/v1/tokenreviews",
                     .query = {},
                     .content_type = "application/json",
                     .body = codec::ToJsonText({{"apiVersion", "authentication.k8s.io/v1"},
                                                {"kind", "TokenReview"},
                                                {"spec", {{"token", server_.stranger_token()}}}})},
                    {});
  ASSERT_TRUE(review);
  const std::string name =
      codec::FindString(*codec::ParseJson(*review), {"status", "user", "username"});
  const Json subject = {
      {"kind", "User"}, {"name", name}, {"apiGroup", "rbac.authorization.k8s.io"}};
  const Json binding = {{"metadata", {{"name", "stranger-sees"}}},
                        {"roleRef",
                         {{"apiGroup", "rbac.authorization.k8s.io"},
                          {"kind", "ClusterRole"},
                          {"name", "cluster-admin"}}},
                        {"subjects", Json::array({subject})}};
  const auto created = client_->Create(kBindings, binding, kCreator);
  ASSERT_TRUE(created) << created.error().ToString();
  // The API server's own authorizer learns of it by a watch.
  io::HttpAnswer entered{.status = 0, .body = ""};
  const auto end = base::SteadyClock::now() + std::chrono::seconds(60);
  while (entered.status != 204 && base::SteadyClock::now() < end) {
    entered = access->Enter(Bearing(server_.stranger_token()));
  }
  ASSERT_EQ(entered.status, 204) << entered.body;
  const std::string cookie = CookieOf(entered);
  EXPECT_EQ(StatusOf(access->Refuse(WithSession(cookie))), 200);
  ASSERT_TRUE(client_->Delete(kBindings, {.namespace_name = "", .name = "stranger-sees"}));
  int status = 200;
  while (status == 200 && base::SteadyClock::now() < end) {
    status = StatusOf(access->Refuse(WithSession(cookie)));
  }
  EXPECT_EQ(status, 403);
  EXPECT_EQ(StatusOf(access->Refuse(WithSession(cookie))), 401);
}

// The whole as it stands in a cluster: HTTPS with a certificate of its own.
TEST_F(ClusterAccessTest, ServesByHttps) {
  const auto own = io::MakeOwnCertificate({"dashboard.test", "localhost"}, std::chrono::hours(1));
  ASSERT_TRUE(own) << own.error().ToString();
  Feed feed;
  feed.Publish({{"node/a", "1"}});
  Site site({.source = {}}, Make(), feed, nullptr);
  auto options = site.ServerOptions();
  options.tls = [&]() -> base::Result<io::TlsIdentity> { return *own; };
  const auto server = io::HttpServer::StartWith(
      "127.0.0.1:0", [&](const io::HttpServerRequest& request) { return site.Answer(request); },
      options);
  ASSERT_TRUE(server) << server.error().ToString();
  const auto http = *io::HttpClient::Create();
  const auto ask = [&](const std::string& name, const std::string& token) {
    io::HttpRequest request;
    request.url = "https://127.0.0.1:" + std::to_string((*server)->port()) + "/api/fleet";
    request.headers = {{.name = "Authorization", .value = "Bearer " + token}};
    request.tls = std::make_shared<io::TlsSettings>(io::TlsSettings{.ca_pem = own->certificate});
    request.tls_server_name = name;
    return http->Send(std::move(request), {});
  };
  const auto answer = ask("dashboard.test", server_.admin_token());
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(ask("localhost", "nobody's")->status, 401);
  EXPECT_FALSE(ask("another.test", server_.admin_token()));
}

}  // namespace
}  // namespace pitcrew::dashboard
