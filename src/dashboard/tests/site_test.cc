// Who is let in, and what is answered.
#include "dashboard/site.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dashboard/assets.h"
#include "dashboard/options.h"
#include "dashboard/secret.h"
#include "fleet/views.h"

namespace pitcrew::dashboard {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SiteTest : public ::testing::Test {
 protected:
  static constexpr const char* kToken = "0123456789abcdef";

  io::HttpAnswer Ask(const std::string& path, io::HttpServerRequest request = {}) {
    request.path = path;
    request.headers.try_emplace("host", "127.0.0.1:4711");
    return site_.Answer(request);
  }
  static io::HttpServerRequest WithToken(const std::string& token) {
    return {.path = "", .query = {}, .headers = {{"authorization", "Bearer " + token}}};
  }
  static io::HttpServerRequest WithCookie(const std::string& cookie) {
    return {.path = "", .query = {}, .headers = {{"cookie", cookie}}};
  }

  Feed feed_;
  Site site_{{.source = {{"kind", "cluster"}, {"name", "test"}}, .most_streams = 2},
             LoopbackAccess(kToken),
             feed_,
             [](const std::string& node) -> base::Result<codec::Json> {
               if (node == "gpu-a") return codec::Json{{"node", {{"name", "gpu-a"}}}};
               return base::Fail(base::NotFound("NodeNotFound", "there is no node " + node));
             }};
};

TEST_F(SiteTest, ThePageIsForEverybodyOnThisMachineAndTellsNothing) {
  EXPECT_EQ(Ask("/").content_type, "text/html; charset=utf-8");
  EXPECT_EQ(Ask("/main.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(Ask("/../etc/passwd").status, 404);
  for (const Asset& asset : Assets()) EXPECT_EQ(Ask(std::string(asset.path)).body, asset.text);
}

// Names that lead here by somebody else's name server are not this machine's.
TEST_F(SiteTest, AnswersUnderNamesOfThisMachineOnly) {
  for (const char* host : {"127.0.0.1:4711", "localhost:4711", "[::1]:4711", "localhost"}) {
    EXPECT_EQ(Ask("/", {.path = "", .query = {}, .headers = {{"host", host}}}).status, 200) << host;
  }
  for (const char* host : {"evil.example:4711", "127.0.0.1.evil.example", "", "localhost.evil"}) {
    EXPECT_EQ(Ask("/", {.path = "", .query = {}, .headers = {{"host", host}}}).status, 421) << host;
  }
}

TEST_F(SiteTest, TheFleetIsForWhoeverHasTheToken) {
  feed_.Publish({{"node/a", "1"}});
  for (const char* path : {"/api/fleet", "/api/events", "/api/nodes/gpu-a", "/api/x"}) {
    EXPECT_EQ(Ask(path).status, 401) << path;
    EXPECT_EQ(Ask(path, WithToken("0123456789abcdee")).status, 401) << path;
    EXPECT_EQ(Ask(path, WithToken("")).status, 401) << path;
    EXPECT_EQ(Ask(path, WithCookie("pitcrew-4711=wrong")).status, 401) << path;
    EXPECT_EQ(Ask(path, WithCookie("pitcrew-4712=0123456789abcdef")).status, 401) << path;
  }
  EXPECT_EQ(Ask("/api/fleet", WithToken(kToken)).status, 200);
  EXPECT_EQ(Ask("/api/fleet", WithCookie("a=b; pitcrew-4711=0123456789abcdef")).status, 200);
}

TEST_F(SiteTest, ATokenBecomesACookieThatScriptsCannotRead) {
  EXPECT_EQ(Ask("/api/session").status, 401);
  EXPECT_THAT(Ask("/api/session").body, HasSubstr(R"("asks":"link")"));
  const auto entered = Ask("/api/session", WithToken(kToken));
  EXPECT_EQ(entered.status, 204);
  EXPECT_THAT(
      entered.headers,
      Contains(std::pair<std::string, std::string>(
          "Set-Cookie", "pitcrew-4711=0123456789abcdef; Path=/; HttpOnly; SameSite=Strict")));
  EXPECT_EQ(Ask("/api/session", WithCookie("pitcrew-4711=0123456789abcdef")).status, 204);
}

// Another port of this host is the same site to a browser, and sends the cookie along.
TEST_F(SiteTest, PagesOfOthersGetNothing) {
  feed_.Publish({{"node/a", "1"}});
  for (const auto& [site, status] : std::map<std::string, int>{
           {"same-origin", 200}, {"none", 200}, {"same-site", 403}, {"cross-site", 403}}) {
    auto request = WithCookie("pitcrew-4711=0123456789abcdef");
    request.headers["sec-fetch-site"] = site;
    EXPECT_EQ(Ask("/api/fleet", request).status, status) << site;
  }
}

TEST_F(SiteTest, TellsTheFleetAndOneNode) {
  EXPECT_EQ(Ask("/api/fleet", WithToken(kToken)).status, 503);
  feed_.Publish({{"node/a", R"({"name":"a"})"}});
  EXPECT_EQ(Ask("/api/fleet", WithToken(kToken)).body,
            R"({"source":{"kind":"cluster","name":"test"},"set":{"node/a":{"name":"a"}}})"
            "\n");
  EXPECT_EQ(Ask("/api/nodes/gpu-a", WithToken(kToken)).body, "{\"node\":{\"name\":\"gpu-a\"}}\n");
  const auto absent = Ask("/api/nodes/gpu-z", WithToken(kToken));
  EXPECT_EQ(absent.status, 404);
  EXPECT_EQ(absent.body, "{\"error\":\"there is no node gpu-z\"}\n");
}

TEST_F(SiteTest, AStreamTellsTheSourceTheWholeAndChanges) {
  feed_.Publish({{"a", "1"}});
  const auto stream = Ask("/api/events", WithToken(kToken));
  EXPECT_EQ(stream.content_type, "text/event-stream");
  EXPECT_THAT(*stream.next_part(), HasSubstr("event: source\ndata: {\"kind\":\"cluster\""));
  const std::string whole = *stream.next_part();
  EXPECT_THAT(whole, HasSubstr("event: fleet\ndata: {\"set\":{\"a\":1}}\n\n"));
  feed_.Publish({{"a", "2"}});
  EXPECT_THAT(*stream.next_part(), HasSubstr("event: change\ndata: {\"set\":{\"a\":2}}\n\n"));
  // One that comes back goes on where it was.
  auto again = WithToken(kToken);
  again.headers["last-event-id"] = whole.substr(4, whole.find('\n') - 4);
  const auto second = Ask("/api/events", again);
  EXPECT_THAT(*second.next_part(), HasSubstr("event: source"));
  EXPECT_THAT(*second.next_part(), HasSubstr("event: change\ndata: {\"set\":{\"a\":2}}\n\n"));
  feed_.Close();
  EXPECT_FALSE(second.next_part());
}

TEST_F(SiteTest, AStreamWithoutNewsSaysSo) {
  Site quick({.source = {}, .most_streams = 1, .heartbeat = std::chrono::milliseconds(1)},
             LoopbackAccess(kToken), feed_, nullptr);
  auto request = WithToken(kToken);
  request.path = "/api/events";
  request.headers["host"] = "localhost";
  const auto stream = quick.Answer(request);
  EXPECT_THAT(*stream.next_part(), HasSubstr("event: source"));
  EXPECT_THAT(*stream.next_part(), StartsWith("event: beat\ndata: {\"time\":\"20"));
}

TEST_F(SiteTest, OnlySoManyPagesAreFollowed) {
  EXPECT_EQ(site_.streams(), 0);
  {
    const auto one = Ask("/api/events", WithToken(kToken));
    const auto two = Ask("/api/events", WithToken(kToken));
    EXPECT_EQ(site_.streams(), 2);
    EXPECT_EQ(Ask("/api/events", WithToken(kToken)).status, 503);
  }
  EXPECT_EQ(site_.streams(), 0);
  EXPECT_EQ(Ask("/api/events", WithToken(kToken)).status, 200);
}

// Nothing of the page is fetched from anywhere else, runs text or is framed.
TEST_F(SiteTest, HasAStrictPolicy) {
  std::string policy;
  for (const auto& [name, value] : site_.ServerOptions().headers) {
    if (name == "Content-Security-Policy") policy = value;
  }
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  for (const Asset& asset : Assets()) {
    if (asset.path.ends_with(".svg")) continue;  // the name of its format is an address
    EXPECT_THAT(std::string(asset.text), Not(HasSubstr("http://"))) << asset.path;
    EXPECT_THAT(std::string(asset.text), Not(HasSubstr("https://"))) << asset.path;
  }
}

// A link that it does not know would have no column.
TEST(PageTest, KnowsEveryLinkOfAChain) {
  const auto assets = Assets();
  const auto model = std::ranges::find(assets, "/model.js", &Asset::path);
  ASSERT_NE(model, assets.end());
  for (int stage = 0; stage < static_cast<int>(fleet::Stage::kReady); ++stage) {
    EXPECT_THAT(std::string(model->text),
                HasSubstr(fmt::format("\"{}\"", ToString(static_cast<fleet::Stage>(stage)))));
  }
}

TEST(SecretTest, IsLongAndNeverTheSame) {
  EXPECT_EQ(RandomText(24).size(), 48U);
  EXPECT_NE(RandomText(24), RandomText(24));
  EXPECT_TRUE(AreSame("abc", "abc"));
  EXPECT_FALSE(AreSame("abc", "abd"));
  EXPECT_FALSE(AreSame("abc", "ab"));
  EXPECT_FALSE(AreSame("abc", ""));
}

base::Result<std::optional<Options>> Read(std::vector<const char*> words) {
  words.insert(words.begin(), "dashboard");
  return ReadOptions(static_cast<int>(words.size()), words.data());
}

TEST(DashboardOptionsTest, AreThoseOfKubectlWhereItHasThem) {
  const auto options =
      Read({"--port", "8080", "--context", "prod", "-n", "gpus", "--readings=false"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ((*options)->port, 8080);
  EXPECT_EQ((*options)->connection.context, "prod");
  EXPECT_EQ((*options)->name_space, "gpus");
  EXPECT_FALSE((*options)->readings);
  EXPECT_EQ((*Read({"--file", "x.yaml"}))->file, "x.yaml");
  EXPECT_TRUE((*Read({}))->readings);
  EXPECT_FALSE(Read({"--port", "70000"}));
  EXPECT_FALSE(Read({"--port", "-1"}));
}

TEST(DashboardOptionsTest, InAClusterAreOthers) {
  const auto options = Read({"--listen", ":8443", "--host", "a.svc", "--host", "b.svc"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ((*options)->listen, ":8443");
  EXPECT_EQ((*options)->hosts, (std::vector<std::string>{"a.svc", "b.svc"}));
  // Its rights are not those of whoever looks.
  EXPECT_FALSE((*options)->readings);
  EXPECT_TRUE(Read({"--listen", ":8443", "--tls-certificate-file", "c", "--tls-key-file", "k"}));
  EXPECT_FALSE(Read({"--listen", ":8443", "--tls-certificate-file", "c"}));
  EXPECT_FALSE(Read({"--tls-certificate-file", "c", "--tls-key-file", "k"}));
  EXPECT_FALSE(Read({"--listen", ":8443", "--port", "1"}));
  EXPECT_FALSE(Read({"--listen", ":8443", "--file", "x"}));
  EXPECT_FALSE(Read({"--host", "x"}));
}

}  // namespace
}  // namespace pitcrew::dashboard
