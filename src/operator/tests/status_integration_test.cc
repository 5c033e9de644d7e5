// What the policy says about itself while DaemonSets roll out: few writes, the pod that is behind,
// events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apiserver/interposed_server.h"
#include "operator/policy/status_writer.h"
#include "support_operator.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StatusTest : public OperatorTest {
 protected:
  [[nodiscard]] Json DaemonSet(const std::string& name) const {
    const auto object = client_->Get(kube::kDaemonSets, Own(name));
    return object ? *object : Json();
  }
  void WriteDaemonSetStatus(const std::string& name, int desired, int ready) {
    Merge(kube::kDaemonSets, Own(name),
          {{"status",
            {{"observedGeneration", DaemonSet(name)["metadata"]["generation"]},
             {"desiredNumberScheduled", desired},
             {"currentNumberScheduled", desired},
             {"numberMisscheduled", 0},
             {"numberReady", ready},
             {"updatedNumberScheduled", desired},
             {"numberAvailable", ready},
             {"numberUnavailable", desired - ready}}}},
          "status");
  }
  // A pod of the DaemonSet on a node, as the DaemonSet controller makes it, with this status.
  void CreatePod(const std::string& daemonset, const std::string& name, const std::string& node,
                 const std::string& status_yaml) {
    const Json owner = DaemonSet(daemonset);
    Create(
        kube::kPods,
        {{"metadata",
          {{"name", name},
           {"namespace", name_space_},
           {"labels", owner["spec"]["template"]["metadata"]["labels"]},
           {"ownerReferences",
            {{{"apiVersion", "apps/v1"},
              {"kind", "DaemonSet"},
              {"name", daemonset},
              {"uid", owner["metadata"]["uid"]},
              {"controller", true}}}}}},
         {"spec",
          {{"nodeName", node}, {"containers", {{{"name", "c"}, {"image", "registry.test/c"}}}}}}});
    SetPodStatus(name, status_yaml);
  }
  void SetPodStatus(const std::string& name, const std::string& status_yaml) {
    Merge(kube::kPods, Own(name), {{"status", *codec::ParseYaml(status_yaml)}}, "status");
  }
  [[nodiscard]] std::vector<std::string> Events(const std::string& policy) const {
    std::vector<std::string> events;
    const auto listed = client_->List(kube::kEvents, "default");
    if (!listed) return events;
    for (const Json& event : listed->items) {
      if (codec::FindString(event, {"involvedObject", "name"}) != policy) continue;
      events.push_back(codec::FindString(event, {"type"}) + " " +
                       codec::FindString(event, {"reason"}) + " " +
                       codec::FindString(event, {"message"}));
    }
    return events;
  }
};

constexpr const char* kReady =
    "{phase: Running, conditions: [{type: Ready, status: 'True'}], containerStatuses: []}";

// One that is gone needs none; any other refusal is told, or the object would say for ever what it
// said last.
TEST_F(StatusTest, OnlyAnObjectThatIsGoneMayBeLeftWithoutItsStatus) {
  CreatePolicy("refused");
  const pitcrew::testing::InterposedServer server(
      [](const auto& request, auto& reply, const io::StopToken&) {
        if (!request.path.contains("/refused/")) return false;
        reply.Send(403, R"({"kind": "Status", "reason": "Forbidden", "message": "not you"})");
        return true;
      });
  const auto client = server.MakeClient();
  kube::EventRecorder events(client, "test", "test");
  StatusWriter writer(client, desired::kClusterPolicies, events, {}, [](auto&&...) {});
  const auto write = [&](const std::string& name) {
    const StatusSubject subject{.owner = {"nvidia.com/v1", "ClusterPolicy", name, "uid"},
                                .status = {}};
    return writer.Write(subject, [](const Json&) { return Json{{"state", "ready"}}; }, {});
  };
  EXPECT_TRUE(write("gone"));
  const auto refused = write("refused");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("write the status of ClusterPolicy refused"));
}

// A policy that was deleted and made again under its name has another uid, and says nothing of the
// first one.
TEST_F(StatusTest, AnObjectMadeAgainUnderTheNameKeepsItsOwnStatus) {
  CreatePolicy("again");
  const Json first = *client_->Get(desired::kClusterPolicies, {"", "again"});
  kube::EventRecorder events(client_, "test", "test");
  StatusWriter writer(client_, desired::kClusterPolicies, events, {}, [](auto&&...) {});
  const auto write = [&](const Json& object, const std::string& state) {
    const StatusSubject subject{
        .owner = {"nvidia.com/v1", "ClusterPolicy", "again", object["metadata"]["uid"]},
        .status = {}};
    return writer.Write(
        subject, [&](const Json&) { return Json{{"state", state}, {"namespace", "n"}}; }, {});
  };
  const auto stored = [&] {
    return codec::FindString(*client_->Get(desired::kClusterPolicies, {"", "again"}),
                             {"status", "state"});
  };
  ASSERT_TRUE(write(first, "ready"));
  EXPECT_EQ(stored(), "ready");
  ASSERT_TRUE(client_->Delete(desired::kClusterPolicies, {"", "again"}, {}, {}));
  CreatePolicy("again");
  EXPECT_TRUE(write(first, "notReady"));
  EXPECT_EQ(stored(), "");
  EXPECT_TRUE(write(*client_->Get(desired::kClusterPolicies, {"", "again"}), "notReady"));
  EXPECT_EQ(stored(), "notReady");
}

// What a condition tells: observedGeneration, desired and ready counts, the first node that is
// behind and why; each of them as new as the pod's own status.
TEST_F(StatusTest, ConditionNamesTheNodeThatIsBehind) {
  CreateGpuNode("gpu-1");
  CreatePolicy("behind-policy");
  const RunningOperator running(name_space_);
  ASSERT_TRUE(ReachesReady("behind-policy"));
  EXPECT_THAT(Condition("behind-policy", "GPUFeatureDiscoveryReady"),
              HasSubstr("DaemonSet gpu-feature-discovery: 1 of 1 pods are ready"));
  const std::string name = "gpu-feature-discovery";
  CreatePod(name, name + "-a", "gpu-1", kReady);
  CreatePod(name, name + "-b", "gpu-3",
            "{phase: Pending, containerStatuses: [{name: c, ready: false, image: x, imageID: '',"
            " restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]}");
  CreatePod(
      name, name + "-c", "gpu-2",
      "{phase: Pending, containerStatuses: [{name: c, ready: false, image: x, imageID: '',"
      " restartCount: 0, state: {waiting: {reason: ErrImagePull, message: no such image}}}]}");
  WriteDaemonSetStatus(name, 3, 1);
  ASSERT_TRUE(Eventually([&] {
    return Condition("behind-policy", "GPUFeatureDiscoveryReady")
               .find(
                   "node gpu-2 is behind: pod gpu-feature-discovery-c: container c: "
                   "ErrImagePull: no such image") != std::string::npos;
  })) << Condition("behind-policy", "GPUFeatureDiscoveryReady");
  EXPECT_THAT(
      Condition("behind-policy", "GPUFeatureDiscoveryReady"),
      AllOf(HasSubstr("False RollingOut: "), HasSubstr("gpu-feature-discovery: 1 of 3 pods")));
  // The pod's own status is watched.
  SetPodStatus(
      name + "-c",
      "{containerStatuses: [{name: c, ready: false, image: x, imageID: '', restartCount: 2,"
      " state: {waiting: {reason: CrashLoopBackOff}}}]}");
  EXPECT_TRUE(Eventually([&] {
    return Condition("behind-policy", "GPUFeatureDiscoveryReady").find("CrashLoopBackOff") !=
           std::string::npos;
  }));
  // It has caught up: the next one is named.
  SetPodStatus(name + "-c", kReady);
  WriteDaemonSetStatus(name, 3, 2);
  EXPECT_TRUE(Eventually([&] {
    return Condition("behind-policy", "GPUFeatureDiscoveryReady").find("node gpu-3 is behind") !=
           std::string::npos;
  }));
  SetPodStatus(name + "-b", kReady);
  WriteDaemonSetStatus(name, 3, 3);
  EXPECT_TRUE(Eventually([&] {
    return Condition("behind-policy", "GPUFeatureDiscoveryReady").starts_with("True Ready");
  }));
  EXPECT_THAT(Condition("behind-policy", "GPUFeatureDiscoveryReady"),
              AllOf(HasSubstr("3 of 3 pods are ready"), Not(HasSubstr("behind"))));
  EXPECT_EQ(running.Value("gpu_operator_operand_pods_ready{state=\"gpu-feature-discovery\","
                          "daemonset=\"gpu-feature-discovery\"}"),
            3);
}

// A roll-out over 100 nodes: the status is written when a condition changes, not for each pod.
TEST_F(StatusTest, RollOutOf100NodesIsFewWrites) {
  for (int i = 0; i < 100; ++i) CreateGpuNode("gpu-" + std::to_string(i));
  CreatePolicy("rollout-policy");
  RunningOperator running(name_space_, [](RunnerOptions& options) {
    // Messages alone are never written here.
    options.progress_interval = std::chrono::hours(1);
  });
  ASSERT_TRUE(ReachesReady("rollout-policy"));
  ASSERT_TRUE(Eventually([&] {
    return running.Value(
               "workqueue_depth{controller=\"nodes\","
               "name=\"nodes\"}") == 0;
  }));
  const auto before = running.writes();
  const char* names[] = {"gpu-feature-discovery", "nvidia-device-plugin-daemonset"};
  for (int ready = 0; ready <= 100; ++ready) {
    for (const char* name : names) WriteDaemonSetStatus(name, 100, ready);
  }
  ASSERT_TRUE(Eventually([&] {
    return State("rollout-policy") == "ready" &&
           running.Value(
               "gpu_operator_operand_pods_ready{state=\"gpu-feature-discovery\","
               "daemonset=\"gpu-feature-discovery\"}") == 100;
  }));
  const double passes = running.Value("gpu_operator_reconciliation_total");
  running.Stop();
  // Two operands become not ready and ready again. One write may tell of both.
  std::uint64_t events = 0;
  for (const std::string& event : Events("rollout-policy")) events += event.empty() ? 0 : 1;
  const auto status_writes = running.writes() - before;
  RecordProperty("passes", std::to_string(passes));
  EXPECT_GE(status_writes, 2U);
  EXPECT_LE(status_writes, 4U + events);
}

// Events for the held mass removal and for a field that is wrong, once each.
TEST_F(StatusTest, EventsTellOfWrongFieldsAndHeldRemovals) {
  for (int i = 1; i <= 5; ++i) CreateGpuNode("gpu-" + std::to_string(i));
  CreatePolicy("events-policy");
  const auto told = [&](const std::string& beginning, const std::string& part) {
    return Eventually([&] {
      const auto events = Events("events-policy");
      return std::ranges::any_of(events, [&](const std::string& event) {
        return event.starts_with(beginning) && event.find(part) != std::string::npos;
      });
    });
  };
  const auto set_pci = [&](const Json& value) {
    for (const char* node : {"gpu-1", "gpu-2", "gpu-3"}) {
      Merge(kube::kNodes, Cluster(node),
            {{"metadata", {{"labels", {{"feature.node.kubernetes.io/pci-10de.present", value}}}}}});
    }
  };
  {
    const RunningOperator running(name_space_);
    ASSERT_TRUE(ReachesReady("events-policy"));
    MergeSpec("events-policy", "{devicePlugin: {repository: only.this}}");
    EXPECT_TRUE(told("Warning InvalidImage DevicePluginReady:", "spec.devicePlugin."));
    // The same reason with another field is news too.
    MergeSpec("events-policy", "{devicePlugin: {repository: null}, gfd: {version: only-this}}");
    EXPECT_TRUE(told("Warning InvalidImage GPUFeatureDiscoveryReady:", "spec.gfd."));
    MergeSpec("events-policy", "{gfd: {version: null}}");
    ASSERT_TRUE(ReachesReady("events-policy"));
  }
  set_pci(nullptr);  // seen together, whatever the speed of this machine
  const RunningOperator running(name_space_);
  EXPECT_TRUE(told("Warning MassRemovalHeld NodeLabelsReady:", "3 of 5 GPU nodes"));
  EXPECT_EQ(Label("gpu-1", "nvidia.com/gpu.present"), "true");
  set_pci("true");
  EXPECT_TRUE(told("Normal RemovalsGoOn NodeLabelsReady:", ""));
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
