// The look at the image of a new driver before any pod is touched, on a real kube-apiserver.
#include <algorithm>

#include "api/labels.h"
#include "codec/yaml.h"
#include "support_upgrade.h"

namespace pitcrew::gpu_operator::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kKernel = "feature.node.kubernetes.io/kernel-version.full";

class ImageCheckTest : public UpgradeTest {
 protected:
  std::vector<std::string> After(const std::vector<std::string>& states, std::size_t first) {
    return {states.begin() + static_cast<std::ptrdiff_t>(std::min(first, states.size())),
            states.end()};
  }
  // The condition of the policy's driver begins so.
  bool Tells(const std::string& text) {
    const bool told = Eventually([&] {
      Play();
      return Condition("cluster-policy", "DriverUpgradeReady").starts_with(text);
    });
    EXPECT_TRUE(told) << Condition("cluster-policy", "DriverUpgradeReady");
    return told;
  }
  std::vector<std::string> IdsOf(const std::vector<std::string>& nodes) {
    std::vector<std::string> ids;
    for (const std::string& node : nodes) {
      const auto pod = client_->Get(kube::kPods, Own("driver-" + node));
      ids.push_back(pod ? codec::FindString(*pod, {"metadata", "uid"}) : "");
    }
    return ids;
  }
};

TEST_F(ImageCheckTest, AnImageThatIsNowhereCostsNoNodeAnything) {
  const auto first = AddNode("a");
  const auto other = AddNode("b");
  const auto cordoned = AddNode("c");
  CreateGpuPod("trainer", first);
  CreateUpgradePolicy("{maxParallelUpgrades: 2, maxUnavailable: '100%'}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  SetNode(cordoned, {{"spec", {{"unschedulable", true}}}});
  const LabelHistory history(client_);
  const auto drivers = IdsOf(nodes_);
  for (const std::string& node : nodes_) no_image_.insert(node);
  ChangeDriver("999.9.9");
  EXPECT_TRUE(Tells("False UpgradeStopped: spec.driver: node "));
  const auto looked = ImageChecks();
  ASSERT_EQ(looked.size(), 1U) << "one looks for all";
  EXPECT_THAT(Condition("cluster-policy", "DriverUpgradeReady"),
              AllOf(HasSubstr(looked[0] + " cannot get the image nvcr.io/nvidia/driver:999.9.9"),
                    HasSubstr("manifest unknown")));
  for (const std::string& node : nodes_) {
    EXPECT_TRUE(Reaches(node, "upgrade-required"));
    EXPECT_EQ(IsCordoned(node), node == cordoned);
    EXPECT_THAT(After(history.Of(node), 1), ElementsAre("upgrade-required"));
  }
  EXPECT_EQ(IdsOf(nodes_), drivers);
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
  EXPECT_EQ(ImageChecks(), looked);
  const auto held = [&] {
    return running.Value(R"(gpu_operator_driver_upgrades_held{driver="",reason="image"})");
  };
  EXPECT_TRUE(Eventually([&] { return held() == 3; }));
  EXPECT_TRUE(Eventually([&] {
    const auto events = EventsOf(looked[0]);
    return std::ranges::any_of(events, [](const std::string& event) {
      return event.contains("cannot get the image nvcr.io/nvidia/driver:999.9.9");
    });
  }));

  // Another version: its own look, and the former one's pod goes.
  no_image_.clear();
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  EXPECT_THAT(After(history.Of(first), 1), ElementsAreArray(kWholeWay));
  EXPECT_FALSE(Exists(kube::kPods, Own("trainer")));
  EXPECT_TRUE(Eventually([&] {
    Play();
    return ImageChecks().empty() && Condition("cluster-policy", "DriverUpgradeReady").empty();
  }));
  EXPECT_TRUE(Eventually([&] { return held() == 0; }));
}

TEST_F(ImageCheckTest, SoDoesAnImageOfAnotherContainerOfTheDriversPod) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  MergeSpec("cluster-policy",
            "{gds: {enabled: true, repository: r, image: nvidia-fs, version: '2.1'}, "
            "gdrcopy: {enabled: true, repository: r, image: gdrdrv, version: '2.1'}}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  struct Case {
    const char* wrong;
    const char* right;
    const char* block;
    const char* image;
  };
  for (const Case& one : std::vector<Case>{
           {"gds: {version: '999.1'}", "gds: {version: '2.2'}", "spec.gds", "r/nvidia-fs:999.1"},
           {"gdrcopy: {version: '999.2'}", "gdrcopy: {version: '2.2'}", "spec.gdrcopy",
            "r/gdrdrv:999.2"},
           {"driver: {manager: {repository: r, image: manager, version: '999.3'}}",
            "driver: {manager: {version: '1.1'}}", "spec.driver.manager", "r/manager:999.3"}}) {
    const auto drivers = IdsOf(nodes_);
    CreateGpuPod("trainer", node);
    bad_image_ = ":999.";
    MergeSpec("cluster-policy", one.wrong);
    EXPECT_TRUE(Tells(std::string("False UpgradeStopped: ") + one.block + ": node " + node +
                      " cannot get the image " + one.image));
    EXPECT_EQ(StateOf(node), "upgrade-required");
    EXPECT_FALSE(IsCordoned(node));
    EXPECT_EQ(IdsOf(nodes_), drivers);
    EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
    MergeSpec("cluster-policy", one.right);
    EXPECT_TRUE(Eventually([&] {
      Play();
      return !Exists(kube::kPods, Own("trainer"));
    }));
    ASSERT_TRUE(Settles());
    EXPECT_TRUE(
        Eventually([&] { return Condition("cluster-policy", "DriverUpgradeReady").empty(); }));
  }
}

TEST_F(ImageCheckTest, AVersionThatIsSetBackCostsNoNodeAnything) {
  const auto node = AddNode("a");
  const auto cordoned = AddNode("b");
  CreateGpuPod("trainer", node);
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  SetNode(cordoned, {{"spec", {{"unschedulable", true}}}});
  const LabelHistory history(client_);
  const auto drivers = IdsOf(nodes_);
  bad_image_ = ":999.";
  ChangeDriver("999.9.9");
  ASSERT_TRUE(Tells("False UpgradeStopped: spec.driver: node "));
  ASSERT_TRUE(Reaches(node, "upgrade-required"));
  ASSERT_TRUE(Reaches(cordoned, "upgrade-required"));
  ChangeDriver("580.1.2");
  ASSERT_TRUE(Settles());
  for (const std::string& name : nodes_) {
    EXPECT_THAT(history.Of(name), ElementsAre("upgrade-done", "upgrade-required", "upgrade-done"));
    EXPECT_THAT(Traces(name), IsEmpty());
    EXPECT_EQ(IsCordoned(name), name == cordoned) << "the person's cordon stays";
  }
  EXPECT_EQ(IdsOf(nodes_), drivers);
  EXPECT_TRUE(Exists(kube::kPods, Own("trainer")));
  EXPECT_TRUE(Eventually([&] {
    Play();
    return ImageChecks().empty() && Condition("cluster-policy", "DriverUpgradeReady").empty();
  }));
}

TEST_F(ImageCheckTest, ARegistryThatComesBackLetsTheNodesGoOn) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  no_image_.insert(node);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Tells("False UpgradeStopped: spec.driver: node " + node + " cannot get the image"));
  no_image_.clear();
  ASSERT_TRUE(Settles());
  EXPECT_TRUE(Eventually([&] { return ImageChecks().empty(); }));
}

TEST_F(ImageCheckTest, WhatTheDriverWouldLackIsToldBeforeAnyPodIsTouched) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  const auto drivers = IdsOf(nodes_);
  preflights_[node] = "preflight: NoModulesForKernel: the node's kernel is 5.4.0\n";
  ChangeDriver("590.3.4");
  EXPECT_TRUE(
      Tells("False UpgradeStopped: spec.driver: the driver of image "
            "nvcr.io/nvidia/driver:590.3.4"));
  EXPECT_THAT(Condition("cluster-policy", "DriverUpgradeReady"),
              HasSubstr("NoModulesForKernel: the node's kernel is 5.4.0"));
  EXPECT_EQ(StateOf(node), "upgrade-required");
  EXPECT_EQ(IdsOf(nodes_), drivers);

  // Another kernel is another question.
  preflights_.clear();
  SetNode(node, {{"metadata", {{"labels", {{std::string(kKernel), "6.1.0-1-amd64"}}}}}});
  ASSERT_TRUE(Settles());
}

TEST_F(ImageCheckTest, OneNodeOfEachKernelLooksAndOnlyThoseOfABadOneStay) {
  const auto a = AddNode("a");
  const auto b = AddNode("b");
  const auto old = AddNode("c");
  SetNode(old, {{"metadata", {{"labels", {{std::string(kKernel), "4.1.0-1-amd64"}}}}}});
  CreateUpgradePolicy("{maxParallelUpgrades: 3, maxUnavailable: '100%'}");
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  preflights_[old] = "preflight: KernelHeadersMissing: x";
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Reaches(a, "upgrade-done"));
  ASSERT_TRUE(Reaches(b, "upgrade-done"));
  EXPECT_TRUE(Tells("False UpgradeStopped: spec.driver: the driver of image"));
  EXPECT_EQ(StateOf(old), "upgrade-required");
  EXPECT_TRUE(Eventually([&] {
    Play();
    return ImageChecks() == std::vector<std::string>{old};
  }));
}

TEST_F(ImageCheckTest, AnotherOperatorFindsTheLookThatIsUnderWay) {
  const auto first = AddNode("a");
  const auto other = AddNode("b");
  CreateUpgradePolicy();
  {
    RunningOperator running(name_space_);
    ASSERT_TRUE(Settles());
    no_answers_ = {first, other};
    ChangeDriver("590.3.4");
    ASSERT_TRUE(Eventually([&] {
      Play();
      return !ImageChecks().empty();
    }));
  }
  const auto pod_of_check = [&] {
    const auto pods = client_->List(kube::kPods, name_space_,
                                    {.label_selector = "app=nvidia-driver-image-check"});
    return pods && pods->items.size() == 1 ? codec::FindString(pods->items[0], {"metadata", "uid"})
                                           : "";
  };
  const std::string before = pod_of_check();
  // It ends while nobody sees that.
  for (const std::string& node : nodes_) preflights_[node] = "preflight: CompilerMissing: no gcc";
  no_answers_.clear();
  Play();
  no_answers_ = {first, other};
  RunningOperator running(name_space_);
  EXPECT_TRUE(Tells("False UpgradeStopped: spec.driver: the driver of image"));
  EXPECT_EQ(pod_of_check(), before);
  EXPECT_NE(before, "");
}

TEST_F(ImageCheckTest, SwitchedOffThereIsNone) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  no_answers_.insert(node);
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Eventually([&] {
    Play();
    return !ImageChecks().empty();
  }));
  Merge(desired::kClusterPolicies, Cluster("cluster-policy"),
        {{"metadata",
          {{"annotations", {{std::string(api::kUpgradeImageCheckAnnotation), "false"}}}}}});
  ASSERT_TRUE(Settles());
  EXPECT_TRUE(Eventually([&] {
    Play();
    return ImageChecks().empty();
  }));
}

TEST_F(ImageCheckTest, ATemplateThatChangesNothingOfTheDriverNeedsNone) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  no_answers_.insert(node);
  ChangeTemplateOnly();
  ASSERT_TRUE(Settles());
  EXPECT_THAT(ImageChecks(), IsEmpty());
}

// Somebody's admission refuses pods of image checks.
const char* const kRefusal = R"(
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ''}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ''}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - expression: "object.metadata.?labels[?'app'].orValue('') != 'nvidia-driver-image-check'"
    message: not here
)";

TEST_F(ImageCheckTest, APodThatMayNotBeMadeStopsNothing) {
  const auto node = AddNode("a");
  CreateUpgradePolicy();
  RunningOperator running(name_space_);
  ASSERT_TRUE(Settles());
  Json policy = *codec::ParseYaml(kRefusal);
  policy["metadata"]["name"] = name_space_;
  policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
        ["kubernetes.io/metadata.name"] = name_space_;
  Create({"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies",
          "ValidatingAdmissionPolicy"},
         policy);
  Create({"admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings",
          "ValidatingAdmissionPolicyBinding"},
         {{"metadata", {{"name", name_space_}}},
          {"spec", {{"policyName", name_space_}, {"validationActions", {"Deny"}}}}});
  ASSERT_TRUE(Eventually([&] {
    const Json pod = {{"metadata",
                       {{"name", "probe"},
                        {"namespace", name_space_},
                        {"labels", {{"app", "nvidia-driver-image-check"}}}}},
                      {"spec",
                       {{"nodeName", node},
                        {"terminationGracePeriodSeconds", 0},
                        {"containers", Json::array({{{"name", "c"}, {"image", "i"}}})}}}};
    const auto made = client_->Create(kube::kPods, pod);
    if (made) {
      // The operator may have been faster: nobody waits for what it says.
      const auto deleted = client_->Delete(kube::kPods, Own("probe"));
      EXPECT_TRUE(deleted || deleted.error().code == base::Code::kNotFound);
    }
    return !made && made.error().message.contains("not here");
  })) << "the server refuses them";
  ChangeDriver("590.3.4");
  ASSERT_TRUE(Settles());
  EXPECT_TRUE(Eventually([&] {
    const auto events = EventsOf(node);
    return std::ranges::any_of(events, [](const std::string& event) {
      return event.contains("without a look at the image of the new driver") &&
             event.contains("not here");
    });
  })) << "and that is told";
}

}  // namespace
}  // namespace pitcrew::gpu_operator::testing
