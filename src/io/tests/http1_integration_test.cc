// HTTP/1.1 connections against a server on the loopback interface.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "io/http_client.h"
#include "loopback/scripted_server.h"

namespace pitcrew::io {
namespace {

using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;
using namespace std::chrono_literals;

struct Http1Bench {
  explicit Http1Bench(ScriptedServer::Handler handler, HttpClientOptions options = {})
      : server(*ScriptedServer::Start(std::move(handler))), client(*HttpClient::Create(options)) {}

  [[nodiscard]] HttpRequest To(const std::string& path) const {
    HttpRequest request;
    request.url = server->url() + path;
    return request;
  }
  [[nodiscard]] base::Result<HttpResponse> Send(const std::string& method,
                                                const std::string& path) const {
    HttpRequest request = To(path);
    request.method = method;
    return client->Send(request, {});
  }
  // The connection on which each request came.
  [[nodiscard]] std::vector<int> connections() const {
    std::vector<int> numbers;
    for (const auto& request : server->requests()) numbers.push_back(request.connection);
    return numbers;
  }

  std::unique_ptr<ScriptedServer> server;
  std::unique_ptr<HttpClient> client;
};

void SendPath(const ScriptedRequest& request, ScriptedReply& reply, const StopToken&) {
  reply.Send(200, request.path);
}

TEST(Http1, OneConnectionServesOneCallAfterTheOther) {
  const Http1Bench bench(&SendPath);
  for (const char* path : {"/a", "/b", "/c"}) EXPECT_EQ(bench.Send("GET", path)->body, path);
  EXPECT_EQ(bench.connections(), (std::vector{1, 1, 1}));
}

TEST(Http1, CallsAtTheSameTimeHaveAConnectionEach) {
  constexpr int kCalls = 8;
  std::latch all(kCalls);
  const Http1Bench bench(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const StopToken&) {
        all.arrive_and_wait();
        reply.Send(200, request.path);
      });
  std::atomic<int> right{0};
  std::vector<std::jthread> callers;
  for (int i = 0; i < kCalls; ++i) {
    callers.emplace_back([&] {
      const auto answer = bench.Send("GET", "/x");
      right += answer && answer->body == "/x" ? 1 : 0;
    });
  }
  callers.clear();
  EXPECT_EQ(right, kCalls);
}

TEST(Http1, AConnectionThatTheServerGivesUpIsNotUsedAgain) {
  const Http1Bench told([](const ScriptedRequest& request, ScriptedReply& reply, const StopToken&) {
    reply.Send(200, request.path, {{"Connection", "close"}});
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(told.Send("POST", "/x"));
  EXPECT_EQ(told.connections(), (std::vector{1, 2, 3}));
  const Http1Bench untold(
      [](const ScriptedRequest& request, ScriptedReply& reply, const StopToken&) {
        reply.Send(200, request.path);
        reply.Abort();
      });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(untold.Send("GET", "/x"));
}

// The server ends an unused connection at the moment at which it is used again.
TEST(Http1, OnlyWhatReadsIsSentAgain) {
  const Http1Bench bench(
      [](const ScriptedRequest& request, ScriptedReply& reply, const StopToken&) {
        if (request.path == "/end" && request.connection == 1) return reply.Abort();
        reply.Send(200, request.path);
      });
  EXPECT_TRUE(bench.Send("GET", "/x"));
  EXPECT_TRUE(bench.Send("GET", "/end"));
  EXPECT_EQ(bench.connections(), (std::vector{1, 1, 2}));
  const Http1Bench writing(
      [](const ScriptedRequest& request, ScriptedReply& reply, const StopToken&) {
        if (request.path == "/end") return reply.Abort();
        reply.Send(200, request.path);
      });
  EXPECT_TRUE(writing.Send("GET", "/x"));
  EXPECT_EQ(writing.Send("POST", "/end").error().reason, "ConnectionLost");
  // Nor what was the first on its connection: the server has nothing against connections as such.
  EXPECT_EQ(writing.Send("GET", "/end").error().reason, "ConnectionLost");
  EXPECT_EQ(writing.connections(), (std::vector{1, 1, 2}));
}

TEST(Http1, BodiesOfAnySizeGoBothWays) {
  const Http1Bench bench([](const ScriptedRequest& request, ScriptedReply& reply,
                            const StopToken&) { reply.Send(201, request.method + request.body); });
  HttpRequest request = bench.To("/x");
  request.method = "PUT";
  request.body = std::string(9U << 20U, 'b');
  const auto answer = bench.client->Send(request, {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->body, "PUT" + request.body);
  request.body.clear();
  EXPECT_EQ(bench.client->Send(request, {})->body, "PUT");
  EXPECT_EQ(bench.connections(), (std::vector{1, 1}));
}

TEST(Http1, AWatchEndsAtItsIdleTimeOut) {
  const Http1Bench bench([](const ScriptedRequest&, ScriptedReply& reply, const StopToken& stop) {
    reply.Begin(200);
    reply.Chunk("line\n");
    stop.Wait();
  });
  HttpRequest request = bench.To("/watch");
  request.deadline = {};
  request.idle_timeout = 1s;
  auto watch = bench.client->Open(request, {});
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_EQ(*(*watch)->Next(), "line\n");
  EXPECT_EQ((*watch)->Next().error().reason, "IdleTimeout");
}

TEST(Http1, AStreamThatNobodyReadsAnyMoreEndsItsConnection) {
  std::latch ended(1);
  const Http1Bench bench(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const StopToken& stop) {
        if (request.path != "/watch") return reply.Send(200, request.path);
        reply.Begin(200);
        reply.Chunk("line\n");
        static_cast<void>(WaitReadable({reply.socket()}, stop));
        ended.count_down();
      });
  auto watch = bench.client->Open(bench.To("/watch"), {});
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_EQ(*(*watch)->Next(), "line\n");
  watch->reset();
  ended.wait();
  EXPECT_EQ(bench.Send("GET", "/x")->body, "/x");
}

TEST(Http1, NothingFromOutsideAddsLinesToARequest) {
  const Http1Bench bench(&SendPath);
  HttpRequest request = bench.To("/x");
  request.headers = {{"Authorization", "Bearer secret\r\nX: y"}};
  const auto refused = bench.client->Send(request, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "InvalidRequest");
  EXPECT_EQ(refused.error().message.find("secret"), std::string::npos);
  request.headers = {{"X: y\r\nZ", "a"}};
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "InvalidRequest");
  request.headers.clear();
  request.method = "GET /y HTTP/1.1\r\nX:";
  EXPECT_EQ(bench.client->Send(request, {}).error().reason, "InvalidRequest");
  EXPECT_TRUE(bench.connections().empty());
}

}  // namespace
}  // namespace pitcrew::io
