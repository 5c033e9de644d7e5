// Reading of objects, and the rules of Kubernetes that findings rest on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "fleet/rules.h"

namespace pitcrew::fleet {
namespace {

codec::Json Yaml(std::string_view text) {
  auto value = codec::ParseYaml(text);
  EXPECT_TRUE(value) << value.error().ToString();
  return value ? *std::move(value) : codec::Json();
}

TEST(ViewsTest, OfNonsenseAreEmpty) {
  for (const char* text : {"{}", "[1]", "{metadata: 7, spec: x, status: [1]}",
                           "{status: {capacity: {nvidia.com/gpu: many}, conditions: {a: b}}}"}) {
    const auto object = Yaml(text);
    EXPECT_TRUE(ReadNode(object).capacity.empty());
    EXPECT_TRUE(ReadPod(object).requests.empty());
    EXPECT_EQ(ReadDaemonSet(object).desired, 0);
    EXPECT_EQ(ReadEvent(object).count, 1);
    EXPECT_FALSE(ReadPolicy(object).spec.problems.empty());
  }
}

TEST(ViewsTest, AmountsOfAllContainersAreAdded) {
  const Pod pod = ReadPod(Yaml(R"(
spec:
  containers:
  - resources: {limits: {nvidia.com/gpu: "2", cpu: "4"}, requests: {nvidia.com/gpu: 2}}
  - resources: {limits: {nvidia.com/gpu: 1}}
)"));
  ASSERT_EQ(pod.requests.size(), 1U);
  EXPECT_EQ(pod.requests.at("nvidia.com/gpu").limit, 3);
  EXPECT_EQ(pod.requests.at("nvidia.com/gpu").requested, 2);
}

// What is equal need not be shown again.
TEST(ViewsTest, AHeartbeatIsNotSeenAndALostGpuIs) {
  const auto node = [](std::string_view beat, std::string_view image, int gpus) {
    return ReadNode(Yaml(fmt::format(R"(
metadata: {{name: gpu-a, resourceVersion: "{0}"}}
status:
  conditions: [{{type: Ready, status: "True", lastHeartbeatTime: "2026-01-01T00:00:{0}Z"}}]
  images: [{{names: [{1}]}}]
  allocatable: {{nvidia.com/gpu: {2}}}
)",
                                     beat, image, gpus)));
  };
  EXPECT_EQ(node("01", "a", 8), node("02", "b", 8));
  EXPECT_NE(node("01", "a", 8), node("01", "a", 7));
}

TEST(TolerationTest, FollowsKubernetes) {
  const Taint taint{"team", "a", "NoSchedule"};
  EXPECT_TRUE((Toleration{"team", "Equal", "a", "NoSchedule"}.Tolerates(taint)));
  EXPECT_TRUE((Toleration{"team", "", "a", ""}.Tolerates(taint)));
  EXPECT_TRUE((Toleration{"team", "Exists", "", ""}.Tolerates(taint)));
  EXPECT_TRUE((Toleration{"", "Exists", "", ""}.Tolerates(taint)));
  EXPECT_FALSE((Toleration{"team", "", "b", ""}.Tolerates(taint)));
  EXPECT_FALSE((Toleration{"team", "Exists", "", "NoExecute"}.Tolerates(taint)));
  EXPECT_EQ(FirstUntolerated({{"soft", "", "PreferNoSchedule"}}, {}), nullptr);
}

// operator-behaviour.md section 4: the oldest, of equally old ones the first by name.
TEST(ClusterTest, KnowsTheActivePolicy) {
  Cluster cluster;
  for (const char* text : {"{metadata: {name: z, creationTimestamp: '2026-01-01T00:00:00Z'}}",
                           "{metadata: {name: b, creationTimestamp: '2026-01-01T00:00:00Z'}}",
                           "{metadata: {name: a, creationTimestamp: '2026-01-02T00:00:00Z'}}"}) {
    cluster.policies.push_back(ReadPolicy(Yaml(text)));
  }
  cluster.Index();
  EXPECT_EQ(cluster.active_policy()->name, "b");
}

// validator.md #27 and operator-behaviour.md section 7.4.
TEST(WorkloadTest, IsTheNodesOwnOrTheDefault) {
  RecordProperty("holds", "validator.md #27");
  RecordProperty("holds", "validator.md #27");
  api::ClusterPolicy policy;
  Node node;
  node.labels["nvidia.com/gpu.workload.config"] = "vm-passthrough";
  EXPECT_EQ(WorkloadOf(node, &policy), Workload::kContainer);
  policy.sandbox.enabled = true;
  policy.sandbox.default_workload = "vm-vgpu";
  EXPECT_EQ(WorkloadOf(node, &policy), Workload::kPassthrough);
  node.labels["nvidia.com/gpu.workload.config"] = "bogus";
  EXPECT_EQ(WorkloadOf(node, &policy), Workload::kVgpu);
}

TEST(OperandTest, IsKnownByItsDaemonSet) {
  EXPECT_EQ(OperandOf("nvidia-dcgm")->name, "DCGM");
  EXPECT_EQ(OperandOf("nvidia-dcgm-exporter")->name, "metrics exporter");
  // operator-behaviour.md section 5.3: one per kernel.
  EXPECT_EQ(OperandOf("nvidia-driver-daemonset-5.15.0-70-generic-ubuntu22.04")->name, "driver");
  // operator-behaviour.md #46: of an NVIDIADriver object.
  EXPECT_EQ(OperandOf("nvidia-gpu-driver-ubuntu20.04-67cc6dbb79")->name, "driver");
  EXPECT_EQ(OperandOf("nvidia-dcgmx"), nullptr);
}

TEST(LinesTest, KeepTheCauseThatStandsLast) {
  const std::string line = FirstLine(std::string(1000, 'x') + " dial tcp: timeout\nmore");
  EXPECT_LT(line.size(), 410U);
  EXPECT_TRUE(line.ends_with(" dial tcp: timeout"));
  EXPECT_EQ(ReadableLine("2026-01-05T11:58:00.065Z warn  unfit"), "warn  unfit");
  EXPECT_EQ(ReadableLine(R"({"msg":"waiting","reason":"NoDriver"})"), "waiting: NoDriver");
  EXPECT_EQ(LastLineOf("one\ntwo\n\n"), "two");
  EXPECT_EQ(LastLineOf(""), "");
}

}  // namespace
}  // namespace pitcrew::fleet
