// Facts about the cluster that change while the operator runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "desired/pod.h"
#include "loopback/scripted_server.h"
#include "operator/policy/live_facts.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kToolkitLabel = "nvidia.com/gpu.deploy.container-toolkit";

// Better than operator-behaviour.md section 21 ("Runtime detection assumes one runtime per
// cluster"): a node of another runtime gets a toolkit of its own, and the one that runs is not
// touched.
TEST_F(OperatorTest, NodesOfAnotherRuntimeGetTheirOwnToolkit) {
  CreateGpuNode("gpu-1", "cri-o://1.33.0");
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  const ObjectKey main = Own("nvidia-container-toolkit-daemonset");
  const ObjectKey other = Own("nvidia-container-toolkit-daemonset-containerd");
  const auto version = [&] {
    const auto object = client_->Get(kube::kDaemonSets, main);
    return object ? codec::FindString(*object, {"metadata", "uid"}) + " " +
                        codec::Find(*object, {"metadata", "generation"})->dump()
                  : "(none)";
  };
  const std::string before = version();
  EXPECT_EQ(Label("gpu-1", kToolkitLabel), "true");
  EXPECT_FALSE(Exists(kube::kDaemonSets, other));

  CreateGpuNode("gpu-2", "containerd://2.2.0");
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kDaemonSets, other); }));
  EXPECT_TRUE(Eventually([&] { return Label("gpu-2", kToolkitLabel) == "containerd"; }));
  EXPECT_TRUE(ReachesReady("cluster-policy"));
  EXPECT_EQ(version(), before);
  EXPECT_EQ(Label("gpu-1", kToolkitLabel), "true");

  ASSERT_TRUE(client_->Delete(kube::kNodes, Cluster("gpu-2")));
  EXPECT_TRUE(Eventually([&] { return !Exists(kube::kDaemonSets, other); }));
  EXPECT_EQ(version(), before);
}

// "No Secret watch exists" (operator-behaviour.md section 21): a Secret that the policy names is
// watched by its name, for as long as it is named.
TEST_F(OperatorTest, ReferencedSecretIsWaitedFor) {
  CreateGpuNode("gpu-1");
  CreatePolicy("cluster-policy", "{driver: {secretEnv: license}}");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "DriverReady").starts_with("False SecretMissing");
  }));
  EXPECT_THAT(Condition("cluster-policy", "DriverReady"), HasSubstr("spec.driver.secretEnv"));
  const ObjectKey driver = Own("nvidia-driver-daemonset");
  EXPECT_FALSE(Exists(kube::kDaemonSets, driver));
  const auto reads = running.requests("get");
  Create(kube::kSecrets, {{"metadata", {{"name", "license"}, {"namespace", name_space_}}},
                          {"stringData", {{"TOKEN", "x"}}}});
  ASSERT_TRUE(Eventually([&] { return Exists(kube::kDaemonSets, driver); }));
  // Nobody asked for it again and again.
  EXPECT_EQ(running.requests("get"), reads);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  // What runs is left alone when the Secret goes; the condition says so.
  ASSERT_TRUE(client_->Delete(kube::kSecrets, Own("license")));
  EXPECT_TRUE(Eventually([&] {
    return Condition("cluster-policy", "DriverReady").starts_with("False SecretMissing");
  }));
  EXPECT_TRUE(Exists(kube::kDaemonSets, driver));
  MergeSpec("cluster-policy", "{driver: {secretEnv: null}}");
  EXPECT_TRUE(ReachesReady("cluster-policy"));
}

// "Digest ignores ConfigMap/Secret content" (driver-lifecycle.md section 12 #21): here other
// parameters of the modules are another driver, and remain so for the next operator; other
// repositories, which no running driver reads, change nothing.
TEST_F(OperatorTest, OtherParametersOfModulesAreAnotherDriver) {
  CreateGpuNode("gpu-1");
  for (const char* name : {"parameters", "repositories"}) {
    Create(kube::kConfigMaps, {{"metadata", {{"name", name}, {"namespace", name_space_}}},
                               {"data", {{"a.conf", "one"}}}});
  }
  const auto say = [&](const char* config_map, const char* text) {
    Merge(kube::kConfigMaps, Own(config_map), {{"data", {{"a.conf", text}}}});
  };
  const auto standing = [&] {  // digest and generation
    const auto object = client_->Get(kube::kDaemonSets, Own("nvidia-driver-daemonset"));
    if (!object) return std::pair<std::string, std::int64_t>("(none)", 0);
    return std::pair(desired::FindEnv(desired::testing::ContainerOf(*object, "nvidia-driver-ctr"),
                                      "DRIVER_CONFIG_DIGEST")
                         .value_or(""),
                     codec::Find(*object, {"metadata", "generation"})->get<std::int64_t>());
  };
  CreatePolicy("cluster-policy",
               "{driver: {kernelModuleConfig: {name: parameters}, repoConfig: {configMapName: "
               "repositories}}}");
  std::pair<std::string, std::int64_t> changed;
  {
    const RunningOperator running(name_space_);
    ASSERT_TRUE(ReachesReady("cluster-policy"));
    const auto first = standing();
    say("repositories", "two");
    say("parameters", "two");
    ASSERT_TRUE(Eventually([&] { return standing().first != first.first; }));
    changed = standing();
    EXPECT_EQ(changed.second, first.second + 1);
    ASSERT_TRUE(ReachesReady("cluster-policy"));
  }
  // While nobody looks, too.
  say("repositories", "three");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("cluster-policy"));
  say("parameters", "three");
  ASSERT_TRUE(Eventually([&] { return standing().first != changed.first; }));
  EXPECT_EQ(standing().second, changed.second + 1);
}

// "Kubernetes versions are fixed for the process lifetime" (operator-behaviour.md section 21): here
// the version is read again when a server answers anew, and what was read stands while it cannot
// be.
TEST(LiveFactsTest, ServersVersionIsReadAgainWhenAServerAnswersAnew) {
  std::mutex mutex;
  std::string version;  // "": the server is in trouble
  auto server = pitcrew::testing::ScriptedServer::Start(
      [&](const auto& request, auto& reply, const io::StopToken&) {
        const std::lock_guard lock(mutex);
        if (request.path != "/version" || version.empty()) {
          reply.Send(500, "{}");
        } else {
          reply.Send(200, Json{{"major", "1"}, {"minor", "35"}, {"gitVersion", version}}.dump());
        }
      });
  ASSERT_TRUE(server);
  const auto client = kube::Client::Create({.server = (*server)->url()});
  ASSERT_TRUE(client);
  World world(*client, "gpu-operator",
              {.kubernetes_version = "v1.34.0", .openshift_version = "", .kinds = {}});
  LiveFacts facts(world, [] {});
  const auto gathered = [&] {
    const auto result = facts.Gather({}, {});
    return result ? result->kubernetes_version : result.error().message;
  };
  const auto set = [&](const std::string& now) {
    const std::lock_guard lock(mutex);
    version = now;
  };
  EXPECT_EQ(gathered(), "v1.34.0");
  EXPECT_EQ((*server)->requests().size(), 0U);
  facts.ServerMayHaveChanged();
  EXPECT_EQ(gathered(), "v1.34.0");
  set("v1.35.4");
  EXPECT_EQ(gathered(), "v1.35.4");
  const std::size_t asked = (*server)->requests().size();
  EXPECT_EQ(gathered(), "v1.35.4");
  EXPECT_EQ((*server)->requests().size(), asked);
}

// What goes by a label of the nodes needs it to be kept: a world that does not keep it says so, and
// whom to ask for another one.
TEST(WorldTest, LabelsOfSelectorsAreKeptOnDemand) {
  const auto client = kube::Client::Create({.server = "http://127.0.0.1:1"});
  ASSERT_TRUE(client);
  const desired::LabelKeys pool = {"example.com/pool"};
  World world(*client, "gpu-operator", {});
  desired::LabelKeys wanted;
  world.node_labels_wanted = [&](desired::LabelKeys keys) { wanted = std::move(keys); };
  const auto refused = world.KeepNodeLabels(pool);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "NodeLabelsNotRead");
  EXPECT_EQ(wanted, pool);

  const World with(*client, "gpu-operator", {}, desired::Operands(), wanted);
  EXPECT_TRUE(with.KeepNodeLabels(pool));
  EXPECT_TRUE(world.KeepNodeLabels({"nvidia.com/gpu.present"}));
}

// OpenShift's objects, as operator-behaviour.md section 13.1 reads them, but when they change
// rather than in every pass.
class OpenShiftTest : public OperatorTest {
 protected:
  static Json Definition(const kube::ResourceKind& kind) {
    return {{"metadata", {{"name", std::string(kind.plural) + "." + std::string(kind.group)}}},
            {"spec",
             {{"group", kind.group},
              {"scope", kind.namespaced ? "Namespaced" : "Cluster"},
              {"names", {{"plural", kind.plural}, {"kind", kind.kind}}},
              {"versions",
               {{{"name", kind.version},
                 {"served", true},
                 {"storage", true},
                 {"schema",
                  {{"openAPIV3Schema",
                    {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}}}}}}};
  }
  static constexpr kube::ResourceKind kConstraints{"security.openshift.io", "v1",
                                                   "securitycontextconstraints",
                                                   "SecurityContextConstraints", false};
  static constexpr const kube::ResourceKind* kKinds[] = {
      &desired::kClusterVersions, &desired::kProxies, &desired::kImageStreams, &kConstraints};

  void SetUp() override {
    OperatorTest::SetUp();
    for (const kube::ResourceKind* kind : kKinds) {
      Create(kube::kCustomResourceDefinitions, Definition(*kind));
    }
    ASSERT_TRUE(Eventually([&] {
      return std::ranges::all_of(kKinds, [&](const kube::ResourceKind* kind) {
        return client_->List(*kind, "").has_value();
      });
    }));
    Create(desired::kClusterVersions,
           {{"metadata", {{"name", "version"}}},
            {"status", {{"history", {{{"state", "Completed"}, {"version", "4.18.3"}}}}}}});
    Create(desired::kProxies, {{"metadata", {{"name", "cluster"}}},
                               {"spec", {{"httpsProxy", "http://proxy.one:3128"}}}});
    if (!Exists(kube::kNamespaces, Cluster("openshift"))) {
      Create(kube::kNamespaces, {{"metadata", {{"name", "openshift"}}}});
    }
  }
  void TearDown() override {
    for (const kube::ResourceKind* kind : kKinds) {
      EXPECT_TRUE(
          client_->Delete(kube::kCustomResourceDefinitions,
                          Cluster(std::string(kind->plural) + "." + std::string(kind->group))));
    }
    ASSERT_TRUE(Eventually([&] {
      return std::ranges::none_of(kKinds, [&](const kube::ResourceKind* kind) {
        return client_->Serves(*kind).value_or(true);
      });
    }));
    OperatorTest::TearDown();
  }
  [[nodiscard]] std::string DriverImage(const std::string& daemonset) const {
    const auto object = client_->Get(kube::kDaemonSets, Own(daemonset));
    return object ? codec::FindString(
                        desired::testing::ContainerOf(*object, "openshift-driver-toolkit-ctr"),
                        {"image"})
                  : "(no DaemonSet)";
  }
};

TEST_F(OpenShiftTest, ItsObjectsAreWatched) {
  CreateGpuNode("gpu-1", "cri-o://1.33.0");
  Merge(kube::kNodes, Cluster("gpu-1"),
        {{"metadata",
          {{"labels",
            {{"feature.node.kubernetes.io/system-os_release.ID", "rhcos"},
             {"feature.node.kubernetes.io/system-os_release.VERSION_ID", "4.18"},
             {"feature.node.kubernetes.io/system-os_release.OSTREE_VERSION", "418.1"}}}}}});
  CreatePolicy("cluster-policy");
  const RunningOperator running(name_space_);
  const auto https_proxy = [&](const std::string& daemonset) {
    const auto object = client_->Get(kube::kDaemonSets, Own(daemonset));
    if (!object) return std::string("(no DaemonSet)");
    for (const std::string& variable :
         desired::testing::EnvOf(desired::testing::ContainerOf(*object, "nvidia-driver-ctr"))) {
      if (variable.starts_with("HTTPS_PROXY=")) return variable.substr(12);
    }
    return std::string("(none)");
  };
  ASSERT_TRUE(Eventually(
      [&] { return https_proxy("nvidia-driver-daemonset") == "http://proxy.one:3128"; }));
  EXPECT_EQ(running.Value("gpu_operator_openshift_driver_toolkit_enabled"), -1);
  EXPECT_EQ(running.Value("gpu_operator_openshift_driver_toolkit_imagestream_missing"), 1);
  EXPECT_EQ(Label("gpu-1", kToolkitLabel), "true");

  Merge(desired::kProxies, Cluster("cluster"),
        {{"spec", {{"httpsProxy", "http://proxy.two:3128"}}}});
  EXPECT_TRUE(Eventually(
      [&] { return https_proxy("nvidia-driver-daemonset") == "http://proxy.two:3128"; }));
  const auto reads = running.requests("get");
  Create(desired::kImageStreams,
         {{"metadata", {{"name", "driver-toolkit"}, {"namespace", "openshift"}}},
          {"spec",
           {{"tags", {{{"name", "418.1"}, {"from", {{"name", "registry.test/toolkit:1"}}}}}}}}});
  EXPECT_TRUE(Eventually(
      [&] { return DriverImage("nvidia-driver-daemonset-418.1") == "registry.test/toolkit:1"; }));
  EXPECT_TRUE(Eventually(
      [&] { return running.Value("gpu_operator_openshift_driver_toolkit_enabled") == 1; }));
  // The DaemonSet of before is read once more before it goes, for its pods; nothing of OpenShift's
  // is.
  EXPECT_LE(running.requests("get"), reads + 1);
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
