#include "node/toolkit/nri_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::node::toolkit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kAll = "management.nvidia.com/gpu=all";
constexpr const char* kOne = "k8s.device-plugin.nvidia.com/gpu=GPU-1";

NriOptions Ours() {
  NriOptions options;
  options.operator_namespace = "gpu-operator";
  options.more_namespaces = {"monitoring"};
  return options;
}

NriDevices Choose(const std::string& space, std::map<std::string, std::string> annotations) {
  return ChooseNriDevices({.pod_name = "pod",
                           .pod_namespace = space,
                           .pod_annotations = std::move(annotations),
                           .name = "main"},
                          Ours());
}

TEST(NriDevices, OnlyForPodsThatAskInTheirNamespaces) {
  RecordProperty("holds", "container-toolkit.md #49; runtimes-and-distributions.md #56 and #58");
  EXPECT_THAT(Choose("gpu-operator", {}).names, IsEmpty());
  EXPECT_THAT(Choose("gpu-operator", {{"nvidia.cdi.k8s.io/pod", kAll}}).names, ElementsAre(kAll));
  EXPECT_THAT(Choose("monitoring", {{"nvidia.cdi.k8s.io/pod", kAll}}).names, ElementsAre(kAll));
  const auto elsewhere = Choose("team", {{"nvidia.cdi.k8s.io/pod", kAll}});
  EXPECT_THAT(elsewhere.names, IsEmpty());
  ASSERT_THAT(elsewhere.refused, SizeIs(1));
  EXPECT_EQ(elsewhere.refused[0].name, kAll);
  EXPECT_THAT(elsewhere.refused[0].why, ::testing::HasSubstr("namespace team"));
  // Upstream gives devices of other kinds to every pod that names them (docs/differences.md).
  EXPECT_THAT(Choose("team", {{"nvidia.cdi.k8s.io/pod", kOne}}).names, IsEmpty());
  EXPECT_THAT(Choose("gpu-operator", {{"nvidia.cdi.k8s.io/pod", kOne}}).names, ElementsAre(kOne));
}

TEST(NriDevices, TheNearestAnnotationCounts) {
  RecordProperty("holds", "runtimes-and-distributions.md #55");
  const std::string bare = "a.com/x=bare", pod = "a.com/x=pod", own = "a.com/x=own";
  EXPECT_THAT(Choose("gpu-operator", {{"nvidia.cdi.k8s.io", bare}}).names, ElementsAre(bare));
  EXPECT_THAT(
      Choose("gpu-operator", {{"nvidia.cdi.k8s.io", bare}, {"nvidia.cdi.k8s.io/pod", pod}}).names,
      ElementsAre(pod));
  EXPECT_THAT(Choose("gpu-operator", {{"nvidia.cdi.k8s.io", bare},
                                      {"nvidia.cdi.k8s.io/pod", pod},
                                      {"nvidia.cdi.k8s.io/container.main", own}})
                  .names,
              ElementsAre(own));
  EXPECT_THAT(Choose("gpu-operator", {{"nvidia.cdi.k8s.io/container.other", own}}).names,
              IsEmpty());
}

TEST(NriDevices, WhatIsNoNameNeverReachesTheRuntime) {
  RecordProperty("holds", "runtimes-and-distributions.md #57");
  const auto chosen = Choose(
      "gpu-operator", {{"nvidia.cdi.k8s.io", " a.com/x=1 ,, a.com/x=1,nonsense,a.com/x=2,"}});
  EXPECT_THAT(chosen.names, ElementsAre("a.com/x=1", "a.com/x=2"));
  ASSERT_THAT(chosen.refused, SizeIs(1));
  EXPECT_EQ(chosen.refused[0].name, "nonsense");
}

TEST(NriRuntimes, ThoseThatDropDevicesAreNamed) {
  RecordProperty("holds", "runtimes-and-distributions.md #61");
  for (const auto* version : {"v1.6.9", "1.7.29", "v2.0.0", "2.0.9", "1.7"}) {
    const auto why = WhyNriCannotServe({"containerd", version});
    ASSERT_TRUE(why) << version;
    EXPECT_THAT(*why, ::testing::HasSubstr(version));
  }
  for (const auto* version :
       {"1.7.30", "v1.7.30-k3s1", "v2.1.0", "v2.2.9", "2.10.0", "3.0.0", "main"}) {
    EXPECT_FALSE(WhyNriCannotServe({"containerd", version})) << version;
  }
  EXPECT_TRUE(WhyNriCannotServe({"cri-o", "1.33.5"}));
  EXPECT_FALSE(WhyNriCannotServe({"cri-o", "1.34.0"}));
  EXPECT_FALSE(WhyNriCannotServe({"another", "0.1"}));
  EXPECT_TRUE(NeedsCdiSwitchedOn({"containerd", "v1.7.30"}));
  EXPECT_FALSE(NeedsCdiSwitchedOn({"containerd", "v2.1.0"}));
  EXPECT_FALSE(NeedsCdiSwitchedOn({"cri-o", "1.34.0"}));
}

}  // namespace
}  // namespace pitcrew::node::toolkit
