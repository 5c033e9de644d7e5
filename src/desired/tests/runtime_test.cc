// Mixed clusters: which runtime keeps upstream's DaemonSet, and which toolkit each node gets.
#include "desired/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "codec/json.h"
#include "codec/yaml.h"
#include "desired/node_labels.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using enum Runtime;
using ::testing::ElementsAre;

TEST(ContainerRuntime, OfANode) {
  RecordProperty("holds", "operator-behaviour.md #15 [TestGetRuntimeString]");
  EXPECT_EQ(RuntimeOf("containerd://2.2.0"), kContainerd);
  EXPECT_EQ(RuntimeOf("docker://28.2.0"), kDocker);
  EXPECT_EQ(RuntimeOf("cri-o://1.33.0"), kCrio);
  const auto unknown = RuntimeOf("unknown://1.0.0");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().reason, "UnknownContainerRuntime");
}

// operator-behaviour.md section 4.1 where nothing stands; better: the most common one instead of
// the last that was seen.
TEST(ContainerRuntime, MainOneOfAFreshCluster) {
  EXPECT_EQ(MainRuntime({}, {}), kContainerd);
  EXPECT_EQ(MainRuntime({{kCrio, 5}}, {}), kCrio);
  EXPECT_EQ(MainRuntime({{kContainerd, 1}, {kCrio, 5}}, {}), kContainerd);
  EXPECT_EQ(MainRuntime({{kCrio, 2}, {kDocker, 3}}, {}), kDocker);
  EXPECT_EQ(MainRuntime({{kCrio, 3}, {kDocker, 3}}, {}), kCrio);
}

// A running toolkit is neither renamed nor changed because nodes come and go.
TEST(ContainerRuntime, MainOneStays) {
  const StandingToolkits crio{.main = kCrio, .others = {}};
  EXPECT_EQ(MainRuntime({{kCrio, 1}, {kContainerd, 9}}, crio), kCrio);
  EXPECT_EQ(MainRuntime({}, crio), kCrio);
  // Its last node has gone, and the others have their own DaemonSet: they keep it.
  EXPECT_EQ(MainRuntime({{kContainerd, 9}}, {.main = kCrio, .others = {kContainerd}}), kCrio);
  // Nothing runs that could be disturbed: upstream's rule.
  EXPECT_EQ(MainRuntime({{kContainerd, 9}}, crio), kContainerd);
  EXPECT_EQ(MainRuntime({{kContainerd, 9}}, {.main = kCrio, .others = {kDocker}}), kContainerd);
}

TEST(ContainerRuntime, ToolkitsThatStand) {
  const codec::Json daemonset = testing::RenderDaemonSet("state-container-toolkit", "{}");
  EXPECT_EQ(ToolkitRuntimeOf(daemonset), kContainerd);
  EXPECT_EQ(ToolkitRuntimeOf(testing::RenderDaemonSet("state-device-plugin", "{}")), std::nullopt);
  StandingToolkits standing;
  AddStandingToolkit(standing, "nvidia-container-toolkit-daemonset", kContainerd);
  AddStandingToolkit(standing, "nvidia-container-toolkit-daemonset-crio", kCrio);
  AddStandingToolkit(standing, "nvidia-container-toolkit-daemonset-mine", kDocker);
  EXPECT_EQ(standing, (StandingToolkits{.main = kContainerd, .others = {kCrio}}));
}

TEST(ContainerRuntime, OpenShiftHasOne) {
  Facts facts;
  facts.runtimes = {{kContainerd, 3}, {kCrio, 1}};
  EXPECT_THAT(facts.toolkit_runtimes(), ElementsAre(kContainerd, kCrio));
  facts.openshift_version = "4.18";
  EXPECT_THAT(facts.toolkit_runtimes(), ElementsAre(kCrio));
}

// The value of a node's label gpu.deploy.container-toolkit, "" when it is left as it is.
std::string ToolkitLabel(const std::string& runtime, const std::string& before,
                         std::optional<Runtime> main) {
  codec::Json labels = {{"feature.node.kubernetes.io/pci-10de.present", "true"},
                        {"nvidia.com/gpu.present", "true"}};
  constexpr const char* kKey = "nvidia.com/gpu.deploy.container-toolkit";
  if (!before.empty()) labels[kKey] = before;
  const auto node =
      ReadNode({{"metadata", {{"name", "n"}, {"labels", labels}}},
                {"status", {{"nodeInfo", {{"containerRuntimeVersion", runtime + "://1"}}}}}});
  NodePolicy policy;
  policy.main_runtime = main;
  const NodeDecision decision = DecideNode(*node, policy);
  const auto written = decision.labels.find(kKey);
  return written == decision.labels.end() ? "" : written->second.value_or("(removed)");
}

TEST(ContainerRuntime, LabelOfANodeNamesItsToolkit) {
  EXPECT_EQ(ToolkitLabel("containerd", "", kContainerd), "true");
  EXPECT_EQ(ToolkitLabel("cri-o", "", kContainerd), "crio");
  EXPECT_EQ(ToolkitLabel("cri-o", "true", kContainerd), "crio");
  EXPECT_EQ(ToolkitLabel("cri-o", "crio", kContainerd), "");
  EXPECT_EQ(ToolkitLabel("cri-o", "crio", kCrio), "true");
  EXPECT_EQ(ToolkitLabel("containerd", "docker", kContainerd), "true");
  // OpenShift, or no toolkit: as upstream.
  EXPECT_EQ(ToolkitLabel("cri-o", "", std::nullopt), "true");
  EXPECT_EQ(ToolkitLabel("podman", "", kContainerd), "true");
  // A person's values and the driver manager's stay (operator-behaviour.md #29).
  for (const char* kept :
       {"false", "paused-for-driver-upgrade", "crio_paused-for-driver-upgrade"}) {
    EXPECT_EQ(ToolkitLabel("cri-o", kept, kContainerd), "") << kept;
  }
}

// The label of each node is what the one DaemonSet selects that is for its engine.
TEST(ContainerRuntime, EachEngineOfAClusterHasItsToolkit) {
  RecordProperty("holds", "runtimes-and-distributions.md #39");
  codec::Json cluster = testing::PlainCluster();
  codec::ApplyMergePatch(cluster, *codec::ParseYaml(R"(
nodes:
- metadata: {name: a, labels: {nvidia.com/gpu.present: "true"}}
  status: {nodeInfo: {containerRuntimeVersion: "containerd://2.2.0"}}
- metadata: {name: b, labels: {nvidia.com/gpu.present: "true"}}
  status: {nodeInfo: {containerRuntimeVersion: "cri-o://1.34.0"}}
)"));
  const codec::Json objects = testing::RenderState(testing::MinimalPolicy(codec::Json::object()),
                                                   cluster, "state-container-toolkit");
  std::map<std::string, Runtime> toolkits;  // what the label of a node says -> engine
  for (const auto& object : objects) {
    if (codec::FindString(object, {"kind"}) != "DaemonSet") continue;
    const auto runtime = ToolkitRuntimeOf(object);
    ASSERT_TRUE(runtime);
    toolkits[codec::FindString(object, {"spec", "template", "spec", "nodeSelector",
                                        "nvidia.com/gpu.deploy.container-toolkit"})] = *runtime;
  }
  EXPECT_EQ(toolkits, (std::map<std::string, Runtime>{
                          {ToolkitLabel("containerd", "", kContainerd), kContainerd},
                          {ToolkitLabel("cri-o", "", kContainerd), kCrio}}));
}

TEST(ContainerRuntime, LabelDoesNotNameARuntimeWithoutToolkit) {
  const auto policy = [](const char* spec) {
    return *api::ReadClusterPolicy(testing::MinimalPolicy(codec::Json::parse(spec)));
  };
  EXPECT_EQ(NodePolicyOf(policy("{}"), kCrio).main_runtime, kCrio);
  EXPECT_EQ(NodePolicyOf(policy(R"({"toolkit": {"enabled": false}})"), kCrio).main_runtime,
            std::nullopt);
}

}  // namespace
}  // namespace pitcrew::desired
