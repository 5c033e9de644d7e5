// Nothing lost, nothing doubled: an informer against the real server while the world breaks.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "apiserver/api_server.h"
#include "kube/informer.h"
#include "kube/projection.h"
#include "loopback/tcp_proxy.h"
#include "support_changes.h"
#include "tests/support/patience.h"

namespace pitcrew::kube {
namespace {

using codec::Json;
using testing::ApiServer;
using testing::TcpProxy;

class WatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto& server = ApiServer::Shared();
    direct_ = server.MakeClient();
    auto proxy = TcpProxy::Start(server.port());
    ASSERT_TRUE(proxy);
    proxy_ = *std::move(proxy);
    auto client = Client::Create(server.config(proxy_->https_url()));
    ASSERT_TRUE(client);
    through_proxy_ = *std::move(client);
    space_ = "watch-" + std::to_string(++counter_);
    EnsureNamespace(*direct_, space_);
  }

  std::unique_ptr<Informer<VersionView>> MakeInformer() {
    InformerOptions options{.namespace_name = space_, .page_size = 7};
    options.backoff.base = std::chrono::milliseconds(20);
    options.backoff.cap = std::chrono::milliseconds(200);
    return std::make_unique<Informer<VersionView>>(
        through_proxy_, kConfigMaps, ProjectJson<VersionView>(&ProjectVersion), options);
  }

  void Put(const std::string& name, const std::string& value) {
    const auto applied = direct_->Apply(kConfigMaps, MakeConfigMap(space_, name, value),
                                        {.field_manager = "test", .force = true});
    ASSERT_TRUE(applied) << applied.error().message;
  }
  void Remove(const std::string& name) {
    const auto removed = direct_->Delete(kConfigMaps, {.namespace_name = space_, .name = name});
    ASSERT_TRUE(removed) << removed.error().message;
  }

  // The recorder's world, the store and the server must come to agree, without a violation on the
  // way.
  void ExpectAgreement(const Informer<VersionView>& informer, const ChangeRecorder& recorder) {
    const auto live = LiveConfigMaps(*direct_, space_);
    EXPECT_TRUE(recorder.WaitFor([&](const auto& world) { return world == live; }));
    EXPECT_EQ(recorder.world(), live);
    std::map<ObjectKey, std::string> stored;
    for (const auto& [key, view] : informer.store().Snapshot()) stored[key] = view->value;
    EXPECT_EQ(stored, live);
    EXPECT_EQ(recorder.violations(), std::vector<std::string>());
  }

  static int counter_;
  std::shared_ptr<Client> direct_;
  std::unique_ptr<TcpProxy> proxy_;
  std::shared_ptr<Client> through_proxy_;
  std::string space_;
};
int WatchTest::counter_ = 0;

TEST_F(WatchTest, FollowsTheWorld) {
  for (int i = 0; i < 20; ++i) Put("map-" + std::to_string(i), "old");
  const auto informer = MakeInformer();
  ChangeRecorder recorder;
  recorder.Attach(*informer);
  EXPECT_TRUE(informer->store().Find({.namespace_name = space_, .name = "map-1"}).is_unknown());
  informer->Start();
  ASSERT_TRUE(informer->WaitUntilSynced({}));
  EXPECT_EQ(informer->store().size(), 20U);
  Put("map-1", "new");
  Put("map-100", "new");
  Remove("map-2");
  ExpectAgreement(*informer, recorder);
  EXPECT_TRUE(informer->store().Find({.namespace_name = space_, .name = "map-2"}).is_absent());
  EXPECT_EQ(informer->status().lists, 1U);
}

TEST_F(WatchTest, ResumesAfterDroppedConnectionsWithoutListingAgain) {
  Put("first", "0");
  const auto informer = MakeInformer();
  ChangeRecorder recorder;
  recorder.Attach(*informer);
  informer->Start();
  ASSERT_TRUE(informer->WaitUntilSynced({}));
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same course in every run
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 5; ++i) {
      const std::string name = "map-" + std::to_string(random() % 10);
      if (random() % 4 == 0 &&
          LiveConfigMaps(*direct_, space_).contains({.namespace_name = space_, .name = name})) {
        Remove(name);
      } else {
        Put(name, std::to_string(round));
      }
    }
    proxy_->Cut();
  }
  ExpectAgreement(*informer, recorder);
  EXPECT_EQ(informer->status().lists, 1U);
  EXPECT_GT(informer->status().watches, 1U);
}

TEST_F(WatchTest, SurvivesARestartOfTheServer) {
  auto& server = ApiServer::Shared();
  for (int i = 0; i < 20; ++i) Put("map-" + std::to_string(i), "old");
  const auto informer = MakeInformer();
  ChangeRecorder recorder;
  recorder.Attach(*informer);
  informer->Start();
  ASSERT_TRUE(informer->WaitUntilSynced({}));
  server.StopServer();
  // What was known stays readable while nobody answers.
  EXPECT_EQ(informer->store().size(), 20U);
  EXPECT_TRUE(informer->store().Find({.namespace_name = space_, .name = "map-1"}).is_present());
  ASSERT_TRUE(server.StartServer());
  Put("map-1", "new");
  Put("more", "new");
  Remove("map-2");
  ExpectAgreement(*informer, recorder);
}

TEST_F(WatchTest, ListsAgainWhenItsVersionIsGone) {
  auto& server = ApiServer::Shared();
  for (int i = 0; i < 20; ++i) Put("map-" + std::to_string(i), "old");
  const auto informer = MakeInformer();
  ChangeRecorder recorder;
  recorder.Attach(*informer);
  informer->Start();
  ASSERT_TRUE(informer->WaitUntilSynced({}));
  proxy_->SetOpen(false);
  Put("map-1", "changed while away");
  Put("map-21", "born while away");
  Remove("map-2");
  Remove("map-3");
  Put("map-3", "deleted and born again while away");
  ASSERT_TRUE(server.CompactEtcd());
  server.StopServer();
  ASSERT_TRUE(server.StartServer());  // its watch cache begins after the compaction
  proxy_->SetOpen(true);
  ExpectAgreement(*informer, recorder);
  EXPECT_GE(informer->status().lists, 2U);
  // map-3's two lives are told as an end and a beginning, so: 20 at first, then one change, one
  // addition, one deletion, and two for map-3.
  EXPECT_EQ(recorder.changes(), 25);
}

// Something on the way forgets the connection and goes on to acknowledge packets: the first request
// that gets no answer ends it, for the watch too.
TEST_F(WatchTest, LeavesAConnectionThatDiesInSilence) {
  ClientOptions options;
  options.limits.timeout = std::chrono::seconds(5);
  options.limits.retry.attempts = 1;
  through_proxy_ = *Client::Create(ApiServer::Shared().config(proxy_->https_url()), options);
  Put("first", "0");
  const auto informer = MakeInformer();
  ChangeRecorder recorder;
  recorder.Attach(*informer);
  informer->Start();
  ASSERT_TRUE(informer->WaitUntilSynced({}));
  ASSERT_TRUE(through_proxy_->Version());
  proxy_->Forget();
  const auto unanswered = through_proxy_->Version();
  ASSERT_FALSE(unanswered);
  EXPECT_EQ(unanswered.error().reason, "RequestTimeout");
  Put("first", "1");
  ExpectAgreement(*informer, recorder);
}

TEST_F(WatchTest, KeepsUpWithManyWritersThroughCuts) {
  const auto informer = MakeInformer();
  ChangeRecorder recorder;
  recorder.Attach(*informer);
  informer->Start();
  ASSERT_TRUE(informer->WaitUntilSynced({}));
  std::atomic<bool> writing{true};
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < 40; ++i) {
        Put("w" + std::to_string(w) + "-" + std::to_string(i % 8), std::to_string(i));
      }
    });
  }
  std::thread cutter([&] {
    while (writing) {
      proxy_->Cut();
      static_cast<void>(io::StopToken().WaitFor(std::chrono::milliseconds(30)));
    }
  });
  for (auto& writer : writers) writer.join();
  writing = false;
  cutter.join();
  ExpectAgreement(*informer, recorder);
  EXPECT_EQ(recorder.world().size(), 32U);
}

TEST_F(WatchTest, AViewThatDoesNotChangeWakesNobody) {
  struct NameOnly {
    std::string name;
    bool operator==(const NameOnly&) const = default;
  };
  Put("one", "0");
  Informer<NameOnly> informer(
      through_proxy_, kConfigMaps,
      ProjectOnDemand<NameOnly>([](simdjson::ondemand::object& object, NameOnly& view) {
        std::string_view name;
        const auto error = object["metadata"]["name"].get(name);
        view.name = name;
        return error;
      }),
      {.namespace_name = space_});
  std::atomic<int> changes{0};
  std::promise<void> second;
  informer.AddHandler([&](const Change<NameOnly>& change) {
    ++changes;
    if (change.key.name == "two") second.set_value();
  });
  ChangeRecorder recorder;
  const auto full = MakeInformer();
  recorder.Attach(*full);
  informer.Start();
  full->Start();
  ASSERT_TRUE(informer.WaitUntilSynced({}));
  ASSERT_TRUE(full->WaitUntilSynced({}));
  for (int i = 1; i <= 5; ++i) Put("one", std::to_string(i));
  Put("two", "0");
  ExpectAgreement(*full, recorder);
  // "two" came after every version of "one".
  EXPECT_EQ(second.get_future().wait_for(test_support::kPatience), std::future_status::ready);
  informer.Stop();
  EXPECT_EQ(changes, 2);
}

}  // namespace
}  // namespace pitcrew::kube
