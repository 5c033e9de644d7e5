// Worker, master and garbage collector on a real kube-apiserver.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <utility>

#include "apiserver/api_server.h"
#include "apiserver/interposed_server.h"
#include "base/file.h"
#include "codec/yaml.h"
#include "io/http_client.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "loopback/loopback.h"
#include "node/nfd/gc.h"
#include "node/nfd/master.h"
#include "node/nfd/resources.h"
#include "node/nfd/worker.h"
#include "support_tree.h"
#include "tests/support/folders.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::nfd {
namespace {

using codec::Json;
using testing::ApiServer;

constexpr const char* kSpace = "gpu-operator";

// A program's loop on a thread of its own, ended with the test.
class Running {
 public:
  explicit Running(std::function<base::Status(const io::StopToken&)> run)
      : thread_([this, run = std::move(run)] { result_ = run(stop_.token()); }) {}
  ~Running() {
    stop_.Stop();
    thread_.join();
  }

 private:
  io::StopSource stop_;
  base::Status result_;
  std::thread thread_;
};

class NfdTest : public ::testing::Test {
 protected:
  // Both suites share one server.
  static void SetUpTestSuite() {
    if (std::exchange(prepared_, true)) return;
    const auto client = ApiServer::Shared().MakeClient();
    const auto text = base::ReadFile(test_support::SourceFolder() /
                                     "deploy/chart/gpu-operator/charts/node-feature-discovery/"
                                     "crds/nfd-api-crds.yaml");
    ASSERT_TRUE(text) << text.error().message;
    const auto definitions = codec::ParseYamlStream(*text);
    ASSERT_TRUE(definitions);
    for (const auto& definition : *definitions) {
      const auto created = client->Create(kube::kCustomResourceDefinitions, definition);
      ASSERT_TRUE(created) << created.error().message;
    }
    for (const auto* space : {kSpace, "elsewhere"}) {
      const auto made = client->Create(kube::kNamespaces, {{"metadata", {{"name", space}}}});
      ASSERT_TRUE(made) << made.error().message;
    }
    const auto served = kube::Await<Json>(
        client, kube::kCustomResourceDefinitions, kube::ProjectJson<Json>(Whole), {},
        [](const kube::Store<Json>& store) -> base::Result<bool> {
          const auto found = store.Find({"", "nodefeatures.nfd.k8s-sigs.io"});
          return found.is_present() &&
                 (**found.value()).dump().find(R"("Established")") != std::string::npos;
        },
        {}, Soon());
    ASSERT_TRUE(served) << served.error().message;
  }

  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    node_ = "node-" + std::to_string(++counter_);
    ASSERT_TRUE(client_->Create(kube::kNodes, {{"metadata", {{"name", node_}}}}));
    config_.namespace_name = kSpace;
  }
  void TearDown() override {
    [[maybe_unused]] const auto gone = client_->Delete(kube::kNodes, {"", node_});
    const auto objects = client_->List(kNodeFeatures, "");
    for (const auto& object : objects->items) {
      [[maybe_unused]] const auto deleted = client_->Delete(kNodeFeatures, kube::KeyOf(object));
    }
  }

  static base::Result<Json> Whole(const Json& object) { return object; }
  static base::SteadyClock::time_point Soon() {
    return base::SteadyClock::now() + test_support::kPatience;
  }
  // Waits until the object satisfies `wanted` (null: it is not there).
  ::testing::AssertionResult Becomes(const kube::ResourceKind& kind, const kube::ObjectKey& key,
                                     const std::function<bool(const Json&)>& wanted) {
    Json last;
    const auto done = kube::Await<Json>(
        client_, kind, kube::ProjectJson<Json>(Whole), {},
        [&](const kube::Store<Json>& store) -> base::Result<bool> {
          const auto found = store.Find(key);
          last = found.is_present() ? **found.value() : Json();
          return wanted(last);
        },
        {}, Soon());
    if (done) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << done.error().message << "\n" << last.dump(2);
  }
  ::testing::AssertionResult NodeHas(const std::string& label, const std::string& value) {
    return Becomes(kube::kNodes, {"", node_}, [&](const Json& node) {
      return codec::FindString(node, {"metadata", "labels", label}) == value;
    });
  }
  Json Feature(const std::string& space, const std::string& name, const Labels& labels) const {
    return {{"metadata",
             {{"name", name},
              {"namespace", space},
              {"labels", {{std::string(kNodeNameLabel), node_}}}}},
            {"spec",
             {{"features",
               {{"flags", Json::object()},
                {"attributes", Json::object()},
                {"instances", Json::object()}}},
              {"labels", labels}}}};
  }
  std::string Owned() {
    return codec::FindString(*client_->Get(kube::kNodes, {"", node_}),
                             {"metadata", "annotations", kOwnedLabels});
  }

  static int counter_;
  static bool prepared_;
  std::shared_ptr<kube::Client> client_;
  std::string node_;
  MasterConfig config_;
};
int NfdTest::counter_ = 0;
bool NfdTest::prepared_ = false;

TEST_F(NfdTest, MasterMergesFollowsAndRemoves) {
  RecordProperty("holds", "node-feature-discovery.md #58, #59, #68");
  const Running master(
      [&](const io::StopToken& stop) { return RunMaster(client_, config_, stop); });
  ASSERT_TRUE(client_->Create(kNodeFeatures, Feature(kSpace, node_, {{"foo", "bar"}, {"x", "1"}})));
  ASSERT_TRUE(NodeHas("feature.node.kubernetes.io/foo", "bar"));
  EXPECT_EQ(Owned(), "foo,x");
  ASSERT_TRUE(client_->Create(kNodeFeatures, Feature("elsewhere", "gfd-" + node_,
                                                     {{"x", "2"}, {"nvidia.com/gpu.count", "8"}})));
  ASSERT_TRUE(NodeHas("nvidia.com/gpu.count", "8"));
  EXPECT_TRUE(NodeHas("feature.node.kubernetes.io/x", "2"));
  ASSERT_TRUE(client_->Delete(kNodeFeatures, {"elsewhere", "gfd-" + node_}));
  ASSERT_TRUE(NodeHas("nvidia.com/gpu.count", ""));
  EXPECT_TRUE(NodeHas("feature.node.kubernetes.io/x", "1"));
  ASSERT_TRUE(client_->Delete(kNodeFeatures, {kSpace, node_}));
  ASSERT_TRUE(NodeHas("feature.node.kubernetes.io/foo", ""));
}

TEST_F(NfdTest, AnObjectThatNamesNoNodeLabelsNone) {
  RecordProperty("holds", "node-feature-discovery.md #70");
  auto nameless = Feature(kSpace, node_, {{"nameless", "1"}});  // called as a node's own
  nameless["metadata"].erase("labels");
  ASSERT_TRUE(client_->Create(kNodeFeatures, nameless));
  ASSERT_TRUE(client_->Create(kNodeFeatures, Feature(kSpace, "named", {{"named", "1"}})));
  const Running master(
      [&](const io::StopToken& stop) { return RunMaster(client_, config_, stop); });
  ASSERT_TRUE(NodeHas("feature.node.kubernetes.io/named", "1"));
  EXPECT_EQ(Owned(), "named");
}

TEST_F(NfdTest, MasterPutsBackWhatSomebodyTookAway) {
  const Running master(
      [&](const io::StopToken& stop) { return RunMaster(client_, config_, stop); });
  ASSERT_TRUE(client_->Create(kNodeFeatures, Feature(kSpace, node_, {{"foo", "bar"}})));
  ASSERT_TRUE(NodeHas("feature.node.kubernetes.io/foo", "bar"));
  ASSERT_TRUE(
      client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                     {{"metadata", {{"labels", {{"feature.node.kubernetes.io/foo", nullptr}}}}}}));
  EXPECT_TRUE(NodeHas("feature.node.kubernetes.io/foo", "bar"));
}

TEST_F(NfdTest, ANodeThatIsMadeAgainGetsItsLabels) {
  const Running master(
      [&](const io::StopToken& stop) { return RunMaster(client_, config_, stop); });
  ASSERT_TRUE(client_->Create(kNodeFeatures, Feature(kSpace, node_, {{"foo", "bar"}})));
  ASSERT_TRUE(NodeHas("feature.node.kubernetes.io/foo", "bar"));
  ASSERT_TRUE(client_->Delete(kube::kNodes, {"", node_}));
  ASSERT_TRUE(client_->Create(kube::kNodes, {{"metadata", {{"name", node_}}}}));
  EXPECT_TRUE(NodeHas("feature.node.kubernetes.io/foo", "bar"));
}

TEST_F(NfdTest, AtFirstSightNothingIsRemoved) {
  RecordProperty("holds", "node-feature-discovery.md #67");
  const std::string bookkeeping(kOwnedLabels);
  const std::string stale(kMasterVersion);
  ASSERT_TRUE(client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                             {{"metadata",
                               {{"labels", {{"feature.node.kubernetes.io/old", "1"}}},
                                {"annotations", {{bookkeeping, "old"}, {stale, "v0.8"}}}}}}));
  const Running master(
      [&](const io::StopToken& stop) { return RunMaster(client_, config_, stop); });
  // The annotation of old masters goes in any case: it tells that the node has had its turn.
  ASSERT_TRUE(Becomes(kube::kNodes, {"", node_}, [&](const Json& node) {
    return codec::FindString(node, {"metadata", "annotations", stale}).empty();
  }));
  EXPECT_TRUE(NodeHas("feature.node.kubernetes.io/old", "1"));
  EXPECT_EQ(Owned(), "old");
}

TEST_F(NfdTest, WhatNobodyAsksForGoesAfterAResyncPeriod) {
  RecordProperty("holds", "node-feature-discovery.md #67");
  const std::string bookkeeping(kOwnedLabels);
  ASSERT_TRUE(client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                             {{"metadata",
                               {{"labels", {{"feature.node.kubernetes.io/old", "1"}}},
                                {"annotations", {{bookkeeping, "old"}}}}}}));
  config_.resync_period = std::chrono::milliseconds(50);
  const Running master(
      [&](const io::StopToken& stop) { return RunMaster(client_, config_, stop); });
  EXPECT_TRUE(NodeHas("feature.node.kubernetes.io/old", ""));
}

TEST_F(NfdTest, PruneTakesEverythingOff) {
  RecordProperty("holds", "node-feature-discovery.md #74");
  {
    const Running master(
        [&](const io::StopToken& stop) { return RunMaster(client_, config_, stop); });
    ASSERT_TRUE(client_->Create(kNodeFeatures, Feature(kSpace, node_, {{"foo", "bar"}})));
    ASSERT_TRUE(NodeHas("feature.node.kubernetes.io/foo", "bar"));
  }
  ASSERT_TRUE(PruneNodes(*client_, config_, {}));
  const auto node = client_->Get(kube::kNodes, {"", node_});
  EXPECT_EQ(node->dump().find("feature.node.kubernetes.io"), std::string::npos) << node->dump(2);
  EXPECT_EQ(node->dump().find("feature-labels"), std::string::npos);
}

class WorkerTest : public NfdTest {
 protected:
  void SetUp() override {
    NfdTest::SetUp();
    MakeTree(*codec::ParseYaml(R"(
files:
  proc/sys/kernel/osrelease: 6.8.0
  etc/os-release: "ID=debian\nVERSION_ID=\"12\"\n"
  sys/bus/pci/devices/0000:65:00.0/class: "0x030200"
  sys/bus/pci/devices/0000:65:00.0/vendor: "0x10de"
  sys/bus/pci/devices/0000:65:00.0/device: "0x2330"
  sys/bus/pci/devices/0000:65:00.0/subsystem_vendor: "0x10de"
  sys/bus/pci/devices/0000:65:00.0/subsystem_device: "0x16c1"
  etc/kubernetes/node-feature-discovery/features.d/first: "a.b/first=1\n"
)"),
             root_.path());
    options_.config = *MakeWorkerConfig({.file = *codec::ParseYaml(R"(
core: {ownerRefs: [node], sleepInterval: 0s}
sources: {pci: {deviceClassWhitelist: ["03"], deviceLabelFields: [vendor]}}
)"),
                                         .options = Json::object()},
                                        {});
    options_.paths = HostPaths::Below(root_.path());
    options_.identity = {node_, kSpace, "", "", "v1"};
  }
  ::testing::AssertionResult Published(const std::string& label, const std::string& value) {
    return Becomes(kNodeFeatures, {kSpace, node_}, [&](const Json& object) {
      return codec::FindString(object, {"spec", "labels", label}) == value;
    });
  }

  test_support::TemporaryFolder root_;
  WorkerOptions options_;
};

TEST_F(WorkerTest, PublishesAndFollowsFiles) {
  RecordProperty("holds", "node-feature-discovery.md #1, #21, #28, #36");
  const Running worker(
      [&](const io::StopToken& stop) { return RunWorker(options_, client_, stop); });
  ASSERT_TRUE(Published("feature.node.kubernetes.io/pci-10de.present", "true"));
  const auto object = client_->Get(kNodeFeatures, {kSpace, node_});
  ASSERT_TRUE(object);
  EXPECT_EQ(codec::FindString(*object, {"metadata", "labels", kNodeNameLabel}), node_);
  const auto& owner = object->at("metadata").at("ownerReferences").at(0);
  EXPECT_EQ(owner.at("kind"), "Node");
  EXPECT_EQ(owner.at("blockOwnerDeletion"), false);
  EXPECT_TRUE(Published("a.b/first", "1"));

  root_.Write("etc/kubernetes/node-feature-discovery/features.d/second", "a.b/second=2\n");
  EXPECT_TRUE(Published("a.b/second", "2"));
  std::filesystem::remove(root_.path() / "etc/kubernetes/node-feature-discovery/features.d/first");
  EXPECT_TRUE(Published("a.b/first", ""));
}

TEST_F(WorkerTest, ItsHealthEndpointAnswersOnceItHasPublished) {
  RecordProperty("holds", "node-feature-discovery.md #30");
  options_.port = testing::ReserveOnLoopback()->port;
  const auto http = *io::HttpClient::Create();
  const auto health = [&] {
    io::HttpRequest request;
    request.url = fmt::format("http://127.0.0.1:{}/healthz", options_.port);
    const auto answer = http->Send(request, {});
    return answer ? answer->status : 0;
  };
  // Asked as its first object comes to the server.
  std::atomic<int> health_before = -1;
  const testing::InterposedServer server(
      [&](const testing::ScriptedRequest& request, testing::ScriptedReply&, const io::StopToken&) {
        if (request.method != "GET" && request.path.contains("/nodefeatures")) {
          health_before = health();
        }
        return false;
      });
  const Running worker(
      [&](const io::StopToken& stop) { return RunWorker(options_, server.MakeClient(), stop); });
  ASSERT_TRUE(Published("feature.node.kubernetes.io/pci-10de.present", "true"));
  EXPECT_EQ(health_before, 0) << "the connection was not refused";
  const auto deadline = Soon();
  while (health() != 200 && base::SteadyClock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(health(), 200);
}

TEST_F(WorkerTest, OneshotEndsAndWritesNothingTheSecondTime) {
  RecordProperty("holds", "node-feature-discovery.md #27, #29");
  options_.oneshot = true;
  ASSERT_TRUE(RunWorker(options_, client_, {}));
  const auto first = client_->Get(kNodeFeatures, {kSpace, node_});
  ASSERT_TRUE(first);
  ASSERT_TRUE(RunWorker(options_, client_, {}));
  EXPECT_EQ(*client_->Get(kNodeFeatures, {kSpace, node_}), *first);
  options_.identity.pod_uid = "another-pod";
  ASSERT_TRUE(RunWorker(options_, client_, {}));
  const auto third = client_->Get(kNodeFeatures, {kSpace, node_});
  EXPECT_EQ(codec::FindString(*third, {"metadata", "annotations", kWorkerPodUid}), "another-pod");
}

TEST_F(WorkerTest, OwnersComeFromThePodsDaemonSet) {
  RecordProperty("holds", "node-feature-discovery.md #24");
  const Json pod = {{"metadata",
                     {{"name", "worker-" + node_},
                      {"namespace", kSpace},
                      {"ownerReferences", Json::array({{{"apiVersion", "apps/v1"},
                                                        {"kind", "DaemonSet"},
                                                        {"name", "nfd-worker"},
                                                        {"uid", "ds-uid"},
                                                        {"controller", true},
                                                        {"blockOwnerDeletion", true}}})}}},
                    {"spec",
                     {{"containers", Json::array({{{"name", "c"}, {"image", "i"}}})},
                      {"automountServiceAccountToken", false}}}};
  ASSERT_TRUE(client_->Create(kube::kServiceAccounts,
                              {{"metadata", {{"name", "default"}, {"namespace", kSpace}}}}));
  const auto made = client_->Create(kube::kPods, pod);
  ASSERT_TRUE(made) << made.error().message;
  const WorkerIdentity identity{node_, kSpace, "worker-" + node_, "pod-uid", "v1"};
  const std::pair<Owner, std::string> kinds[] = {
      {Owner::kNode, "Node"}, {Owner::kPod, "Pod"}, {Owner::kDaemonSet, "DaemonSet"}};
  for (unsigned subset = 0; subset < 8; ++subset) {
    std::vector<Owner> wanted;
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < std::size(kinds); ++i) {
      if ((subset & 1U << i) == 0) continue;
      wanted.push_back(kinds[i].first);
      expected.push_back(kinds[i].second);
    }
    const auto some = ResolveOwners(*client_, identity, wanted, {});
    ASSERT_TRUE(some) << some.error().message;
    std::vector<std::string> found;
    for (const auto& owner : *some) {
      found.push_back(owner.at("kind"));
      EXPECT_EQ(owner.at("blockOwnerDeletion"), false);
    }
    EXPECT_EQ(found, expected);
  }
  const auto owners =
      ResolveOwners(*client_, identity, {Owner::kNode, Owner::kPod, Owner::kDaemonSet}, {});
  ASSERT_TRUE(owners) << owners.error().message;
  EXPECT_EQ(owners->at(1).at("uid"), "pod-uid");
  EXPECT_EQ(owners->at(2).at("uid"), "ds-uid");
  EXPECT_EQ(owners->at(2).at("controller"), true);
  EXPECT_FALSE(ResolveOwners(*client_, {"no-such-node", kSpace, "", "", "v1"}, {Owner::kNode}, {}));
  EXPECT_EQ(
      ResolveOwners(*client_, {node_, kSpace, "", "", "v1"}, {Owner::kPod, Owner::kDaemonSet}, {})
          ->size(),
      0U);
}

TEST_F(NfdTest, GcDeletesObjectsOfNodesThatAreGone) {
  RecordProperty("holds", "node-feature-discovery.md #80, #81");
  ASSERT_TRUE(client_->Create(kNodeFeatures, Feature(kSpace, node_, {})));
  auto stale = Feature("elsewhere", "stale", {});
  stale["metadata"]["labels"][std::string(kNodeNameLabel)] = "long-gone";
  ASSERT_TRUE(client_->Create(kNodeFeatures, stale));
  auto nameless = Feature(kSpace, "nameless", {});
  nameless["metadata"].erase("labels");
  ASSERT_TRUE(client_->Create(kNodeFeatures, nameless));
  const Running gc([&](const io::StopToken& stop) { return RunGc(client_, {}, stop); });
  const auto is_gone = [](const Json& object) { return object.is_null(); };
  ASSERT_TRUE(Becomes(kNodeFeatures, {"elsewhere", "stale"}, is_gone));
  EXPECT_TRUE(client_->Get(kNodeFeatures, {kSpace, node_}));
  ASSERT_TRUE(client_->Delete(kube::kNodes, {"", node_}));
  ASSERT_TRUE(Becomes(kNodeFeatures, {kSpace, node_}, is_gone));
  EXPECT_TRUE(client_->Get(kNodeFeatures, {kSpace, "nameless"})) << "section 12, weakness 29";
}

}  // namespace
}  // namespace pitcrew::node::nfd
