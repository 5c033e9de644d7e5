// Controllers, leaders and Events against the real server.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "apiserver/api_server.h"
#include "kube/controller.h"
#include "kube/events.h"
#include "kube/leader.h"
#include "kube/projection.h"
#include "loopback/tcp_proxy.h"
#include "support_changes.h"

namespace pitcrew::kube {
namespace {

using base::Code;
using codec::Json;
using testing::ApiServer;
using testing::TcpProxy;

class ControlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    space_ = "control-" + std::to_string(++counter_);
    EnsureNamespace(*client_, space_);
  }
  LeaderOptions Leader(const std::string& identity) const {
    return {.lease = {.namespace_name = space_, .name = "lease"},
            .identity = identity,
            .lease_duration = std::chrono::milliseconds(4000),
            .renew_deadline = std::chrono::milliseconds(3000),
            .retry_period = std::chrono::milliseconds(100)};
  }
  LeaseRecord Lease() const {
    const auto lease = client_->Get(kLeases, {.namespace_name = space_, .name = "lease"});
    return lease ? ReadLease(*lease) : LeaseRecord{};
  }

  static int counter_;
  std::shared_ptr<Client> client_;
  std::string space_;
};
int ControlTest::counter_ = 0;

TEST_F(ControlTest, ReconcilesUntilTheWorldIsAsDesired) {
  // Every ConfigMap "x" shall have a shadow "x-shadow" with the same value.
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(
        client_->Create(kConfigMaps, MakeConfigMap(space_, "map-" + std::to_string(i), "1")));
  }
  Informer<VersionView> informer(client_, kConfigMaps, ProjectJson<VersionView>(&ProjectVersion),
                                 {.namespace_name = space_});
  ChangeRecorder recorder;
  recorder.Attach(informer);
  std::atomic<int> tantrums{3};
  Controller controller(
      {.name = "shadow", .workers = 3},
      [&](const ObjectKey& key, const io::StopToken& stop) -> base::Result<Action> {
        if (key.name.ends_with("-shadow")) return Action::Done();
        if (tantrums.fetch_sub(1) > 0) throw std::runtime_error("a tantrum");
        const auto seen = informer.store().Find(key);
        if (seen.is_unknown()) return base::Fail(*seen.error());
        const ObjectKey shadow{.namespace_name = key.namespace_name, .name = key.name + "-shadow"};
        if (seen.is_absent()) {
          const auto removed = client_->Delete(kConfigMaps, shadow, {}, stop);
          if (!removed && removed.error().code != Code::kNotFound) {
            return base::Fail(removed.error());
          }
          return Action::Done();
        }
        const auto applied = client_->Apply(
            kConfigMaps, MakeConfigMap(shadow.namespace_name, shadow.name, (*seen.value())->value),
            {.field_manager = "shadow", .force = true}, stop);
        if (!applied) return base::Fail(applied.error());
        return Action::Done();
      });
  controller.Watch(informer);
  const io::StopSource stop;
  std::thread runner([&] { EXPECT_TRUE(controller.Run(stop.token())); });
  EXPECT_TRUE(recorder.WaitFor([](const auto& world) { return world.size() == 20; }));
  ASSERT_TRUE(client_->Delete(kConfigMaps, {.namespace_name = space_, .name = "map-3"}));
  EXPECT_TRUE(recorder.WaitFor([](const auto& world) { return world.size() == 18; }));
  stop.Stop();
  runner.join();
  informer.Stop();
  EXPECT_EQ(controller.counts().threw, 3U);
  EXPECT_EQ(recorder.violations(), std::vector<std::string>());
}

TEST_F(ControlTest, AnUnservedSourceFailsInsteadOfWaitingForEver) {
  Informer<VersionView> informer(client_, {"example.com", "v1", "widgets", "Widget"},
                                 ProjectJson<VersionView>(&ProjectVersion), {});
  Controller controller({.name = "waiting", .sync_timeout = std::chrono::milliseconds(500)},
                        [](const ObjectKey&, const io::StopToken&) -> base::Result<Action> {
                          return Action::Done();
                        });
  controller.Watch(informer);
  const auto result = controller.Run({});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kTimeout);
  EXPECT_NE(result.error().message.find("widgets"), std::string::npos);
}

TEST_F(ControlTest, OneLeadsAtATimeAndTheNextTakesOverAfterARelease) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> leaders;
  std::atomic<int> leading{0};
  const io::StopSource stop_a;
  const io::StopSource stop_b;
  const auto run = [&](const std::string& name, const io::StopToken& stop) {
    const auto client = ApiServer::Shared().MakeClient();
    return RunWhileLeader(
        *client, Leader(name),
        [&](const io::StopToken& token) -> base::Status {
          EXPECT_EQ(++leading, 1);
          {
            const std::scoped_lock lock(mutex);
            leaders.push_back(name);
            changed.notify_all();
          }
          token.Wait();
          --leading;
          return {};
        },
        stop);
  };
  const auto wait_for_leaders = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kPatience, [&] { return leaders.size() >= count; });
  };
  std::thread a([&] { EXPECT_TRUE(run("a", stop_a.token())); });
  ASSERT_TRUE(wait_for_leaders(1));
  std::thread b([&] { EXPECT_TRUE(run("b", stop_b.token())); });
  EXPECT_EQ(Lease().holder, "a");
  stop_a.Stop();
  a.join();
  ASSERT_TRUE(wait_for_leaders(2));
  EXPECT_EQ(leaders, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Lease().holder, "b");
  EXPECT_GE(Lease().transitions, 1);
  stop_b.Stop();
  b.join();
  EXPECT_EQ(Lease().holder, "");
}

// As after a renewal that the end cut off and that the server did all the same: the lease has a
// version that the leader has not seen.
TEST_F(ControlTest, ALeaseThatChangedSinceIsReleasedToo) {
  LeaderOptions options = Leader("a");
  options.lease_duration = std::chrono::minutes(10);
  options.renew_deadline = std::chrono::minutes(9);
  options.retry_period = std::chrono::minutes(2);  // no renewal comes meanwhile
  const io::StopSource stop;
  const auto ended = RunWhileLeader(
      *client_, options,
      [&](const io::StopToken&) -> base::Status {
        const auto changed =
            client_->Patch(kLeases, options.lease, PatchType::kMerge,
                           {{"metadata", {{"annotations", {{"somebody", "was here"}}}}}}, {});
        EXPECT_TRUE(changed) << changed.error().ToString();
        stop.Stop();
        return {};
      },
      stop.token());
  EXPECT_TRUE(ended);
  EXPECT_EQ(Lease().holder, "");
}

TEST_F(ControlTest, ALeaderThatCannotRenewStops) {
  const auto proxy = TcpProxy::Start(ApiServer::Shared().port());
  const auto client = Client::Create(ApiServer::Shared().config((*proxy)->https_url()));
  const auto result = RunWhileLeader(**client, Leader("lonely"),
                                     [&](const io::StopToken& token) -> base::Status {
                                       (*proxy)->SetOpen(false);
                                       EXPECT_TRUE(token.WaitFor(kPatience));
                                       return {};
                                     },
                                     {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "LeadershipLost");
}

TEST_F(ControlTest, ARepeatedEventCountsUpOneObject) {
  const auto created = client_->Create(kConfigMaps, MakeConfigMap(space_, "subject", "1"));
  ASSERT_TRUE(created);
  const auto events = [&] {
    const auto list = client_->List(kEvents, space_);
    return list ? list->items : std::vector<Json>();
  };
  const Event event{.about = ReferenceTo(kConfigMaps, *created),
                    .type = EventType::kWarning,
                    .reason = "OutOfOil",
                    .message = "there is no oil left"};
  {
    EventRecorder recorder(client_, "test", "here");
    for (int i = 0; i < 5; ++i) recorder.Record(event);
    recorder.Flush();
    ASSERT_EQ(events().size(), 1U);
    EXPECT_EQ(events().front()["count"], 5);
    EXPECT_EQ(events().front()["reason"], "OutOfOil");
    EXPECT_EQ(events().front()["involvedObject"]["name"], "subject");
  }
  // A restarted process goes on counting.
  EventRecorder recorder(client_, "test", "here");
  recorder.Record(event);
  recorder.Record(event);
  recorder.Flush();
  ASSERT_EQ(events().size(), 1U);
  EXPECT_EQ(events().front()["count"], 7);
  // Deleted by the server's expiry: begun anew.
  ASSERT_TRUE(client_->Delete(kEvents, KeyOf(events().front())));
  recorder.Record(event);
  recorder.Flush();
  EXPECT_EQ(events().size(), 1U);
}

}  // namespace
}  // namespace pitcrew::kube
