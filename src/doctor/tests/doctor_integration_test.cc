// status and doctor against a real kube-apiserver: reading it, being refused, and following it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "apiserver/api_server.h"
#include "apiserver/kubevirt_definitions.h"
#include "base/file.h"
#include "codec/yaml.h"
#include "desired/cluster_kinds.h"
#include "doctor/follow.h"
#include "doctor/source.h"
#include "fleet/report.h"
#include "kubevirt/kinds.h"
#include "tests/support/folders.h"
#include "tests/support/patience.h"

namespace pitcrew::doctor {
namespace {

using codec::Json;
using fleet::Kind;
using pitcrew::testing::ApiServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr kube::WriteOptions kWriter{.field_manager = "test", .subresource = {}};
constexpr kube::WriteOptions kStatusWriter{.field_manager = "test", .subresource = "status"};

Json GpuNode(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata",
           {{"name", name},
            {"labels",
             {{"feature.node.kubernetes.io/pci-10de.present", "true"},
              {"nvidia.com/gpu.present", "true"},
              {"nvidia.com/gpu.deploy.operands", "false"}}}}}};
}

Json WaitingPod(const std::string& name_space, int gpus) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", "train"}, {"namespace", name_space}}},
          {"spec",
           {{"containers",
             {{{"name", "main"},
               {"image", "train"},
               {"resources", {{"limits", {{"nvidia.com/gpu", std::to_string(gpus)}}}}}}}}}}};
}

class DoctorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto client = ApiServer::Shared().MakeClient();
    const std::filesystem::path crds =
        test_support::SourceFolder() / "deploy/chart/gpu-operator/crds";
    for (const auto& file : std::filesystem::directory_iterator(crds)) {
      const auto text = base::ReadFile(file.path());
      ASSERT_TRUE(text);
      const auto definition = codec::ParseYaml(*text, file.path().string());
      ASSERT_TRUE(definition) << definition.error().ToString();
      if (codec::FindString(*definition, {"metadata", "name"}) != kPolicyDefinition) continue;
      ASSERT_TRUE(client->Apply(kube::kCustomResourceDefinitions, *definition, kWriter));
    }
    for (const char* name : {"gpu-operator", "team"}) {
      ASSERT_TRUE(client->Create(kube::kNamespaces, {{"metadata", {{"name", name}}}}, kWriter));
      // What kube-controller-manager would make.
      ASSERT_TRUE(client->Create(kube::kServiceAccounts,
                                 {{"metadata", {{"name", "default"}, {"namespace", name}}}},
                                 kWriter));
    }
    ASSERT_TRUE(client->Create(kube::kNodes, GpuNode("gpu-a"), kWriter));
    const Json offer = {
        {"status",
         {{"capacity", {{"nvidia.com/gpu", "8"}}}, {"allocatable", {{"nvidia.com/gpu", "8"}}}}}};
    ASSERT_TRUE(client->Patch(kube::kNodes, {.namespace_name = "", .name = "gpu-a"},
                              kube::PatchType::kMerge, offer, kStatusWriter));
    ASSERT_TRUE(client->Create(kube::kPods, WaitingPod("team", 99), kWriter));
  }

  static fleet::Cluster Read(kube::Client& client) {
    auto cluster = ReadLive(client, "gpu-operator", {});
    EXPECT_TRUE(cluster) << cluster.error().ToString();
    return cluster ? *std::move(cluster) : fleet::Cluster();
  }

  static std::vector<std::string> Ids(const std::vector<fleet::Finding>& findings) {
    std::vector<std::string> ids;
    for (const auto& finding : findings) ids.push_back(finding.id);
    return ids;
  }
};

TEST_F(DoctorTest, FindsOnARealServerWhatItFindsInAFile) {
  const auto client = ApiServer::Shared().MakeClient();
  const fleet::Cluster cluster = Read(*client);
  EXPECT_TRUE(cluster.unread.empty());
  EXPECT_TRUE(cluster.served_fields.has_value());
  const fleet::Report report = fleet::MakeReport(cluster);
  ASSERT_EQ(report.nodes.size(), 1U);
  // There is no policy, which comes first.
  EXPECT_EQ(report.nodes[0].broken->id, "policy-missing");
  EXPECT_THAT(Ids(report.pods), ElementsAre("more-gpus-than-a-node-has"));
  EXPECT_THAT(Ids(report.cluster), ElementsAre("no-policy", "operator-not-running"));
  EXPECT_FALSE(report.all_ready());
}

// KubeVirt is looked at only where nodes are for virtual machines.
TEST_F(DoctorTest, ReadsVirtualMachinesWhereThereAreSome) {
  const auto client = ApiServer::Shared().MakeClient();
  const auto defined = pitcrew::testing::DefineKubeVirt(*client);
  ASSERT_TRUE(defined) << defined.error().ToString();
  const Json gpus = Json::array({{{"name", "gpu"}, {"deviceName", "nvidia.com/GA102GL_A10"}}});
  const Json machine = {{"metadata", {{"name", "win"}, {"namespace", "team"}}},
                        {"spec", {{"domain", {{"devices", {{"gpus", gpus}}}}}}}};
  const auto instance = client->Create(kubevirt::kInstances, machine, kWriter);
  ASSERT_TRUE(instance) << instance.error().ToString();
  ASSERT_TRUE(client->Create(
      kubevirt::kKubeVirts,
      {{"metadata", {{"name", "kubevirt"}, {"namespace", "team"}}}, {"spec", Json::object()}},
      kWriter));
  EXPECT_TRUE(Read(*client).machines.empty());
  const auto policy = codec::ParseYaml(
      "{metadata: {name: vm}, spec: {daemonsets: {}, dcgm: {}, dcgmExporter: {}, devicePlugin: {}, "
      "driver: {}, gfd: {}, nodeStatusExporter: {}, operator: {}, toolkit: {}, "
      "sandboxWorkloads: {enabled: true}}}");
  ASSERT_TRUE(policy);
  const auto created = client->Create(desired::kClusterPolicies, *policy, kWriter);
  ASSERT_TRUE(created) << created.error().ToString();
  const auto cluster = Read(*client);
  EXPECT_TRUE(client->Delete(desired::kClusterPolicies, {.namespace_name = "", .name = "vm"}));
  EXPECT_TRUE(cluster.unread.empty());
  EXPECT_EQ(cluster.machines.size(), 1U);
  EXPECT_EQ(cluster.permissions.size(), 1U);
}

// To the API server it is running all the time; the kubelet's warning tells of it.
class CrashingPod {
 public:
  CrashingPod() {
    Json pod = WaitingPod("team", 1);
    pod["metadata"]["name"] = "crashing";
    pod["spec"]["nodeName"] = "gpu-a";
    const auto created = client_->Create(kube::kPods, pod, kWriter);
    EXPECT_TRUE(created) << created.error().ToString();
    SetState({{"waiting", {{"reason", "CrashLoopBackOff"}}}}, "False");
    const Json event = {
        {"metadata", {{"name", "crashing.1"}, {"namespace", "team"}}},
        {"involvedObject", {{"kind", "Pod"}, {"namespace", "team"}, {"name", "crashing"}}},
        {"type", "Warning"},
        {"reason", "BackOff"},
        {"message", "Back-off restarting failed container main"},
        {"lastTimestamp", "2026-01-05T12:00:00Z"}};
    const auto warned = client_->Create(kube::kEvents, event, kWriter);
    EXPECT_TRUE(warned) << warned.error().ToString();
  }
  ~CrashingPod() {
    EXPECT_TRUE(client_->Delete(kube::kEvents, {.namespace_name = "team", .name = "crashing.1"}));
    EXPECT_TRUE(client_->Delete(kube::kPods, kKey, {.grace_period_seconds = 0}));
  }
  CrashingPod(const CrashingPod&) = delete;
  CrashingPod& operator=(const CrashingPod&) = delete;

  void Recover() const { SetState({{"running", {{"startedAt", "2026-01-05T12:10:00Z"}}}}, "True"); }

 private:
  void SetState(const Json& state, const char* ready) const {
    const Json status = {
        {"status",
         {{"phase", "Running"},
          {"conditions", {{{"type", "Ready"}, {"status", ready}}}},
          {"containerStatuses",
           {{{"name", "main"},
             {"image", "train"},
             {"imageID", ""},
             {"ready", ready == std::string("True")},
             {"restartCount", 7},
             {"state", state},
             {"lastState", {{"terminated", {{"exitCode", 1}, {"reason", "Error"}}}}}}}}}}};
    const auto patched =
        client_->Patch(kube::kPods, kKey, kube::PatchType::kMerge, status, kStatusWriter);
    EXPECT_TRUE(patched) << patched.error().ToString();
  }

  inline static const kube::ObjectKey kKey{.namespace_name = "team", .name = "crashing"};
  std::shared_ptr<kube::Client> client_ = ApiServer::Shared().MakeClient();
};

TEST_F(DoctorTest, SeesAPodThatCrashesWhileItsPhaseIsRunning) {
  const CrashingPod pod;
  const fleet::Report report = fleet::MakeReport(Read(*ApiServer::Shared().MakeClient()));
  EXPECT_THAT(Ids(report.pods), ElementsAre("pod-crashes", "more-gpus-than-a-node-has"));
}

// Events outlive their pods: the newest one here is about a pod that is gone.
TEST_F(DoctorTest, APodThatIsGoneKeepsNoOtherFromBeingRead) {
  const CrashingPod pod;
  const auto client = ApiServer::Shared().MakeClient();
  const Json event = {
      {"metadata", {{"name", "gone.1"}, {"namespace", "team"}}},
      {"involvedObject", {{"kind", "Pod"}, {"namespace", "team"}, {"name", "gone"}}},
      {"type", "Warning"},
      {"reason", "BackOff"},
      {"message", "Back-off restarting failed container main"},
      {"lastTimestamp", "2026-01-05T12:30:00Z"}};
  ASSERT_TRUE(client->Create(kube::kEvents, event, kWriter));
  const fleet::Report report = fleet::MakeReport(Read(*client));
  EXPECT_TRUE(client->Delete(kube::kEvents, {.namespace_name = "team", .name = "gone.1"}));
  EXPECT_THAT(Ids(report.pods), ElementsAre("pod-crashes", "more-gpus-than-a-node-has"));
}

// Nobody has written features of these nodes: that is an answer, too.
TEST_F(DoctorTest, ReadsFeaturesOfTheNodesThatAreAskedForAndOfNoneTwice) {
  const auto client = ApiServer::Shared().MakeClient();
  fleet::Cluster cluster;
  cluster.name_space = "gpu-operator";
  cluster.features["b"].gpus = 7;
  fleet::Wanted wanted;
  wanted.features = {"a", "b", "c"};
  ASSERT_TRUE(ReadWanted(*client, wanted, cluster, {}));
  EXPECT_EQ(cluster.features["b"].gpus, 7) << "read again";
  EXPECT_TRUE(cluster.features.contains("a"));
  EXPECT_TRUE(cluster.features.contains("c"));
  for (int i = 0; i < 100; ++i) wanted.features.insert(fmt::format("node-{}", i));
  ASSERT_TRUE(ReadWanted(*client, wanted, cluster, {}));
  EXPECT_EQ(cluster.features.size(), 3 + 60U) << "a few dozen at a time";
}

// "Unknown is not absent": a user who may read nothing is told so, and nothing is guessed.
TEST_F(DoctorTest, SaysWhatItMayNotRead) {
  ApiServer& server = ApiServer::Shared();
  kube::Config config = server.config();
  config.credentials = kube::StaticCredentials({.bearer_token = server.stranger_token()});
  const auto client = kube::Client::Create(std::move(config));
  ASSERT_TRUE(client);
  const fleet::Cluster cluster = Read(**client);
  for (const Kind kind : {Kind::kPolicies, Kind::kNodes, Kind::kOperandPods, Kind::kDaemonSets,
                          Kind::kUserPods, Kind::kEvents, Kind::kRuntimeClasses}) {
    EXPECT_FALSE(cluster.has_read(kind)) << fleet::ToString(kind, "gpu-operator");
  }
  const fleet::Report report = fleet::MakeReport(cluster);
  EXPECT_THAT(Ids(report.cluster), ElementsAre());
  EXPECT_FALSE(report.is_broken());
  EXPECT_FALSE(report.all_ready());
  EXPECT_FALSE(report.unread.empty());
  for (const auto& unread : report.unread) EXPECT_THAT(unread.reason, HasSubstr("forbidden"));
}

TEST_F(DoctorTest, AServerThatIsNotThereIsAnError) {
  kube::Config config = ApiServer::Shared().config("https://127.0.0.1:1");
  kube::ClientOptions options;
  options.limits.retry.attempts = 1;
  const auto client = kube::Client::Create(std::move(config), options);
  ASSERT_TRUE(client);
  const auto cluster = ReadLive(**client, "gpu-operator", {});
  ASSERT_FALSE(cluster);
  EXPECT_EQ(cluster.error().code, base::Code::kUnavailable);
}

// Collects what Follow shows, and waits for a picture that satisfies a condition.
class Watcher {
 public:
  explicit Watcher(const fleet::Cluster& first)
      : thread_([this, first] {
          const auto followed = Follow(
              ApiServer::Shared().MakeClient(), first,
              [this](const fleet::Cluster& cluster) {
                const std::lock_guard lock(mutex_);
                last_ = fleet::MakeReport(cluster);
                seen_.notify_all();
              },
              source_.token());
          EXPECT_TRUE(followed || followed.error().code == base::Code::kCancelled);
        }) {}
  ~Watcher() {
    source_.Stop();
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  bool Await(const std::function<bool(const fleet::Report&)>& condition) {
    std::unique_lock lock(mutex_);
    return seen_.wait_for(lock, test_support::kPatience,
                          [&] { return last_ && condition(*last_); });
  }

 private:
  io::StopSource source_;
  std::mutex mutex_;
  std::condition_variable seen_;
  std::optional<fleet::Report> last_;
  std::thread thread_;
};

TEST_F(DoctorTest, FollowsChangesByWatches) {
  const auto client = ApiServer::Shared().MakeClient();
  const auto first = ReadLive(*client, "gpu-operator", {}, Extent::kFirst);
  ASSERT_TRUE(first) << first.error().ToString();
  Watcher watcher(*first);
  const auto node = [](const fleet::Report& report, const std::string& name) {
    const auto found = std::ranges::find(report.nodes, name, &fleet::NodeReport::name);
    return found == report.nodes.end() ? std::string("none")
           : found->broken             ? found->broken->id
                                       : std::string("ready");
  };
  EXPECT_TRUE(watcher.Await([&](const auto& report) { return node(report, "gpu-w") == "none"; }));
  ASSERT_TRUE(client->Create(kube::kNodes, GpuNode("gpu-w"), kWriter));
  EXPECT_TRUE(
      watcher.Await([&](const auto& report) { return node(report, "gpu-w") == "policy-missing"; }));
  Json policy = {{"metadata", {{"name", "cluster-policy"}}}};
  for (const char* block : {"operator", "daemonsets", "driver", "toolkit", "devicePlugin", "dcgm",
                            "dcgmExporter", "nodeStatusExporter", "gfd"}) {
    policy["spec"][block] = Json::object();  // those that the schema requires
  }
  const auto created = client->Create(desired::kClusterPolicies, policy, kWriter);
  ASSERT_TRUE(created) << created.error().ToString();
  EXPECT_TRUE(watcher.Await(
      [&](const auto& report) { return node(report, "gpu-w") == "operands-disabled"; }));
  ASSERT_TRUE(
      client->Delete(desired::kClusterPolicies, {.namespace_name = "", .name = "cluster-policy"}));
  ASSERT_TRUE(client->Delete(kube::kNodes, {.namespace_name = "", .name = "gpu-w"}));
  EXPECT_TRUE(watcher.Await([&](const auto& report) { return node(report, "gpu-w") == "none"; }));
}

// KubeVirt may come later, and is looked at only while nodes are for virtual machines.
TEST_F(DoctorTest, FollowsVirtualMachinesThatWait) {
  const auto client = ApiServer::Shared().MakeClient();
  const auto first = ReadLive(*client, "gpu-operator", {}, Extent::kFirst);
  ASSERT_TRUE(first) << first.error().ToString();
  Watcher watcher(*first);
  const auto refused = [](const fleet::Report& report) {
    const auto ids = Ids(report.pods);
    return std::ranges::find(ids, "machine-gpu-not-permitted") != ids.end();
  };
  const auto policy = codec::ParseYaml(
      "{metadata: {name: vm}, spec: {daemonsets: {}, dcgm: {}, dcgmExporter: {}, devicePlugin: {}, "
      "driver: {}, gfd: {}, nodeStatusExporter: {}, operator: {}, toolkit: {}, "
      "sandboxWorkloads: {enabled: true}}}");
  ASSERT_TRUE(policy);
  ASSERT_TRUE(client->Create(desired::kClusterPolicies, *policy, kWriter));
  const auto defined = pitcrew::testing::DefineKubeVirt(*client);
  ASSERT_TRUE(defined) << defined.error().ToString();
  const kube::ObjectKey key{.namespace_name = "team", .name = "waits"};
  constexpr const char* kMachine = R"(
metadata: {name: waits, namespace: team}
spec: {domain: {devices: {gpus: [{name: gpu, deviceName: nvidia.com/GA102GL_A10}]}}}
)";
  constexpr const char* kRefused = R"(
status:
  phase: Pending
  conditions:
  - type: Synchronized
    status: "False"
    reason: FailedCreate
    message: GPU nvidia.com/GA102GL_A10 is not permitted in permittedHostDevices configuration
)";
  const auto refuse = [&] {  // as virt-controller does
    ASSERT_TRUE(client->Create(kubevirt::kInstances, *codec::ParseYaml(kMachine), kWriter));
    const auto told = client->Patch(kubevirt::kInstances, key, kube::PatchType::kMerge,
                                    *codec::ParseYaml(kRefused), kStatusWriter);
    ASSERT_TRUE(told) << told.error().ToString();
  };
  refuse();
  EXPECT_TRUE(watcher.Await(refused));
  ASSERT_TRUE(client->Delete(kubevirt::kInstances, key));
  EXPECT_TRUE(watcher.Await([&](const auto& report) { return !refused(report); }));
  refuse();
  EXPECT_TRUE(watcher.Await(refused));
  // Containers only, from now on.
  EXPECT_TRUE(client->Delete(desired::kClusterPolicies, {.namespace_name = "", .name = "vm"}));
  EXPECT_TRUE(watcher.Await([&](const auto& report) { return !refused(report); }));
  EXPECT_TRUE(client->Delete(kubevirt::kInstances, key));
}

TEST_F(DoctorTest, FollowsAPodThatCrashesUntilItRuns) {
  const auto client = ApiServer::Shared().MakeClient();
  const auto first = ReadLive(*client, "gpu-operator", {}, Extent::kFirst);
  ASSERT_TRUE(first) << first.error().ToString();
  Watcher watcher(*first);
  const auto crashes = [](const fleet::Report& report) {
    const auto ids = Ids(report.pods);
    return std::ranges::find(ids, "pod-crashes") != ids.end();
  };
  EXPECT_TRUE(watcher.Await([&](const auto& report) { return !crashes(report); }));
  const CrashingPod pod;
  EXPECT_TRUE(watcher.Await(crashes));
  pod.Recover();  // no event tells of that
  EXPECT_TRUE(watcher.Await([&](const auto& report) { return !crashes(report); }));
}

}  // namespace
}  // namespace pitcrew::doctor
