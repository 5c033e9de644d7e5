// The HTTP client through proxies on the loopback interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "io/http_client.h"
#include "loopback/connect_proxy.h"
#include "loopback/http2_server.h"
#include "loopback/scripted_server.h"

namespace pitcrew::io {
namespace {

using base::Code;
using testing::ConnectProxy;
using testing::ConnectProxyOptions;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Http2Answer;
using testing::Http2Request;
using testing::Http2Server;
using testing::Http2ServerOptions;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;
using ::testing::SizeIs;
using namespace std::chrono_literals;

Http2Answer OneLineAndNoEnd(const Http2Request&) { return {.body = "line\n", .stays_open = true}; }

// A server, a proxy before it, and a client that trusts both.
struct ProxiedBench {
  explicit ProxiedBench(Http2Server::Handler handler, ConnectProxyOptions proxy_options = {},
                        Http2ServerOptions server_options = {}, HttpClientOptions options = {})
      : server(*Http2Server::Start(std::move(handler), server_options)),
        proxy(*ConnectProxy::Start(std::move(proxy_options))),
        client(*HttpClient::Create(options)),
        tls(std::make_shared<const TlsSettings>(
            TlsSettings{.ca_pem = server->authority_pem() + proxy->authority_pem()})) {}

  [[nodiscard]] HttpRequest To(const std::string& path) const {
    HttpRequest request;
    request.url = server->url() + path;
    request.tls = tls;
    request.proxy_url = proxy->url();
    return request;
  }

  std::unique_ptr<Http2Server> server;
  std::unique_ptr<ConnectProxy> proxy;
  std::unique_ptr<HttpClient> client;
  std::shared_ptr<const TlsSettings> tls;
};

TEST(Proxied, CallsShareOneConnectionOverHttp2) {
  for (const bool tls : {false, true}) {
    const ProxiedBench bench(&testing::EchoPath, {.tls = tls});
    for (int i = 0; i < 3; ++i) {
      const auto answer = bench.client->Send(bench.To("/x"), {});
      ASSERT_TRUE(answer) << tls << answer.error().message;
      EXPECT_EQ(answer->body, "/x");
    }
    HttpRequest big = bench.To("/big");
    big.method = "PUT";
    big.body = std::string(3U << 20U, 'b');
    EXPECT_TRUE(bench.client->Send(big, {}));
    EXPECT_THAT(bench.proxy->targets(),
                ElementsAre("127.0.0.1:" + std::to_string(bench.server->port())));
    EXPECT_EQ(bench.server->counts().connections, 1);
  }
}

TEST(Proxied, AServerWithoutHttp2IsReachedToo) {
  for (const bool tls : {false, true}) {
    const ProxiedBench bench(&testing::EchoPath, {.tls = tls}, {.http2 = false});
    for (int i = 0; i < 3; ++i) {
      const auto answer = bench.client->Send(bench.To("/x"), {});
      ASSERT_TRUE(answer) << tls << answer.error().message;
      EXPECT_EQ(answer->body, "one");
    }
  }
}

TEST(Proxied, AnIdleWatchEndsAtItsTimeOut) {
  const ProxiedBench bench(&OneLineAndNoEnd);
  HttpRequest request = bench.To("/watch");
  request.deadline = {};
  request.idle_timeout = 1s;
  auto watch = bench.client->Open(request, {});
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_EQ(*(*watch)->Next(), "line\n");
  const auto ended = (*watch)->Next();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().reason, "IdleTimeout");
  EXPECT_EQ(ended.error().code, Code::kTimeout);
}

// The proxy goes on to acknowledge what we send: TCP sees nothing wrong, only a PING does.
TEST(Proxied, AWatchOverATunnelThatForgetsUsIsLost) {
  const ProxiedBench bench(&OneLineAndNoEnd, {}, {}, {.ping_after = 1s, .ping_timeout = 1s});
  HttpRequest request = bench.To("/watch");
  request.deadline = {};
  auto watch = bench.client->Open(request, {});
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_EQ(*(*watch)->Next(), "line\n");
  bench.proxy->Forget();
  const auto ended = (*watch)->Next();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().reason, "ConnectionLost");
}

TEST(Proxied, AnIpv6UrlIsNamedInBrackets) {
  const ProxiedBench bench(&testing::EchoPath);
  const std::string port = std::to_string(bench.server->port());
  HttpRequest request = bench.To("");
  request.url = "https://[fd00::7]:" + port + "/x";
  request.tls_server_name = "127.0.0.1";
  const auto answer = bench.client->Send(request, {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "/x");
  EXPECT_THAT(bench.proxy->targets(), ElementsAre("[fd00::7]:" + port));
}

TEST(Proxied, CredentialsOfTheProxysUrlAreSentToIt) {
  const ProxiedBench bench(&testing::EchoPath, {.credentials = "Basic dXNlcjpwQHNz"});
  HttpRequest request = bench.To("/x");
  const auto refused = bench.client->Send(request, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_EQ(refused.error().reason, "ProxyRefused");
  EXPECT_THAT(refused.error().message, HasSubstr("407"));
  request.proxy_url = "http://user:p%40ss@127.0.0.1:" + std::to_string(bench.proxy->port());
  const auto answer = bench.client->Send(request, {});
  EXPECT_TRUE(answer) << answer.error().message;
  request.proxy_url = "http://user:wrong@127.0.0.1:" + std::to_string(bench.proxy->port());
  const auto wrong = bench.client->Send(request, {});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message.find("wrong@"), std::string::npos) << wrong.error().message;
}

TEST(Proxied, WhoRefusesIsNamed) {
  const ProxiedBench bench(&testing::EchoPath, {.status = 503});
  const auto refused = bench.client->Send(bench.To("/x"), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message,
              HasSubstr("proxy 127.0.0.1:" + std::to_string(bench.proxy->port())));
  // A proxy that is not there.
  HttpRequest request = bench.To("/x");
  request.proxy_url = "http://127.0.0.1:1";
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "ConnectionRefused");
  request.proxy_url = "socks5://127.0.0.1:1";
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "InvalidProxy");
  // One that speaks no TLS where it should, and one whom nobody trusts.
  request.proxy_url = "https://127.0.0.1:" + std::to_string(bench.proxy->port());
  request.deadline = base::Deadline::After(300ms);
  EXPECT_FALSE(bench.client->Send(request, {}));
  const ProxiedBench stranger(&testing::EchoPath, {.tls = true});
  request = stranger.To("/x");
  request.tls =
      std::make_shared<const TlsSettings>(TlsSettings{.ca_pem = stranger.server->authority_pem()});
  EXPECT_EQ(stranger.client->Send(request, {}).error().reason, "TlsFailed");
  EXPECT_THAT(stranger.proxy->targets(), SizeIs(0));
}

TEST(Proxied, AnAnswerThatNeverComesIsNotWaitedForLongerThanTheCall) {
  const auto silent = ScriptedServer::Start(
      [](const ScriptedRequest&, ScriptedReply&, const StopToken& stop) { stop.Wait(); });
  const auto client = *HttpClient::Create();
  HttpRequest request;
  request.url = "https://inner.example/";
  request.proxy_url = (*silent)->url();
  request.deadline = base::Deadline::After(100ms);
  EXPECT_EQ(client->Send(request, {}).error().reason, "RequestTimeout");
}

TEST(Proxied, PlainHttpIsAskedOfTheProxyItself) {
  const auto proxy = ScriptedServer::Start([](const ScriptedRequest& request, ScriptedReply& reply,
                                              const StopToken&) { reply.Send(200, request.path); });
  const auto client = *HttpClient::Create();
  HttpRequest request;
  request.url = "http://[fd00::7]:8080/version";
  request.proxy_url = "http://user:pass@127.0.0.1:" + std::to_string((*proxy)->port());
  const auto answer = client->Send(request, {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "http://[fd00::7]:8080/version");
  const auto headers = (*proxy)->requests().at(0).headers;
  EXPECT_THAT(headers, ::testing::Contains(::testing::Pair("host", "[fd00::7]:8080")));
  EXPECT_THAT(headers,
              ::testing::Contains(::testing::Pair("proxy-authorization", "Basic dXNlcjpwYXNz")));
}

TEST(Proxied, TheEnvironmentsProxyIsUsedUnlessItsExceptionsSayNo) {
  const ProxiedBench bench(&testing::EchoPath);
  ::setenv("HTTPS_PROXY", bench.proxy->url().c_str(), 1);
  ::setenv("NO_PROXY", "direct.invalid", 1);
  const auto client = *HttpClient::Create();
  ::unsetenv("HTTPS_PROXY");
  ::unsetenv("NO_PROXY");
  HttpRequest request = bench.To("/x");
  request.proxy_url.clear();
  request.tls_server_name = "127.0.0.1";
  const std::string port = std::to_string(bench.server->port());
  request.url = "https://inner.invalid:" + port + "/x";
  const auto proxied = client->Send(request, {});
  EXPECT_TRUE(proxied) << proxied.error().message;
  request.url = "https://direct.invalid:" + port + "/x";
  EXPECT_EQ(client->Send(request, {}).error().reason, "NameNotResolved");
  // Loopback is never proxied, unless a request names its proxy.
  request.url = bench.server->url() + "/x";
  EXPECT_TRUE(client->Send(request, {}));
  EXPECT_THAT(bench.proxy->targets(), ElementsAre("inner.invalid:" + port));
}

}  // namespace
}  // namespace pitcrew::io
