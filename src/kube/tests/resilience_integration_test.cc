// What a real server does not do on demand: refusals, slow pages, answers that break off.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "kube/client.h"
#include "kube/informer.h"
#include "kube/projection.h"
#include "support_changes.h"
#include "support_scripted.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace pitcrew::kube {
namespace {

using base::Code;
using codec::Json;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;

// A counter that tests wait for.
class Counter {
 public:
  int Next() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
    return ++value_;
  }
  bool WaitFor(int value) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return value_ >= value; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int value_ = 0;
};

TEST(Resilience, ObeysRetryAfterOnTooManyRequests) {
  Counter calls;
  const auto server =
      ScriptedServer::Start([&](const ScriptedRequest&, ScriptedReply& reply, const auto&) {
        if (calls.Next() <= 2) {
          reply.Send(429, StatusBody(429, "TooManyRequests"), {{"Retry-After", "1"}});
        } else {
          reply.Send(201, codec::ToJsonText(Item("a", "1")));
        }
      });
  const auto client = ClientOf(**server);
  const auto before = std::chrono::steady_clock::now();
  const auto created = client->Create(kConfigMaps, MakeConfigMap("n", "a", "x"));
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  const auto counts = client->request_counts();
  EXPECT_EQ(counts.at({"create", 429}), 2U);
  EXPECT_EQ(counts.at({"create", 201}), 1U);
}

TEST(Resilience, ARefusalMakesThePaceSlower) {
  Counter calls;
  const auto server =
      ScriptedServer::Start([&](const ScriptedRequest&, ScriptedReply& reply, const auto&) {
        if (calls.Next() == 1) {
          reply.Send(429, StatusBody(429, "TooManyRequests"));
        } else {
          reply.Send(200, codec::ToJsonText(Item("a", "1")));
        }
      });
  CallPace pace;
  {
    std::vector<CallPace::Turn> turns;
    for (int i = 0; pace.limit() < 8 || i < 100; ++i) {
      ASSERT_LT(i, 1000);
      while (static_cast<int>(turns.size()) < std::min(pace.limit(), 8)) {
        turns.push_back(pace.Begin());
      }
      turns.front().Answered(std::chrono::milliseconds(10));
    }
  }
  const int before = pace.limit();
  const auto patched =
      ClientOf(**server)->PatchVersion(kConfigMaps, {.namespace_name = "n", .name = "a"},
                                       PatchType::kMerge, Json::object(), {}, {}, &pace);
  EXPECT_TRUE(patched);
  EXPECT_EQ(pace.limit(), before / 2);
}

TEST(Resilience, ObeysRetryAfterOnARefusedWatch) {
  Counter watches;
  std::chrono::steady_clock::time_point refused;
  std::chrono::steady_clock::time_point opened;
  const auto server = ScriptedServer::Start(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
        if (!IsWatch(request)) {
          reply.Send(200, ListBody("10", Json::array()));
        } else if (refused == std::chrono::steady_clock::time_point()) {
          refused = std::chrono::steady_clock::now();
          reply.Send(429, StatusBody(429, "TooManyRequests"), {{"Retry-After", "2"}});
        } else {
          opened = std::chrono::steady_clock::now();
          reply.Begin(200);
          watches.Next();
          stop.Wait();
        }
      });
  Informer<VersionView> informer(ClientOf(**server), kConfigMaps,
                                 ProjectJson<VersionView>(&ProjectVersion), QuickOptions());
  informer.Start();
  ASSERT_TRUE(watches.WaitFor(1));
  EXPECT_GE(opened - refused, std::chrono::seconds(2));
  EXPECT_EQ(informer.status().lists, 1U);
}

// A server with HTTP/1.1 alone, or a proxy before it, that has forgotten the watch.
TEST(Resilience, AWatchThatFallsSilentIsOpenedAgainFromWhereItWas) {
  Counter watches;
  Counter resumed;
  const auto server = ScriptedServer::Start(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
        if (!IsWatch(request)) return reply.Send(200, ListBody("5", Json::array()));
        if (request.query.contains("resourceVersion=6")) resumed.Next();
        watches.Next();
        reply.Begin(200);
        // Again where the silence was noticed before the line.
        if (request.query.contains("resourceVersion=5")) {
          reply.Chunk(EventLine("ADDED", Item("a", "6")));
        }
        stop.Wait();
      });
  const auto client = ClientOf(**server, {.watch_silence = std::chrono::milliseconds(100)});
  Informer<VersionView> informer(client, kConfigMaps, ProjectJson<VersionView>(&ProjectVersion),
                                 QuickOptions());
  ChangeRecorder recorder;
  recorder.Attach(informer);
  informer.Start();
  EXPECT_TRUE(recorder.WaitFor([](const auto& world) { return world.size() == 1; }));
  EXPECT_TRUE(watches.WaitFor(3));
  EXPECT_TRUE(resumed.WaitFor(1));
  informer.Stop();
  EXPECT_EQ(recorder.violations(), std::vector<std::string>());
}

TEST(Resilience, ACallbackThatThrowsDoesNotEndTheWatch) {
  Counter watches;
  const auto server = ScriptedServer::Start(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
        if (!IsWatch(request)) {
          reply.Send(200, ListBody("10", Json::array({Item("a", "1")})));
          return;
        }
        reply.Begin(200);
        if (watches.Next() > 1) reply.Chunk(EventLine("ADDED", Item("b", "11")));
        stop.Wait();
      });
  auto options = QuickOptions();
  std::atomic<int> opened{0};
  options.opened = [&] {
    if (++opened == 1) throw std::runtime_error("thrown by the callback");
  };
  Informer<VersionView> informer(ClientOf(**server), kConfigMaps,
                                 ProjectJson<VersionView>(&ProjectVersion), options);
  ChangeRecorder recorder;
  recorder.Attach(informer);
  informer.Start();
  EXPECT_TRUE(recorder.WaitFor([](const auto& world) { return world.size() == 2; }));
  EXPECT_EQ(informer.status().lists, 2U);
}

TEST(Resilience, APostThatMayHaveBeenDoneIsNotSentAgain) {
  const auto server = ScriptedServer::Start(
      [](const ScriptedRequest&, ScriptedReply& reply, const auto&) { reply.Abort(); });
  const auto client = ClientOf(**server);
  const auto created = client->Create(kConfigMaps, MakeConfigMap("n", "a", "x"));
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().reason, "ConnectionLost");
  EXPECT_EQ((*server)->requests().size(), 1U);
  // Reading again is harmless.
  EXPECT_FALSE(client->Get(kConfigMaps, {.namespace_name = "n", .name = "a"}));
  EXPECT_GT((*server)->requests().size(), 2U);
}

TEST(Resilience, AListWhoseContinuationExpiresBeginsAgain) {
  Counter calls;
  const auto server =
      ScriptedServer::Start([&](const ScriptedRequest& request, ScriptedReply& reply, const auto&) {
        const bool next = request.query.find("continue=") != std::string::npos;
        const int call = calls.Next();
        if (call == 2) {
          reply.Send(410, StatusBody(410, "Expired"));
        } else if (next) {
          reply.Send(200, ListBody("9", Json::array({Item("b", "2")})));
        } else {
          reply.Send(200, ListBody("9", Json::array({Item("a", "1")}), "token"));
        }
      });
  const auto list = ClientOf(**server)->List(kConfigMaps, "n");
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(list->items.size(), 2U);
}

// It begins again three times; a server on which every list expires says so then.
TEST(Resilience, AListThatExpiresAgainAndAgainFails) {
  const auto server =
      ScriptedServer::Start([&](const ScriptedRequest& request, ScriptedReply& reply, const auto&) {
        if (request.query.find("continue=") != std::string::npos) {
          reply.Send(410, StatusBody(410, "Expired"));
        } else {
          reply.Send(200, ListBody("9", Json::array({Item("a", "1")}), "token"));
        }
      });
  const auto list = ClientOf(**server)->List(kConfigMaps, "n");
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, base::Code::kGone);
  EXPECT_EQ((*server)->requests().size(), 8U);
}

TEST(Resilience, AListThatIsForbiddenIsAskedForOnce) {
  const auto server =
      ScriptedServer::Start([&](const ScriptedRequest&, ScriptedReply& reply, const auto&) {
        reply.Send(403, StatusBody(403, "Forbidden"));
      });
  EXPECT_FALSE(ClientOf(**server)->List(kConfigMaps, "n"));
  EXPECT_EQ((*server)->requests().size(), 1U);
}

TEST(Resilience, ReadersSeeNothingOfASlowListBeforeItsEnd) {
  Counter reached;
  Counter released;
  const auto server = ScriptedServer::Start(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
        if (IsWatch(request)) {
          reply.Begin(200);
          stop.Wait();
          return;
        }
        if (request.query.find("continue=") == std::string::npos) {
          reply.Send(200, ListBody("9", Json::array({Item("a", "1")}), "token"));
          return;
        }
        const std::string page = ListBody("9", Json::array({Item("b", "2")}));
        reply.Begin(200);
        reply.Chunk(page.substr(0, page.size() / 2));
        reached.Next();
        EXPECT_TRUE(released.WaitFor(1));
        reply.Chunk(page.substr(page.size() / 2));
        reply.End();
      });
  Informer<VersionView> informer(ClientOf(**server), kConfigMaps,
                                 ProjectJson<VersionView>(&ProjectVersion), QuickOptions());
  informer.Start();
  ASSERT_TRUE(reached.WaitFor(1));
  EXPECT_EQ(informer.store().size(), 0U);
  EXPECT_TRUE(informer.store().Find({.namespace_name = "n", .name = "a"}).is_unknown());
  released.Next();
  ASSERT_TRUE(informer.WaitUntilSynced({}));
  EXPECT_EQ(informer.store().size(), 2U);
}

TEST(Resilience, GoneAsStatusAndAsEventBothListAgain) {
  Counter lists;
  Counter watches;
  const auto server = ScriptedServer::Start(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
        if (!IsWatch(request)) {
          const auto version = std::to_string(lists.Next() * 10);
          reply.Send(200, ListBody(version, Json::array({Item("a", version, version)})));
          return;
        }
        switch (watches.Next()) {
          case 1:
            reply.Send(410, StatusBody(410, "Expired"));
            return;
          case 2:
            reply.Begin(200);
            reply.Chunk(EventLine("BOOKMARK", {{"metadata", {{"resourceVersion", "25"}}}}));
            reply.Chunk(EventLine("ERROR", *codec::ParseJson(StatusBody(410, "Expired"))));
            reply.End();
            return;
          default:
            EXPECT_NE(request.query.find("resourceVersion=30"), std::string::npos);
            reply.Begin(200);
            stop.Wait();
        }
      });
  Informer<VersionView> informer(ClientOf(**server), kConfigMaps,
                                 ProjectJson<VersionView>(&ProjectVersion), QuickOptions());
  ChangeRecorder recorder;
  recorder.Attach(informer);
  informer.Start();
  EXPECT_TRUE(watches.WaitFor(3));
  EXPECT_EQ(recorder.changes(), 3);
  EXPECT_EQ(recorder.violations(), std::vector<std::string>());
  EXPECT_EQ(informer.status().lists, 3U);
}

TEST(Resilience, ABookmarkIsWhereAnEndedWatchGoesOn) {
  Counter watches;
  const auto server = ScriptedServer::Start(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
        if (!IsWatch(request)) {
          reply.Send(200, ListBody("10", Json::array()));
          return;
        }
        const int watch = watches.Next();
        reply.Begin(200);
        if (watch == 1) {
          // A line in two pieces, then a proper end.
          const std::string line = EventLine("ADDED", Item("a", "11"));
          reply.Chunk(line.substr(0, 20));
          reply.Chunk(line.substr(20));
          reply.Chunk(EventLine("BOOKMARK", {{"metadata", {{"resourceVersion", "40"}}}}));
          reply.End();
        } else if (watch == 2) {
          EXPECT_NE(request.query.find("resourceVersion=40"), std::string::npos);
          // Half an event, then silence: the version stays, the event comes again.
          reply.Chunk(EventLine("MODIFIED", Item("a", "41")).substr(0, 30));
          reply.Abort();
        } else {
          EXPECT_NE(request.query.find("resourceVersion=40"), std::string::npos);
          reply.Chunk(EventLine("MODIFIED", Item("a", "41", "y")));
          stop.Wait();
        }
      });
  Informer<VersionView> informer(ClientOf(**server), kConfigMaps,
                                 ProjectJson<VersionView>(&ProjectVersion), QuickOptions());
  ChangeRecorder recorder;
  recorder.Attach(informer);
  informer.Start();
  EXPECT_TRUE(recorder.WaitFor([](const auto& world) {
    const auto a = world.find({.namespace_name = "n", .name = "a"});
    return a != world.end() && a->second == "y";
  }));
  EXPECT_EQ(recorder.violations(), std::vector<std::string>());
  EXPECT_EQ(informer.status().lists, 1U);
}

TEST(Resilience, AnUnreadableObjectKeepsItsLastViewAndIsReported) {
  const auto server = ScriptedServer::Start([&](const ScriptedRequest& request,
                                                ScriptedReply& reply, const io::StopToken& stop) {
    if (!IsWatch(request)) {
      reply.Send(200, ListBody("10", Json::array({Item("a", "1"), Item("b", "2", "unreadable")})));
      return;
    }
    reply.Begin(200);
    reply.Chunk(EventLine("MODIFIED", Item("a", "11", "unreadable")));
    reply.Chunk(EventLine("ADDED", Item("c", "12")));
    stop.Wait();
  });
  Informer<VersionView> informer(
      ClientOf(**server), kConfigMaps,
      ProjectJson<VersionView>([](const Json& object) -> base::Result<VersionView> {
        auto view = ProjectVersion(object);
        if (view->value == "unreadable") return base::Fail(base::Invalid("Odd", "odd object"));
        return view;
      }),
      QuickOptions());
  ChangeRecorder recorder;
  recorder.Attach(informer);
  Counter problems;
  informer.AddProblemHandler([&](const ObjectKey&, const base::Error&) { problems.Next(); });
  informer.Start();
  EXPECT_TRUE(recorder.WaitFor([](const auto& world) { return world.size() == 2; }));
  EXPECT_TRUE(problems.WaitFor(2));
  const auto a = informer.store().Find({.namespace_name = "n", .name = "a"});
  ASSERT_TRUE(a.is_present());
  EXPECT_EQ((*a.value())->value, "x");
  const auto b = informer.store().Find({.namespace_name = "n", .name = "b"});
  ASSERT_TRUE(b.is_unknown());
  EXPECT_EQ(b.error()->reason, "Odd");
  EXPECT_EQ(informer.store().Unreadable().size(), 2U);
  EXPECT_EQ(informer.store().size(), 3U);
}

TEST(Resilience, TroubleIsToldWhileTheServerRefuses) {
  const auto server =
      ScriptedServer::Start([](const ScriptedRequest&, ScriptedReply& reply, const auto&) {
        reply.Send(403, StatusBody(403, "Forbidden"));
      });
  Informer<VersionView> informer(ClientOf(**server), kConfigMaps,
                                 ProjectJson<VersionView>(&ProjectVersion), QuickOptions());
  informer.Start();
  const auto synced =
      informer.WaitUntilSynced({}, std::chrono::steady_clock::now() + std::chrono::seconds(2));
  ASSERT_FALSE(synced);
  EXPECT_EQ(synced.error().code, Code::kTimeout);
  EXPECT_NE(synced.error().message.find("scripted"), std::string::npos);
  ASSERT_TRUE(informer.status().trouble);
  EXPECT_EQ(informer.status().trouble->code, Code::kDenied);
}

TEST(Resilience, ASilentServerRunsIntoTheDeadline) {
  const auto server = ScriptedServer::Start(
      [](const ScriptedRequest&, ScriptedReply&, const io::StopToken& stop) { stop.Wait(); });
  const auto http = io::HttpClient::Create();
  io::HttpRequest request;
  request.url = (*server)->url() + "/x";
  request.deadline = base::Deadline::After(std::chrono::milliseconds(100));
  EXPECT_EQ((*http)->Send(request, {}).error().reason, "RequestTimeout");
  request.deadline = {};
  request.idle_timeout = std::chrono::milliseconds(100);
  EXPECT_EQ((*http)->Send(request, {}).error().reason, "IdleTimeout");
}

std::size_t AllocatedBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return __sanitizer_get_current_allocated_bytes();
#else
  return ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
#endif
}

TEST(Resilience, MemoryStaysFlatOverManyLists) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "memory is counted in the other builds; here each list takes a second";
#endif
  constexpr int kObjects = 500;
  constexpr int kWarmUp = 20;
  constexpr int kLists = 120;
  Counter lists;
  const auto server = ScriptedServer::Start(
      [&](const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
        if (IsWatch(request)) {
          reply.Send(410, StatusBody(410, "Expired"));
          return;
        }
        const int list = lists.Next();
        if (list > kLists) {
          reply.Begin(200);
          stop.Wait();
          return;
        }
        Json items = Json::array();
        for (int i = 0; i < kObjects; ++i) {
          // Every tenth object changes with every list.
          const std::string version = i % 10 == 0 ? std::to_string(1000 + list) : "1";
          items.push_back(Item("map-" + std::to_string(i), version, std::string(200, 'v')));
        }
        reply.Send(200, ListBody("5", items));
      });
  Informer<VersionView> informer(ClientOf(**server), kConfigMaps,
                                 ProjectJson<VersionView>(&ProjectVersion), QuickOptions());
  informer.Start();
  ASSERT_TRUE(lists.WaitFor(kWarmUp));
  const std::size_t before = AllocatedBytes();
  ASSERT_TRUE(lists.WaitFor(kLists + 1));
  const std::size_t after = AllocatedBytes();
  // A list that is just being read may or may not be counted on either side: about 200 KB each in
  // the server, the client and the JSON reader. A leak of one list per round would be over 10 MB.
  EXPECT_LT(after, before + (2U << 20U));
  EXPECT_EQ(informer.store().size(), static_cast<std::size_t>(kObjects));
}

}  // namespace
}  // namespace pitcrew::kube
