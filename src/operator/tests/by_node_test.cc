// Which pods of drivers a node is asked about.
#include "operator/upgrade/by_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "driver_upgrade/pods.h"

namespace pitcrew::gpu_operator {
namespace {

using driver_upgrade::DriverPod;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using DriverPodsByNode = ByNode<DriverPod, &DriverPod::node>;

std::shared_ptr<const DriverPod> ReadPod(const std::string& text) {
  const auto object = codec::ParseYaml(text);
  EXPECT_TRUE(object) << object.error().ToString();
  return std::make_shared<const DriverPod>(*driver_upgrade::ReadDriverPod(*object));
}

kube::Change<DriverPod> ChangeOf(const std::shared_ptr<const DriverPod>& before,
                                 const std::shared_ptr<const DriverPod>& now) {
  const std::string name = now == nullptr ? before->name : now->name;
  return {.key = {.namespace_name = "gpu-operator", .name = name}, .before = before, .now = now};
}

TEST(DriverPodsByNode, WhatIsBoundToANodeIsTheNodes) {
  RecordProperty("holds", "driver-lifecycle.md #68");
  DriverPodsByNode pods;
  EXPECT_THAT(pods.Nodes(), IsEmpty());
  EXPECT_THAT(pods.Of("a"), IsEmpty());

  const auto running = ReadPod(
      "{metadata: {name: running, ownerReferences: [{kind: DaemonSet, uid: u}]}, "
      "spec: {nodeName: a}, status: {phase: Running}}");
  const auto orphaned =
      ReadPod("{metadata: {name: orphaned}, spec: {nodeName: b}, status: {phase: Running}}");
  // Pending: no node has it yet, though it may be meant for one.
  const auto waiting = ReadPod(
      "{metadata: {name: waiting, ownerReferences: [{kind: DaemonSet, uid: u}]}, "
      "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
      "{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [c]}]}]}}}}, "
      "status: {phase: Pending}}");
  for (const auto& pod : {running, orphaned, waiting}) pods.Apply(ChangeOf(nullptr, pod));
  EXPECT_THAT(pods.Nodes(), ElementsAre("a", "b"));
  EXPECT_THAT(pods.Of("a"), ElementsAre(running));
  EXPECT_THAT(pods.Of("b"), ElementsAre(orphaned));
  EXPECT_THAT(pods.Of("c"), IsEmpty());

  // It is bound, and another one goes.
  const auto bound = ReadPod("{metadata: {name: waiting}, spec: {nodeName: c}}");
  pods.Apply(ChangeOf(waiting, bound));
  pods.Apply(ChangeOf(running, nullptr));
  EXPECT_THAT(pods.Nodes(), ElementsAre("b", "c"));
  EXPECT_THAT(pods.Of("c"), SizeIs(1));
}

}  // namespace
}  // namespace pitcrew::gpu_operator
