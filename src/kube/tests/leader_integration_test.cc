// Leadership where the server is slow or a connection dies without a word.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "apiserver/api_server.h"
#include "kube/informer.h"
#include "kube/leader.h"
#include "kube/projection.h"
#include "loopback/scripted_server.h"
#include "loopback/tcp_proxy.h"
#include "support_changes.h"

namespace pitcrew::kube {
namespace {

using base::SteadyClock;
using codec::Json;
using std::chrono::milliseconds;
using testing::ApiServer;
using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;
using testing::TcpProxy;

// A lease that can be taken and then is hardly ever answered for: reading takes just less than a
// try may, writing never ends.
class SlowServer {
 public:
  SlowServer() {
    server_ =
        *ScriptedServer::Start([this](const ScriptedRequest& request, ScriptedReply& reply,
                                      const io::StopToken& stop) { Answer(request, reply, stop); });
  }
  std::shared_ptr<Client> MakeClient() const {
    Config config;
    config.server = server_->url();
    return *Client::Create(config);
  }
  // When the record arrived that is the last which others can see.
  SteadyClock::time_point written_at() const { return written_at_; }

 private:
  void Answer(const ScriptedRequest& request, ScriptedReply& reply, const io::StopToken& stop) {
    if (request.method == "POST") {
      Json lease = *codec::ParseJson(request.body);
      lease["metadata"]["resourceVersion"] = "1";
      lease_ = codec::ToJsonText(lease);
      written_at_ = SteadyClock::now();
      reply.Send(201, lease_);
    } else if (request.method == "GET" && lease_.empty()) {
      reply.Send(404, R"({"kind":"Status","status":"Failure","reason":"NotFound","code":404,)"
                      R"("message":"no such lease","details":{"name":"lease","kind":"leases"}})");
    } else if (request.method == "GET") {
      if (!stop.WaitFor(milliseconds(1900))) reply.Send(200, lease_);
    } else {
      stop.Wait();
    }
  }

  std::string lease_;
  std::atomic<SteadyClock::time_point> written_at_{};
  std::unique_ptr<ScriptedServer> server_;  // last: uses everything above
};

TEST(LeaderResilience, ALeaderDoesNotOutliveItsLease) {
  const SlowServer server;
  const LeaderOptions options{.lease = {.namespace_name = "n", .name = "lease"},
                              .identity = "me",
                              .lease_duration = milliseconds(5000),
                              .renew_deadline = milliseconds(4000),
                              .retry_period = milliseconds(1000)};
  SteadyClock::time_point stopped_at;
  const auto result = RunWhileLeader(*server.MakeClient(), options,
                                     [&](const io::StopToken& token) -> base::Status {
                                       EXPECT_TRUE(token.WaitFor(kPatience));
                                       stopped_at = SteadyClock::now();
                                       return {};
                                     },
                                     {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "LeadershipLost");
  // From then on another one may lead, as soon as it has seen the last record for that long.
  EXPECT_LT(stopped_at - server.written_at(), options.lease_duration);
}

TEST(LeaderResilience, OneConnectionThatDiesWithoutAWordDoesNotCostTheLease) {
  const auto direct = ApiServer::Shared().MakeClient();
  const std::string space = "leader-silence";
  EnsureNamespace(*direct, space);
  const auto proxy = TcpProxy::Start(ApiServer::Shared().port());
  const auto client = Client::Create(ApiServer::Shared().config((*proxy)->https_url()));
  std::mutex mutex;
  std::condition_variable changed;
  int renewals = 0;
  Informer<VersionView> informer(direct, kLeases, ProjectJson<VersionView>([](const Json& lease) {
                                   auto view = ProjectVersion(lease);
                                   if (view) view->value = lease["spec"].value("renewTime", "");
                                   return view;
                                 }),
                                 {.namespace_name = space});
  informer.AddHandler([&](const Change<VersionView>&) {
    const std::scoped_lock lock(mutex);
    ++renewals;
    changed.notify_all();
  });
  informer.Start();
  const auto wait_for_renewal = [&](int more) {
    std::unique_lock lock(mutex);
    const int wanted = renewals + more;
    return changed.wait_for(lock, kPatience, [&] { return renewals >= wanted; });
  };
  // The defaults, which are those of client-go.
  const LeaderOptions options{.lease = {.namespace_name = space, .name = "lease"},
                              .identity = "me"};
  const auto result = RunWhileLeader(**client, options,
                                     [&](const io::StopToken& token) -> base::Status {
                                       EXPECT_TRUE(wait_for_renewal(1));
                                       (*proxy)->Forget();
                                       EXPECT_TRUE(wait_for_renewal(2));
                                       EXPECT_FALSE(token.stopped());
                                       return {};
                                     },
                                     {});
  EXPECT_TRUE(result) << result.error().message;
}

}  // namespace
}  // namespace pitcrew::kube
