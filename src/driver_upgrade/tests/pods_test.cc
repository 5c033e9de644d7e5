#include "driver_upgrade/pods.h"

#include <gtest/gtest.h>

#include <tuple>

#include "codec/yaml.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

Json Yaml(const std::string& text) {
  const auto parsed = codec::ParseYaml(text);
  EXPECT_TRUE(parsed) << parsed.error().ToString();
  return *parsed;
}

DriverPod Pod(const std::string& text) { return *ReadDriverPod(Yaml(text)); }

TEST(DriverPods, ReadinessNeedsARunningPodWithContainers) {
  RecordProperty("holds", "driver-lifecycle.md #78");
  EXPECT_TRUE(
      Pod("status: {phase: Running, containerStatuses: [{ready: true}, {ready: true}]}").ready);
  EXPECT_FALSE(
      Pod("status: {phase: Running, containerStatuses: [{ready: true}, {ready: false}]}").ready);
  EXPECT_FALSE(Pod("status: {phase: Running, containerStatuses: []}").ready);
  EXPECT_FALSE(Pod("status: {phase: Running}").ready);
  EXPECT_FALSE(Pod("status: {phase: Pending, containerStatuses: [{ready: true}]}").ready);
}

TEST(DriverPods, MoreThanTenRestartsAreAFailure) {
  RecordProperty("holds", "driver-lifecycle.md #79");
  const auto failing = [](const std::string& status) { return Pod("status: " + status).failing; };
  EXPECT_FALSE(failing("{containerStatuses: [{ready: false, restartCount: 0}]}"));
  EXPECT_FALSE(failing("{containerStatuses: [{ready: false, restartCount: 10}]}"));
  EXPECT_TRUE(failing("{containerStatuses: [{ready: false, restartCount: 11}]}"));
  EXPECT_FALSE(failing("{containerStatuses: [{ready: true, restartCount: 11}]}"));
  EXPECT_TRUE(failing("{initContainerStatuses: [{ready: false, restartCount: 11}]}"));
}

TEST(DriverPods, AnImageIsMissingWhileTheKubeletTriesToGetIt) {
  const auto missing = [](const std::string& list, const std::string& reason) {
    return Pod("status: {" + list +
               ": [{image: good, state: {running: {}}}, {image: 'r/d:9', state: {" + reason +
               "}}]}")
        .missing_image;
  };
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    EXPECT_EQ(missing(list, "waiting: {reason: ImagePullBackOff}"), "r/d:9") << list;
    EXPECT_EQ(missing(list, "waiting: {reason: ErrImagePull}"), "r/d:9") << list;
    EXPECT_EQ(missing(list, "waiting: {reason: InvalidImageName}"), "r/d:9") << list;
    EXPECT_EQ(missing(list, "waiting: {reason: PodInitializing}"), "") << list;
    EXPECT_EQ(missing(list, "waiting: {reason: CrashLoopBackOff}"), "") << list;
    EXPECT_EQ(missing(list, "terminated: {reason: ErrImagePull}"), "") << list;
  }
  EXPECT_EQ(Pod("status: {phase: Pending}").missing_image, "");
  EXPECT_EQ(Pod("status: {containerStatuses: [{name: nvidia-fs-ctr, image: 'r/fs:9', state: "
                "{waiting: {reason: ErrImagePull}}}]}")
                .missing_image_of,
            "nvidia-fs-ctr");
}

TEST(DriverPods, TheDigestIsTheFirstThatIsNotEmpty) {
  RecordProperty("holds", "driver-lifecycle.md #29");
  const auto digest = [](const std::string& spec) { return Pod("spec: " + spec).digest; };
  const std::string one = "[{name: DRIVER_CONFIG_DIGEST, value: \"1\"}]";
  const std::string two = "[{name: DRIVER_CONFIG_DIGEST, value: \"2\"}]";
  const std::string none =
      "[{name: DRIVER_CONFIG_DIGEST, value: \"\"}, {name: OTHER, value: \"3\"}]";
  EXPECT_EQ(digest("{initContainers: [{env: " + one + "}], containers: [{env: " + two + "}]}"),
            "1");
  EXPECT_EQ(digest("{initContainers: [{env: " + none + "}], containers: [{env: " + two + "}]}"),
            "2");
  EXPECT_EQ(digest("{containers: [{env: " + none + "}]}"), "");
  EXPECT_EQ(Pod("metadata: {name: a}").digest, "");
}

TEST(DriverPods, AValidatorThatGoesProvesNothing) {
  const std::string runs = "status: {phase: Running, containerStatuses: [{ready: true}]}\n";
  EXPECT_TRUE(ReadValidatorPod(Yaml(runs))->ready);
  EXPECT_FALSE(
      ReadValidatorPod(Yaml(runs + "metadata: {deletionTimestamp: 2026-01-02T03:04:05Z}"))->ready);
}

Revision MakeRevision(const std::string& owner, const std::string& hash, int number) {
  return {.owner_uid = owner, .hash = hash, .number = number};
}

TEST(DriverTemplates, APodIsInSyncWithTheNewestRevisionOfItsOwnDaemonSet) {
  Templates templates;
  templates.Add(DriverDaemonSet{.uid = "a", .digest = "1"});
  templates.Add(DriverDaemonSet{.uid = "b", .digest = ""});
  templates.Add(MakeRevision("a", "new", 12));
  templates.Add(MakeRevision("a", "old", 9));
  templates.Add(MakeRevision("other", "newer", 99));
  const auto sync = [&](const std::string& owner, const std::string& revision) {
    DriverPod pod;
    pod.owner_uid = owner;
    pod.revision = revision;
    return templates.SyncOf(pod);
  };
  EXPECT_EQ(sync("a", "new"), Sync::kInSync);
  EXPECT_EQ(sync("a", "old"), Sync::kOutdated);
  EXPECT_EQ(sync("a", ""), Sync::kOutdated);
  EXPECT_EQ(sync("", "new"), Sync::kOrphaned);
  EXPECT_EQ(sync("b", "new"), Sync::kUnknown) << "its revisions have not been seen";
  EXPECT_EQ(sync("other", "newer"), Sync::kUnknown) << "its DaemonSet has not been seen";
}

TEST(DriverTemplates, ANewestRevisionWithAnotherDriverIsNotThatOfTheDaemonSet) {
  Templates templates;
  templates.Add(DriverDaemonSet{.uid = "a", .digest = "1"});
  // The version was set back a moment ago.
  for (const auto& [hash, number, digest] :
       {std::tuple("first", 1, "1"), std::tuple("second", 2, "2")}) {
    Revision revision = MakeRevision("a", hash, number);
    revision.digest = digest;
    templates.Add(revision);
  }
  DriverPod pod;
  pod.owner_uid = "a";
  pod.revision = "first";
  EXPECT_EQ(templates.SyncOf(pod), Sync::kUnknown);
  EXPECT_EQ(templates.NewestOf(pod), "");
  // The DaemonSet controller has looked.
  Revision revision = MakeRevision("a", "first", 3);
  revision.digest = "1";
  templates.Add(revision);
  EXPECT_EQ(templates.SyncOf(pod), Sync::kInSync);
}

TEST(DriverTemplates, TheDigestOfARevisionIsThatOfItsTemplate) {
  const auto revision = ReadRevision(Yaml(
      "{revision: 1, data: {spec: {template: {$patch: replace, spec: {containers: [{env: [{name: "
      "DRIVER_CONFIG_DIGEST, value: '7'}]}]}}}}}"));
  EXPECT_EQ(revision->digest, "7");
}

TEST(DriverTemplates, OnlyEqualDigestsAreARestart) {
  RecordProperty("holds", "driver-lifecycle.md #30");
  Templates templates;
  templates.Add(DriverDaemonSet{.uid = "a", .digest = "1"});
  templates.Add(DriverDaemonSet{.uid = "b", .digest = ""});
  templates.Add(*ReadDriverDaemonSet(Yaml(R"(
metadata: {uid: p, labels: {nvidia.com/precompiled: "true"}}
spec: {template: {spec: {containers: [{name: c, env: [{name: DRIVER_CONFIG_DIGEST, value: "1"}]}]}}}
)")));
  const auto restarts = [&](const std::string& owner, const std::string& digest) {
    DriverPod pod;
    pod.owner_uid = owner;
    pod.digest = digest;
    return templates.RestartsOnly(pod);
  };
  EXPECT_TRUE(restarts("a", "1"));
  EXPECT_FALSE(restarts("a", "2"));
  EXPECT_FALSE(restarts("a", ""));
  EXPECT_FALSE(restarts("b", "1"));
  EXPECT_FALSE(restarts("b", ""));
  EXPECT_FALSE(restarts("c", "1"));
  EXPECT_FALSE(restarts("p", "1")) << "precompiled: nobody notes the digest on the node";
}

TEST(DriverTemplates, ARevisionWithoutTheLabelIsKnownByItsName) {
  const auto revision = ReadRevision(Yaml(R"(
metadata:
  name: nvidia-driver-daemonset-5d7f
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: nvidia-driver-daemonset, uid: u1, controller: true}]
revision: 3
)"));
  EXPECT_EQ(*revision, MakeRevision("u1", "5d7f", 3));
}

TEST(DriverPods, OneOfSeveralSpeaksForTheNode) {
  const auto pod = [](const std::string& name, const std::string& owner, bool deleting) {
    auto made = std::make_shared<DriverPod>();
    made->name = name;
    made->owner_uid = owner;
    made->deleting = deleting;
    return std::shared_ptr<const DriverPod>(made);
  };
  EXPECT_EQ(ChoosePod({}), nullptr);
  EXPECT_EQ(ChoosePod({pod("a", "", false), pod("b", "u", true)})->name, "b");
  EXPECT_EQ(ChoosePod({pod("a", "u", true), pod("b", "u", false)})->name, "b");
  EXPECT_EQ(ChoosePod({pod("b", "u", false), pod("a", "u", false)})->name, "a");
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
