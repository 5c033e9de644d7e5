// Which NVIDIADriver a node gets its driver from: operator-behaviour.md #38, #40, section 7.5.
#include "desired/driver_objects/assignment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "api/labels.h"
#include "codec/yaml.h"
#include "desired/node_labels.h"

namespace pitcrew::desired {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Drivers = std::vector<std::shared_ptr<const DriverView>>;

std::shared_ptr<const DriverView> View(const std::string& name, const std::string& spec,
                                       bool deleting = false) {
  const auto object = codec::ParseYaml(fmt::format(
      "{{apiVersion: nvidia.com/v1alpha1, kind: NVIDIADriver, metadata: {{name: {}}}, spec: {}}}",
      name, spec));
  EXPECT_TRUE(object) << object.error().ToString();
  DriverView view = *ReadDriverView(*object);
  view.deleting = deleting;
  return std::make_shared<const DriverView>(std::move(view));
}

Labels LabelsOf(const std::map<std::string, std::string>& labels) {
  Labels result;
  result.Add(api::kGpuPresent, "true");
  for (const auto& [key, value] : labels) result.Add(key, value);
  return result;
}

std::string NameOf(const DriverAssignment::Choice& choice) {
  return choice.open ? "open" : choice.driver == nullptr ? "none" : choice.driver->name;
}

std::string OwnerOf(const Drivers& drivers, const std::map<std::string, std::string>& labels) {
  const DriverAssignment assignment(drivers);
  return NameOf(assignment.Of(LabelsOf(labels)));
}

TEST(DriverAssignment, TheSpecificDriverComesBeforeTheDefault) {
  RecordProperty("holds", "operator-behaviour.md #38, driver-lifecycle.md #55");
  const Drivers drivers = {View("fallback", "{default: true}"),
                           View("training", "{nodeSelector: {pool: training}}")};
  EXPECT_EQ(OwnerOf(drivers, {{"pool", "training"}}), "training");
  EXPECT_EQ(OwnerOf(drivers, {{"pool", "other"}}), "fallback");
  EXPECT_EQ(OwnerOf(drivers, {}), "fallback");
  EXPECT_EQ(OwnerOf({drivers[1]}, {{"pool", "other"}}), "none");
  EXPECT_EQ(OwnerOf({}, {}), "none");
}

TEST(DriverAssignment, NoSelectorIsEveryNodeWithAGpu) {
  EXPECT_EQ(OwnerOf({View("all", "{}")}, {}), "all");
  EXPECT_EQ(OwnerOf({View("all", "{}")}, {{std::string(api::kGpuPresent), "false"}}), "none");
  // An empty one names no label that a node would have to have.
  EXPECT_EQ(
      OwnerOf({View("all", "{nodeSelector: {}}")}, {{std::string(api::kGpuPresent), "false"}}),
      "all");
}

TEST(DriverAssignment, DriversByTheirNames) {
  const Drivers drivers = {View("a", "{}"), View("b", "{default: true}")};
  const DriverAssignment assignment(drivers);
  ASSERT_NE(assignment.Named("b"), nullptr);
  EXPECT_EQ(assignment.Named("b")->name, "b");
  EXPECT_EQ(assignment.Named("c"), nullptr);
  EXPECT_EQ(assignment.Named(""), nullptr);
}

// "default" is the field, not the name.
TEST(DriverAssignment, TheNameSaysNothing) {
  const Drivers drivers = {View("default", "{}"), View("other", "{default: true}")};
  EXPECT_EQ(OwnerOf(drivers, {}), "default");
}

TEST(DriverAssignment, ADriverThatIsBeingDeletedGetsNoNodes) {
  EXPECT_EQ(OwnerOf({View("old", "{}", true), View("new", "{default: true}")}, {}), "new");
  EXPECT_EQ(OwnerOf({View("a", "{default: true}", true), View("b", "{default: true}")}, {}), "b");
}

// A node that two drivers select keeps what it has; no other node waits for it.
TEST(DriverAssignment, RivalsLeaveTheNodeAsItIs) {
  RecordProperty("holds", "operator-behaviour.md #40");
  const Drivers drivers = {View("b", "{nodeSelector: {rack: '7'}}"),
                           View("a", "{nodeSelector: {pool: training}}"),
                           View("fallback", "{default: true}")};
  const DriverAssignment assignment(drivers);
  const auto choice = assignment.Of(LabelsOf({{"pool", "training"}, {"rack", "7"}}));
  EXPECT_TRUE(choice.open);
  EXPECT_THAT(choice.rivals, ElementsAre("a", "b"));
  EXPECT_EQ(OwnerOf(drivers, {{"pool", "training"}}), "a");
  EXPECT_EQ(OwnerOf(drivers, {}), "fallback");
}

TEST(DriverAssignment, SeveralDefaultsAreNone) {
  const Drivers drivers = {View("default-b", "{default: true}"),
                           View("default-a", "{default: true}"),
                           View("training", "{nodeSelector: {pool: training}}")};
  EXPECT_THAT(DriverAssignment(drivers).rival_defaults(), ElementsAre("default-a", "default-b"));
  EXPECT_EQ(OwnerOf(drivers, {}), "open");
  EXPECT_EQ(OwnerOf(drivers, {{"pool", "training"}}), "training");
}

// Who is meant cannot be known, and so no node changes hands.
TEST(DriverAssignment, ASelectorThatCannotBeFollowedLeavesAllNodesAsTheyAre) {
  const auto wrong = {
      fmt::format("{{nodeSelector: {{{}: x}}}}", api::kDriverOwner),
      std::string("{default: true, nodeSelector: {pool: a}}"),
      std::string("{nodeSelector: {pool: 3}}"),
  };
  for (const std::string& spec : wrong) {
    EXPECT_EQ(OwnerOf({View("wrong", spec), View("right", "{}")}, {}), "open") << spec;
  }
}

TEST(DriverAssignment, ProblemsNameTheField) {
  EXPECT_EQ(SelectorProblem(View("a", "{}")->driver), "");
  EXPECT_EQ(SelectorProblem(View("a", "{default: true, nodeSelector: {}}")->driver), "");
  EXPECT_THAT(SelectorProblem(View("a", "{default: true, nodeSelector: {a: b}}")->driver),
              HasSubstr("spec.nodeSelector: a default NVIDIADriver"));
  EXPECT_THAT(SelectorProblem(
                  View("a", fmt::format("{{nodeSelector: {{{}: a}}}}", api::kDriverOwner))->driver),
              HasSubstr("spec.nodeSelector: the label nvidia.com/gpu-operator.driver.owner"));
}

TEST(DriverAssignment, TheLabelsOfAllSelectorsAreLookedAt) {
  const Drivers drivers = {View("a", "{nodeSelector: {pool: a, rack: b}}"), View("b", "{}")};
  EXPECT_THAT(DriverAssignment(drivers).keys(), ElementsAre("pool", "rack"));
  EXPECT_THAT(DriverAssignment({}).keys(), IsEmpty());
  EXPECT_NE(DriverAssignment(drivers).Named("a"), nullptr);
  EXPECT_EQ(DriverAssignment(drivers).Named("c"), nullptr);
}

// --- what the node is told: driver-lifecycle.md #55 ---

Node NodeWith(const std::map<std::string, std::string>& labels) {
  Node node;
  node.name = "gpu-1";
  node.nfd_labels = true;
  node.labels.Add(api::kPciVendorPresent, "true");
  for (const auto& [key, value] : labels) node.labels.Add(key, value);
  return node;
}

NodePolicy Delegating() {
  NodePolicy policy;
  policy.nvidia_driver_crd = true;
  return policy;
}

NodeDecision Decide(const Drivers& drivers, const Node& node) {
  NodePolicy policy = Delegating();
  policy.drivers = std::make_shared<const DriverAssignment>(drivers);
  return DecideNode(node, policy);
}

// "(unchanged)", "(removed)" or the value.
std::string ChangeOf(const Changes& changes, std::string_view key) {
  const auto found = changes.find(key);
  return found == changes.end() ? "(unchanged)" : found->second.value_or("(removed)");
}

const std::string kPresent{api::kGpuPresent};
const std::string kOwnerLabel{api::kDriverOwner};

TEST(DriverOwner, IsWrittenRemovedAndLeft) {
  const Drivers drivers = {View("training", "{nodeSelector: {pool: training}}")};
  const auto owner = [&](const std::map<std::string, std::string>& labels) {
    return ChangeOf(Decide(drivers, NodeWith(labels)).labels, api::kDriverOwner);
  };
  EXPECT_EQ(owner({{kPresent, "true"}, {"pool", "training"}}), "training");
  EXPECT_EQ(owner({{kPresent, "true"}, {"pool", "training"}, {kOwnerLabel, "other"}}), "training");
  EXPECT_EQ(owner({{kPresent, "true"}, {"pool", "training"}, {kOwnerLabel, "training"}}),
            "(unchanged)");
  EXPECT_EQ(owner({{kPresent, "true"}, {kOwnerLabel, "training"}}), "(removed)");
  EXPECT_EQ(owner({{kPresent, "true"}}), "(unchanged)");
  // The label that says that there is a GPU comes first: a selector may ask for it.
  EXPECT_EQ(owner({{"pool", "training"}}), "(unchanged)");
}

TEST(DriverOwner, StaysWhereNobodyCanSay) {
  const Node node = NodeWith({{kPresent, "true"}, {"pool", "training"}, {kOwnerLabel, "other"}});
  const Drivers rivals = {View("a", "{}"), View("b", "{}")};
  EXPECT_EQ(ChangeOf(Decide(rivals, node).labels, api::kDriverOwner), "(unchanged)");
  const NodeDecision unread = DecideNode(node, Delegating());
  EXPECT_EQ(ChangeOf(unread.labels, api::kDriverOwner), "(unchanged)");
  // Of a policy that describes the driver itself: the label keeps pods on the node.
  EXPECT_EQ(ChangeOf(DecideNode(node, {}).labels, api::kDriverOwner), "(unchanged)");
}

TEST(DriverOwner, GoesWithTheGpu) {
  Node node;
  node.name = "gpu-1";
  node.nfd_labels = true;
  node.labels.Add(api::kGpuPresent, "true");
  node.labels.Add(api::kDriverOwner, "a");
  const NodeDecision decision = Decide({View("a", "{}")}, node);
  EXPECT_TRUE(decision.removes_gpu);
  EXPECT_EQ(ChangeOf(decision.labels, api::kDriverOwner), "(removed)");
}

// It says that the operator sends pods away before a driver goes; elsewhere the driver manager has
// to.
TEST(DriverOwner, SaysWhetherItsDriverIsUpgraded) {
  RecordProperty("holds", "driver-lifecycle.md #64; operator-behaviour.md #36");
  const auto annotation = [](const Drivers& drivers, std::string_view standing) {
    Node node = NodeWith({{kPresent, "true"}});
    node.upgrade_enabled = standing;
    return ChangeOf(Decide(drivers, node).annotations, api::kUpgradeEnabledAnnotation);
  };
  const Drivers upgraded = {View("a", "{}")};
  EXPECT_EQ(annotation(upgraded, ""), "true");
  EXPECT_EQ(annotation(upgraded, "false"), "true");
  EXPECT_EQ(annotation(upgraded, "true"), "(unchanged)");
  const Drivers by_hand = {View("a", "{upgradePolicy: {autoUpgrade: false}}")};
  EXPECT_EQ(annotation(by_hand, "true"), "(removed)");
  EXPECT_EQ(annotation(by_hand, ""), "(unchanged)");
  EXPECT_EQ(annotation({}, "true"), "(removed)");
  EXPECT_EQ(annotation({View("a", "{driverType: vgpu-host-manager}")}, "true"), "(removed)");
  // Two that select the node: nobody can say.
  EXPECT_EQ(annotation({View("a", "{}"), View("b", "{}")}, "true"), "(unchanged)");
}

// Also beside virtual machines, on the nodes of containers.
TEST(DriverOwner, SaysSoBesideVirtualMachines) {
  NodePolicy policy = Delegating();
  policy.drivers = std::make_shared<const DriverAssignment>(Drivers{View("a", "{}")});
  policy.sandbox_enabled = true;
  policy.default_workload = Workload::kContainer;
  const auto annotation = [&](const std::string& workload) {
    const Node node = NodeWith({{kPresent, "true"}, {std::string(api::kWorkloadConfig), workload}});
    return ChangeOf(DecideNode(node, policy).annotations, api::kUpgradeEnabledAnnotation);
  };
  EXPECT_EQ(annotation("container"), "true");
  EXPECT_EQ(annotation("vm-passthrough"), "(unchanged)");
}

}  // namespace
}  // namespace pitcrew::desired
