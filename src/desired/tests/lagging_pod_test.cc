// What is said about a pod that is behind, from the statuses that kubelets and schedulers write.
#include "desired/lagging_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "desired/operand_report.h"

namespace pitcrew::desired {
namespace {

using ::testing::HasSubstr;

std::optional<LaggingPod> Read(const std::string& yaml) {
  codec::Json pod = *codec::ParseYaml(yaml);
  pod["metadata"]["name"] = "pod-1";
  return ReadLaggingPod(pod);
}
std::string Why(const std::string& yaml) {
  const auto lagging = Read(yaml);
  return lagging ? lagging->why : "(ready)";
}

TEST(LaggingPods, ReadyPodsAreNotBehind) {
  EXPECT_FALSE(Read("{status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}"));
  EXPECT_EQ(Why("{metadata: {deletionTimestamp: 2026-01-01T00:00:00Z},"
                " status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}"),
            "it is being deleted");
}

TEST(LaggingPods, NodeIsKnownBeforeThePodIsScheduled) {
  const auto lagging = Read(R"(
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchFields: [{key: metadata.name, operator: In, values: [gpu-7]}]
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: Insufficient cpu}]
)");
  ASSERT_TRUE(lagging);
  EXPECT_EQ(lagging->name, "pod-1");
  EXPECT_EQ(lagging->node, "gpu-7");
  EXPECT_EQ(lagging->why, "Unschedulable: Insufficient cpu");
  EXPECT_EQ(Read("{spec: {nodeName: gpu-8}, status: {phase: Pending}}")->node, "gpu-8");
}

TEST(LaggingPods, FirstContainerThatHoldsItUp) {
  EXPECT_EQ(Why("{status: {phase: Pending}}"), "the kubelet has not started it yet");
  EXPECT_EQ(Why(R"({status: {phase: Pending, initContainerStatuses: [
      {name: a, state: {terminated: {exitCode: 0}}}, {name: driver-validation, state: {running: {}}}],
      containerStatuses: [{name: c, ready: false, state: {waiting: {reason: PodInitializing}}}]}})"),
            "init container driver-validation: has not finished yet");
  EXPECT_EQ(Why(R"({status: {phase: Pending, containerStatuses: [{name: c, ready: false,
      state: {waiting: {reason: ImagePullBackOff, message: Back-off pulling image x}}}]}})"),
            "container c: ImagePullBackOff: Back-off pulling image x");
  EXPECT_EQ(Why(R"({status: {phase: Running, containerStatuses: [
      {name: fine, ready: true}, {name: c, ready: false, state: {waiting: {reason: CrashLoopBackOff}},
       lastState: {terminated: {exitCode: 7}}}]}})"),
            "container c: CrashLoopBackOff; it ended with exit code 7");
  EXPECT_EQ(Why(R"({status: {phase: Running, containerStatuses: [
      {name: c, ready: false, started: false, state: {running: {}}}]}})"),
            "container c: runs, and its startup probe has not succeeded yet");
  EXPECT_EQ(Why(R"({status: {phase: Running, containerStatuses: [
      {name: c, ready: false, started: true, state: {running: {}}}]}})"),
            "container c: runs, and is not ready yet");
  // A sidecar among the init containers never finishes.
  EXPECT_EQ(Why(R"({status: {phase: Running,
      initContainerStatuses: [{name: sidecar, ready: true, state: {running: {}}}],
      containerStatuses: [{name: c, ready: false, state: {terminated: {exitCode: 1}}}]}})"),
            "container c: ended with exit code 1");
  EXPECT_EQ(Why("{status: {phase: Failed, reason: Evicted, message: low on disk}}"),
            "Evicted: low on disk");
}

TEST(LaggingPods, LongTextsOfRuntimesAreCut) {
  const std::string why =
      Why("{status: {phase: Failed, reason: Error, message: " + std::string(5000, 'x') + "}}");
  EXPECT_LT(why.size(), 300U);
  EXPECT_TRUE(why.ends_with("..."));
}

TEST(Progress, NumbersAndTheNodeThatIsBehind) {
  DaemonSetProgress progress{.name = "nvidia-driver-daemonset"};
  EXPECT_EQ(Describe(progress, {}), "DaemonSet nvidia-driver-daemonset is being changed");
  progress.current = true;
  progress.status = {.generation = 2,
                     .observed_generation = 2,
                     .desired = 5,
                     .updated = 5,
                     .available = 3,
                     .unavailable = 2};
  EXPECT_EQ(Describe(progress, {}), "DaemonSet nvidia-driver-daemonset: 3 of 5 pods are ready");
  EXPECT_EQ(
      Describe(progress, LaggingPod{.name = "p", .node = "gpu-2", .why = "Evicted"}),
      "DaemonSet nvidia-driver-daemonset: 3 of 5 pods are ready; node gpu-2 is behind: pod p: "
      "Evicted");
  progress.status.updated = 4;
  EXPECT_THAT(Describe(progress, {}),
              HasSubstr("4 of 5 pods run the current version, 3 are ready"));
  progress.status.observed_generation = 1;
  EXPECT_THAT(Describe(progress, {}), HasSubstr("has just been changed"));
}

}  // namespace
}  // namespace pitcrew::desired
