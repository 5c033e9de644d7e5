// The HTTP client against servers on the loopback interface that do what a test wants.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "io/http_client.h"
#include "loopback/certificate.h"
#include "loopback/http2_server.h"
#include "loopback/scripted_server.h"
#include "tests/support/patience.h"

namespace pitcrew::io {
namespace {

using base::Code;
using testing::Http2Answer;
using testing::Http2Request;
using testing::Http2Server;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;
using namespace std::chrono_literals;

constexpr std::uint32_t kRefused = NGHTTP2_REFUSED_STREAM;
constexpr std::uint32_t kInternalError = NGHTTP2_INTERNAL_ERROR;

struct Http2Bench {
  explicit Http2Bench(Http2Server::Handler handler, testing::Http2ServerOptions server_options = {},
                      HttpClientOptions options = {})
      : server(*Http2Server::Start(std::move(handler), server_options)),
        client(*HttpClient::Create(options)),
        tls(std::make_shared<const TlsSettings>(TlsSettings{.ca_pem = server->authority_pem()})) {}

  [[nodiscard]] HttpRequest To(const std::string& path) const {
    HttpRequest request;
    request.url = server->url() + path;
    request.tls = tls;
    return request;
  }
  [[nodiscard]] base::Result<HttpResponse> Get(const std::string& path) const {
    return client->Send(To(path), {});
  }

  std::unique_ptr<Http2Server> server;
  std::unique_ptr<HttpClient> client;
  std::shared_ptr<const TlsSettings> tls;
};

TEST(Http2, AllCallsShareOneConnection) {
  const Http2Bench bench(&testing::EchoPath);
  std::atomic<int> right{0};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        const std::string path = "/" + std::to_string(i) + "?k=" + std::to_string(k);
        const auto answer = bench.Get(path);
        if (answer && answer->status == 200 && answer->body == path) ++right;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(right, 400);
  EXPECT_EQ(bench.server->counts().connections, 1);
}

TEST(Http2, MoreCallsThanTheServerTakesAtOnceWaitForTheirTurn) {
  const Http2Bench bench(&testing::EchoPath, {.most_streams = 1});
  std::atomic<int> right{0};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&] { right += bench.Get("/x") ? 1 : 0; });
  }
  callers.clear();
  EXPECT_EQ(right, 16);
}

TEST(Http2, BodiesOfAnySizeGoBothWays) {
  const Http2Bench bench([](const Http2Request& request) {
    return Http2Answer{.status = 201, .body = request.method + request.body};
  });
  HttpRequest request = bench.To("/x");
  request.method = "PUT";
  request.body = std::string(9U << 20U, 'b');
  const auto answer = bench.client->Send(request, {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->body, "PUT" + request.body);
  request.body.clear();
  EXPECT_EQ(bench.client->Send(request, {})->body, "PUT");
}

TEST(Http2, InformationalHeadsAndTrailersAreNotTheAnswer) {
  const Http2Bench bench([](const Http2Request&) {
    return Http2Answer{.status = 404, .body = "none", .early_hints = true, .trailers = true};
  });
  const auto answer = bench.Get("/x");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "none");
  EXPECT_FALSE(answer->header("checked"));
}

TEST(Http2, AHeadWithoutABodyIsAnAnswer) {
  const Http2Bench bench(
      [](const Http2Request&) { return Http2Answer{.status = 204, .no_body = true}; });
  const auto answer = bench.Get("/x");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 204);
  EXPECT_EQ(answer->body, "");
}

TEST(Http2, AfterAGoodbyeANewConnectionIsMade) {
  const Http2Bench bench([](const Http2Request& request) {
    return Http2Answer{.body = std::to_string(request.connection), .goodbye = true};
  });
  EXPECT_EQ(bench.Get("/x")->body, "1");
  EXPECT_EQ(bench.Get("/x")->body, "2");
}

TEST(Http2, WhatTheServerHasNotLookedAtIsSentAgain) {
  const Http2Bench goodbye([](const Http2Request& request) {
    return Http2Answer{.body = request.body, .goodbye_before = request.connection == 1};
  });
  HttpRequest post = goodbye.To("/x");
  post.method = "POST";
  post.body = "once";
  const auto answer = goodbye.client->Send(post, {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "once");
  EXPECT_EQ(goodbye.server->counts().connections, 2);

  std::atomic<int> seen{0};
  const Http2Bench refusal(
      [&](const Http2Request&) { return Http2Answer{.reset = ++seen == 1 ? kRefused : 0U}; });
  EXPECT_TRUE(refusal.Get("/x"));
  EXPECT_EQ(seen, 2);
}

TEST(Http2, AServerThatTurnsEverythingAwayIsAnError) {
  const Http2Bench bench([](const Http2Request&) { return Http2Answer{.reset = kRefused}; });
  const auto answer = bench.Get("/x");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().reason, "ConnectionRefused");
}

TEST(Http2, AResetStreamIsALostAnswerAndTheConnectionStays) {
  const Http2Bench bench([](const Http2Request& request) {
    return Http2Answer{.reset = request.path == "/bad" ? kInternalError : 0U};
  });
  const auto answer = bench.Get("/bad");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().reason, "ConnectionLost");
  EXPECT_NE(answer.error().message.find("/bad"), std::string::npos);
  EXPECT_TRUE(bench.Get("/good"));
  EXPECT_EQ(bench.server->counts().connections, 1);
}

TEST(Http2, ASlowReaderHoldsBackItsOwnStreamOnly) {
  constexpr std::size_t kSize = 32U << 20U;
  constexpr std::size_t kWindow = 4U << 20U;
  const Http2Bench bench([](const Http2Request& request) {
    return Http2Answer{.body = request.path == "/big" ? std::string(kSize, 'x') : "small"};
  });
  auto stream = bench.client->Open(bench.To("/big"), {});
  ASSERT_TRUE(stream) << stream.error().message;
  ASSERT_TRUE(
      bench.server->WaitFor([](const auto& counts) { return counts.body_bytes >= kWindow; }));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(bench.Get("/small")->body, "small");
  EXPECT_LE(bench.server->counts().body_bytes, kWindow + std::size_t{20} * 5);
  std::size_t read = 0;
  for (;;) {
    const auto bytes = (*stream)->Next();
    ASSERT_TRUE(bytes) << bytes.error().message;
    if (!*bytes) break;
    read += (*bytes)->size();
  }
  EXPECT_EQ(read, kSize);
}

TEST(Http2, AStreamThatNobodyReadsAnyMoreIsCancelled) {
  const Http2Bench bench(
      [](const Http2Request&) { return Http2Answer{.body = "line\n", .stays_open = true}; });
  auto stream = bench.client->Open(bench.To("/watch"), {});
  ASSERT_TRUE(stream);
  EXPECT_EQ(*(*stream)->Next(), "line\n");
  stream->reset();
  EXPECT_TRUE(bench.server->WaitFor([](const auto& counts) { return counts.cancelled == 1; }));
  EXPECT_EQ(bench.server->counts().closed, 0);
}

TEST(Http2, ASilentServerIsGivenUpAlsoByThoseWhoOnlyWait) {
  const Http2Bench bench(
      [](const Http2Request& request) {
        return Http2Answer{.body = "line\n",
                           .stays_open = request.connection == 1,
                           .silence = request.path == "/silence" && request.connection == 1};
      },
      {}, {.ping_after = 1s, .ping_timeout = 1s});
  auto watch = bench.client->Open(bench.To("/watch"), {});
  ASSERT_TRUE(watch);
  EXPECT_EQ(*(*watch)->Next(), "line\n");
  const auto unanswered = bench.Get("/silence");
  ASSERT_FALSE(unanswered);
  EXPECT_EQ(unanswered.error().reason, "ConnectionLost");
  const auto ended = (*watch)->Next();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().reason, "ConnectionLost");
  EXPECT_EQ(bench.Get("/again")->body, "line\n");
}

TEST(Http2, AConnectionOnWhichADeadlinePassedInSilenceIsLeft) {
  const Http2Bench bench(
      [](const Http2Request& request) {
        return Http2Answer{.body = "line\n",
                           .stays_open = request.path == "/watch",
                           .silence = request.path == "/silence"};
      },
      {}, {.suspect_ping_timeout = 100ms});
  auto watch = bench.client->Open(bench.To("/watch"), {});
  ASSERT_TRUE(watch);
  EXPECT_EQ(*(*watch)->Next(), "line\n");
  HttpRequest request = bench.To("/silence");
  request.deadline = base::Deadline::After(1s);
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "RequestTimeout");
  EXPECT_EQ((*watch)->Next().error().reason, "ConnectionLost");
  EXPECT_EQ(bench.Get("/again")->body, "line\n");
}

TEST(Http2, ARequestMaySuspectItsConnectionLongBeforeItsDeadline) {
  const Http2Bench bench(
      [](const Http2Request& request) {
        return Http2Answer{.body = "line\n",
                           .silence = request.path == "/silence" && request.connection == 1};
      },
      {}, {.suspect_ping_timeout = 100ms});
  EXPECT_TRUE(bench.Get("/first"));
  HttpRequest request = bench.To("/silence");
  request.suspect_after = 50ms;
  request.deadline = base::Deadline::After(test_support::kPatience);
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "ConnectionLost");
  request.suspect_after = {};
  EXPECT_EQ(bench.client->Send(request, {})->body, "line\n");
  EXPECT_EQ(bench.server->counts().connections, 2);
}

TEST(Http2, ASlowAnswerOnALivingConnectionCostsOnlyItself) {
  const Http2Bench bench(
      [](const Http2Request& request) {
        return Http2Answer{.body = request.path == "/slow" ? "" : "line\n",
                           .stays_open = request.path != "/quick"};
      },
      {}, {.suspect_ping_timeout = 10s});
  auto watch = bench.client->Open(bench.To("/watch"), {});
  ASSERT_TRUE(watch);
  HttpRequest request = bench.To("/slow");
  request.deadline = base::Deadline::After(1s);
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "RequestTimeout");
  EXPECT_TRUE(bench.server->WaitFor([](const auto& counts) { return counts.pings == 1; }));
  EXPECT_TRUE(bench.Get("/quick"));
  EXPECT_EQ(bench.server->counts().connections, 1);
  EXPECT_EQ(*(*watch)->Next(), "line\n");
}

TEST(Http2, AQuietServerThatAnswersPingsKeepsItsConnection) {
  const Http2Bench bench(
      [](const Http2Request& request) {
        return Http2Answer{.body = "line\n", .stays_open = request.path == "/watch"};
      },
      {}, {.ping_after = 20ms});
  auto watch = bench.client->Open(bench.To("/watch"), {});
  ASSERT_TRUE(watch);
  EXPECT_TRUE(bench.server->WaitFor([](const auto& counts) { return counts.pings >= 3; }));
  EXPECT_TRUE(bench.Get("/x"));
  EXPECT_EQ(bench.server->counts().connections, 1);
}

TEST(Http2, AConnectionThatNobodyUsesIsClosed) {
  const Http2Bench bench(&testing::EchoPath, {}, {.close_unused_after = 20ms});
  EXPECT_TRUE(bench.Get("/x"));
  EXPECT_TRUE(bench.server->WaitFor([](const auto& counts) { return counts.closed == 1; }));
  EXPECT_TRUE(bench.Get("/x"));
}

TEST(Http2, AServerWithoutItIsSpokenToInHttp1) {
  const Http2Bench bench(&testing::EchoPath, {.http2 = false});
  for (int i = 0; i < 3; ++i) {
    const auto answer = bench.Get("/x");
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "one");
  }
}

TEST(Http2, OnlyTheServerThatWasMeantIsTrusted) {
  const Http2Bench bench(&testing::EchoPath);
  HttpRequest request = bench.To("/x");
  request.tls_server_name = "another-server";
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "TlsFailed");
  request = bench.To("/x");
  const auto stranger = testing::MakeCertificate({.common_name = "stranger", .authority = true});
  request.tls =
      std::make_shared<const TlsSettings>(TlsSettings{.ca_pem = stranger->certificate_pem});
  const auto refused = bench.client->Send(request, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "TlsFailed");
  EXPECT_EQ(refused.error().code, Code::kDenied);
  request.tls = std::make_shared<const TlsSettings>(TlsSettings{.ca_pem = "no PEM"});
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "TlsFailed");
  request.tls = std::make_shared<const TlsSettings>(TlsSettings{.insecure_skip_verify = true});
  EXPECT_TRUE(bench.client->Send(request, {}));
}

// As Go: with the authority that signed the server's certificate as the only anchor, the root above
// it need not be known. On both protocols.
TEST(Tls, AnIntermediateAuthorityIsAnAnchor) {
  for (const bool http2 : {true, false}) {
    const Http2Bench bench(&testing::EchoPath, {.http2 = http2, .intermediate = true});
    const auto answer = bench.Get("/x");
    ASSERT_TRUE(answer) << http2 << answer.error().message;
    EXPECT_EQ(answer->body, http2 ? "/x" : "one");
    const auto stranger = testing::MakeCertificate({.common_name = "stranger", .authority = true});
    HttpRequest request = bench.To("/x");
    request.tls =
        std::make_shared<const TlsSettings>(TlsSettings{.ca_pem = stranger->certificate_pem});
    EXPECT_EQ(bench.client->Send(request, {}).error().reason, "TlsFailed");
  }
}

TEST(Tls, AReplacedFileOfAuthoritiesCountsForTheNextConnection) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "pitcrew-io-ca.crt";
  for (const bool http2 : {true, false}) {
    const Http2Bench bench(
        [](const Http2Request&) { return Http2Answer{.body = "one", .goodbye = true}; },
        {.http2 = http2});
    const auto stranger = testing::MakeCertificate({.common_name = "stranger", .authority = true});
    ASSERT_TRUE(base::WriteFileAtomically(file, stranger->certificate_pem));
    HttpRequest request = bench.To("/x");
    request.tls = std::make_shared<const TlsSettings>(
        TlsSettings{.ca_pem = stranger->certificate_pem, .ca_file = file});
    EXPECT_EQ(bench.client->Send(request, {}).error().reason, "TlsFailed");
    ASSERT_TRUE(base::WriteFileAtomically(file, bench.server->authority_pem()));
    const auto answer = bench.client->Send(request, {});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "one");
    // What cannot be read is unknown, not empty: the last that was known stands.
    std::filesystem::remove(file);
    request.tls = std::make_shared<const TlsSettings>(
        TlsSettings{.ca_pem = bench.server->authority_pem(), .ca_file = file});
    EXPECT_TRUE(bench.client->Send(request, {}));
    request.tls = std::make_shared<const TlsSettings>(TlsSettings{.ca_file = file});
    EXPECT_EQ(bench.client->Send(request, {}).error().reason, "TlsFailed");
  }
}

TEST(Http2, WhatCannotBeReachedIsNamed) {
  const auto client = *HttpClient::Create();
  HttpRequest request;
  {
    const Http2Bench gone(&testing::EchoPath);
    request = gone.To("/x");
  }
  EXPECT_EQ(client->Send(request, {}).error().reason, "ConnectionRefused");
  request.url = "https://nowhere.invalid/";
  EXPECT_EQ(client->Send(request, {}).error().reason, "NameNotResolved");
  request.url = "ftp://nowhere.invalid/";
  EXPECT_EQ(client->Send(request, {}).error().reason, "InvalidUrl");
  request.url = "https://";
  EXPECT_EQ(client->Send(request, {}).error().reason, "InvalidUrl");
}

TEST(Http2, AHandshakeThatDoesNotEndIsLeftAtTheStopAndAtTheDeadline) {
  // It waits for the end of an HTTP head, which a TLS greeting never is.
  const auto server =
      ScriptedServer::Start([](const ScriptedRequest&, ScriptedReply&, const StopToken&) {});
  const auto client = *HttpClient::Create();
  HttpRequest request;
  request.url = "https://127.0.0.1:" + std::to_string((*server)->port());
  request.deadline = base::Deadline::After(50ms);
  EXPECT_EQ(client->Send(request, {}).error().reason, "RequestTimeout");
  request.deadline = {};
  const StopSource stop;
  std::jthread stopper([&] { stop.Stop(); });
  EXPECT_EQ(client->Send(request, stop.token()).error().reason, "Stopped");
}

// Like one that is not there yet, and not like one whose certificate is wrong: it is tried again.
TEST(Tls, AServerThatGoesAwayInTheHandshakeIsNotThere) {
  const base::FileDescriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listening.get(), 8), 0);
  ASSERT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::jthread server([&] {
    for (;;) {
      const base::FileDescriptor accepted(
          ::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!accepted.valid()) return;
      // What is not read would make the kernel's end of the connection a reset.
      std::array<char, 65536> greeting{};
      if (::read(accepted.get(), greeting.data(), greeting.size()) < 0) return;
    }
  });
  const auto client = *HttpClient::Create();
  HttpRequest request;
  request.url = "https://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const auto answer = client->Send(request, {});
  ::shutdown(listening.get(), SHUT_RDWR);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable) << answer.error().message;
  EXPECT_EQ(answer.error().reason, "ConnectionRefused");
}

TEST(Http1, ASlowReaderHoldsBackTheServer) {
  constexpr std::size_t kPiece = 1U << 20U;
  constexpr int kPieces = 64;
  const auto server =
      ScriptedServer::Start([&](const ScriptedRequest&, ScriptedReply& reply, const StopToken&) {
        reply.Begin(200);
        for (int i = 0; i < kPieces; ++i) reply.Chunk(std::string(kPiece, 'x'));
        reply.End();
      });
  const auto client = *HttpClient::Create();
  HttpRequest request;
  request.url = (*server)->url();
  auto stream = client->Open(request, {});
  ASSERT_TRUE(stream) << stream.error().message;
  std::size_t read = 0;
  for (;;) {
    const auto bytes = (*stream)->Next();
    ASSERT_TRUE(bytes) << bytes.error().message;
    if (!*bytes) break;
    // What waits for us is bounded: our own backlog and the kernel's.
    EXPECT_LE((*bytes)->size(), 5 * kPiece);
    read += (*bytes)->size();
  }
  EXPECT_EQ(read, kPiece * kPieces);
}

TEST(Http1, AnAnswerThatBreaksOffIsLost) {
  const auto server =
      ScriptedServer::Start([](const ScriptedRequest&, ScriptedReply& reply, const StopToken&) {
        reply.Begin(200);
        reply.Chunk("half");
        reply.Abort();
      });
  const auto client = *HttpClient::Create();
  HttpRequest request;
  request.url = (*server)->url();
  EXPECT_EQ(client->Send(request, {}).error().reason, "ConnectionLost");
}

TEST(Http1, AProxyIsUsedWhenOneIsNamed) {
  const auto proxy = ScriptedServer::Start([](const ScriptedRequest& request, ScriptedReply& reply,
                                              const StopToken&) { reply.Send(200, request.path); });
  const auto client = *HttpClient::Create();
  HttpRequest request;
  request.url = "http://inner.example/version";
  request.proxy_url = (*proxy)->url();
  const auto answer = client->Send(request, {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "http://inner.example/version");
}

}  // namespace
}  // namespace pitcrew::io
