// What is decided about a node's pods, without a cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/labels.h"
#include "codec/yaml.h"
#include "workload/cordon.h"
#include "workload/drain.h"
#include "workload/gpu_use.h"
#include "workload/pause.h"

namespace pitcrew::workload {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::string_view kWord = api::kPausedForDriverUpgrade;
constexpr std::string_view kMigWord = "paused-for-mig-change";

Json Yaml(const std::string& text) {
  const auto value = codec::ParseYaml(text);
  EXPECT_TRUE(value) << value.error().ToString();
  return value.value_or(Json());
}

TEST(Pause, Values) {
  RecordProperty("holds", "driver-lifecycle.md #91");
  const std::pair<const char*, const char*> rows[] = {
      {"", ""},
      {"false", "false"},
      {"true", "paused-for-driver-upgrade"},
      {"paused-for-driver-upgrade", "paused-for-driver-upgrade"},
      {"foo", "foo_paused-for-driver-upgrade"},
      {"foo_paused-for-driver-upgrade", "foo_paused-for-driver-upgrade"}};
  for (const auto& [value, paused] : rows) EXPECT_EQ(PausedValue(value, kWord), paused) << value;
}

TEST(Resume, Values) {
  RecordProperty("holds", "driver-lifecycle.md #92");
  const std::pair<const char*, const char*> rows[] = {{"", ""},
                                                      {"false", "false"},
                                                      {"true", "true"},
                                                      {"paused-for-driver-upgrade", "true"},
                                                      {"foo_paused-for-driver-upgrade", "foo"},
                                                      {"foo", "foo"}};
  for (const auto& [value, resumed] : rows) EXPECT_EQ(ResumedValue(value, kWord), resumed) << value;
}

TEST(Pause, WhoLeavesForIt) {
  const Json node = {{"metadata",
                      {{"labels",
                        {{"on", "true"},
                         {"off", "false"},
                         {"empty", ""},
                         {"already", kWord},
                         {"other", kMigWord}}}}}};
  EXPECT_EQ(PausedLabels(node, {"on", "off", "empty", "already", "other", "missing"}, kWord),
            (std::vector<std::string_view>{"on", "already", "other"}));
}

// mig-manager.md section 15, weakness 7: upstream's MIG manager ends the driver manager's pause.
TEST(Pause, TwoPausesEndOneByOneInEitherOrder) {
  const auto both = PausedValue(PausedValue("true", kWord), kMigWord);
  EXPECT_EQ(ResumedValue(both, kMigWord), kWord);
  EXPECT_EQ(ResumedValue(both, kWord), kMigWord);
  EXPECT_EQ(ResumedValue(ResumedValue(both, kWord), kMigWord), "true");
}

TEST(Pause, OnlyLabelsThatAreThereArePatched) {  // driver-lifecycle.md 12.2, weakness 33
  const Json node = Yaml(R"(
metadata:
  labels:
    nvidia.com/gpu.deploy.device-plugin: "true"
    nvidia.com/gpu.deploy.dcgm: "false"
    nvidia.com/gpu.deploy.driver: "true"
    my/label: x)");
  const std::vector<std::string_view> labels = {api::kDeployDevicePlugin, api::kDeployDcgm,
                                                api::kDeployMigManager, "my/label"};
  EXPECT_EQ(*PausePatch(node, labels, kWord), Yaml(R"(
metadata:
  labels:
    nvidia.com/gpu.deploy.device-plugin: paused-for-driver-upgrade
    my/label: x_paused-for-driver-upgrade)"));
  EXPECT_FALSE(ResumePatch(node, labels, kWord)) << "nothing of it is paused";
}

TEST(Resume, EditsOfOthersStay) {  // driver-lifecycle.md 12.2, weakness 34
  const Json node = Yaml(R"(
metadata:
  labels:
    nvidia.com/gpu.deploy.device-plugin: paused-for-driver-upgrade
    nvidia.com/gpu.deploy.dcgm: "false")");
  EXPECT_EQ(*ResumePatch(node, {api::kDeployDevicePlugin, api::kDeployDcgm}, kWord),
            Yaml("metadata: {labels: {nvidia.com/gpu.deploy.device-plugin: \"true\"}}"))
      << "dcgm was switched off during the pause";
}

TEST(Cordon, IsTakenBackOnlyByWhomItBelongsTo) {  // driver-lifecycle.md 12.2, weakness 35
  constexpr std::string_view kMine = "example.com/cordoned";
  Json node = Json::object();
  const auto cordon = CordonPatch(node, kMine);
  ASSERT_TRUE(cordon);
  codec::ApplyMergePatch(node, *cordon);
  EXPECT_TRUE(IsCordoned(node));
  EXPECT_FALSE(CordonPatch(node, kMine));
  EXPECT_FALSE(UncordonPatch(node, "example.com/other"));
  const auto uncordon = UncordonPatch(node, kMine);
  ASSERT_TRUE(uncordon);
  codec::ApplyMergePatch(node, *uncordon);
  EXPECT_FALSE(IsCordoned(node));
  EXPECT_FALSE(UncordonPatch(node, kMine));

  const Json by_a_person = Yaml("spec: {unschedulable: true}");
  EXPECT_FALSE(CordonPatch(by_a_person, kMine));
  EXPECT_FALSE(UncordonPatch(by_a_person, kMine));
}

TEST(GpuUse, LimitsAndRequestsOfAnyContainer) {  // driver-lifecycle.md 2.8
  RecordProperty("holds", "driver-lifecycle.md #62; operator-behaviour.md #56");
  for (const auto* pod :
       {"{spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}",
        "{spec: {containers: [{}, {resources: {requests: {nvidia.com/gpu.shared: 1}}}]}}",
        "{spec: {containers: [{resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]}}",
        "{spec: {initContainers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}"}) {
    EXPECT_TRUE(AsksForGpu(Yaml(pod))) << pod;
  }
  for (const auto* pod : {"{}", "{spec: {containers: [{name: c}]}}",
                          "{spec: {containers: [{resources: {limits: {cpu: 1}}}]}}",
                          "{spec: {containers: [{resources: {limits: {nvidia.com/other: 1}}}]}}"}) {
    EXPECT_FALSE(AsksForGpu(Yaml(pod))) << pod;
  }
}

TEST(GpuUse, ClaimsOfAPod) {  // driver-lifecycle.md 2.8
  EXPECT_THAT(ClaimNames(Yaml(R"(
spec:
  resourceClaims:
  - {name: a, resourceClaimName: named}
  - {name: b, resourceClaimTemplateName: t}
  - {name: c, resourceClaimTemplateName: t}
status:
  resourceClaimStatuses: [{name: b, resourceClaimName: made-b}])")),
              ElementsAre("named", "made-b"))
      << "for c none is made yet";
}

TEST(GpuUse, AClaimHoldsAGpuOnceOneIsAllocatedToUse) {  // driver-lifecycle.md 2.8
  RecordProperty("holds", "driver-lifecycle.md #63");
  const auto holds = [](const std::string& results) {
    return HoldsGpu(Yaml("status: {allocation: {devices: {results: [" + results + "]}}}"));
  };
  EXPECT_TRUE(holds("{driver: other}, {driver: gpu.nvidia.com, adminAccess: false}"));
  EXPECT_FALSE(holds("{driver: gpu.nvidia.com, adminAccess: true}"));
  EXPECT_FALSE(holds("{driver: compute-domain.nvidia.com}"));
  EXPECT_FALSE(HoldsGpu(Yaml("status: {}"))) << "not allocated";
}

// The claims "gpu" and "card" are there, "none" is not, and others cannot be read for this reason.
ClaimReader ReaderWith(const base::Error& why) {
  return [why](const kube::ObjectKey& key) {
    if (key.name == "none") return base::Observed<Json>::Missing();
    if (key.name != "gpu" && key.name != "card") return base::Observed<Json>::Unknown(why);
    const std::string driver = key.name == "gpu" ? "gpu.nvidia.com" : "net.example.com";
    return base::Observed<Json>::Present(
        Yaml("status: {allocation: {devices: {results: [{driver: " + driver + "}]}}}"));
  };
}
Json PodWithClaims(const std::vector<std::string>& names) {
  Json pod = Yaml("metadata: {name: p, namespace: a}");
  for (const auto& name : names) {
    pod["spec"]["resourceClaims"].push_back({{"name", name}, {"resourceClaimName", name}});
  }
  return pod;
}

TEST(GpuUse, AClaimThatCannotBeReadForAMomentTellsNothing) {
  for (const auto code : {base::Code::kUnavailable, base::Code::kTimeout, base::Code::kTooMany}) {
    const auto reader = ReaderWith({code, "Busy", "not now"});
    const auto unknown = CheckGpuClaim(PodWithClaims({"card", "other"}), reader);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, base::Code::kUnavailable);
    EXPECT_EQ(unknown.error().reason, "ClaimNotRead");
    EXPECT_THAT(unknown.error().message, HasSubstr("a/p uses a GPU cannot be told: not now"));
    EXPECT_EQ(CheckGpuClaim(PodWithClaims({"other", "gpu"}), reader), true);
    EXPECT_EQ(CheckGpuClaim(PodWithClaims({"card", "none"}), reader), false);
  }
  const auto stopped = ReaderWith({base::Code::kCancelled, "Stopped", ""});
  EXPECT_EQ(CheckGpuClaim(PodWithClaims({"other"}), stopped).error().code, base::Code::kCancelled);
}

TEST(GpuUse, AClaimThatMayNotBeReadCountsAsAGpu) {
  const auto denied = ReaderWith({base::Code::kDenied, "Forbidden", ""});
  EXPECT_EQ(CheckGpuClaim(PodWithClaims({"other"}), denied), true);
}

constexpr const char* kJob = "ownerReferences: [{kind: Job, controller: true}]";

Json Pod(const std::string& name, const std::string& metadata, const std::string& rest) {
  return Yaml("{metadata: {name: " + name + ", namespace: a, uid: u-" + name + ", " + metadata +
              "}, " + rest + "}");
}

TEST(Drain, OfDaemonSetsAndMirrorPodsNothingIsExpected) {  // driver-lifecycle.md 3
  const std::vector<Json> pods = {
      Pod("mirror", "annotations: {kubernetes.io/config.mirror: x}", "spec: {}"),
      Pod("ds", "ownerReferences: [{kind: DaemonSet, controller: true}]", "spec: {}"),
      Pod("job", kJob, "status: {phase: Running}")};
  const auto plan = PlanDrain(pods, {});
  EXPECT_THAT(plan.evict, ElementsAre(PodReference{{"a", "job"}, "u-job"}));
  EXPECT_THAT(plan.refused, SizeIs(0));
  DrainOptions strict;
  strict.ignore_daemon_sets = false;
  EXPECT_THAT(PlanDrain(pods, strict).refused, ElementsAre("a/ds belongs to a DaemonSet"));
}

TEST(Drain, RefusesWhatWouldBeLost) {  // driver-lifecycle.md 3
  const char* volumes = "spec: {volumes: [{name: v, emptyDir: {}}]}";
  const std::vector<Json> pods = {
      Pod("bare", "labels: {}", "spec: {}"), Pod("data", kJob, volumes),
      Pod("done", "labels: {}", std::string(volumes) + ", status: {phase: Succeeded}")};
  const auto plan = PlanDrain(pods, {});
  EXPECT_THAT(plan.evict, ElementsAre(PodReference{{"a", "done"}, "u-done"}))
      << "what has ended may go";
  EXPECT_THAT(plan.refused, ElementsAre(HasSubstr("a/bare has no controller"),
                                        "a/data would lose an emptyDir volume (deleteEmptyDir)"));
  DrainOptions options;
  options.force = true;
  EXPECT_THAT(PlanDrain(pods, options).evict, SizeIs(2));
  options.delete_empty_dir = true;
  EXPECT_THAT(PlanDrain(pods, options).evict, SizeIs(3));
  EXPECT_THAT(PlanDrain(pods, options).refused, SizeIs(0));
}

}  // namespace
}  // namespace pitcrew::workload
