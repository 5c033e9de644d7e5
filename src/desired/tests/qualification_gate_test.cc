// No GPU pod before a node's GPUs have passed (docs/qualification.md).
#include "desired/qualification_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "kube/projection.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

constexpr const char* kGateLabel = "nvidia.com/gpu-operator.qualification";

struct GateNode {
  bool known = false;  // has been found to have a GPU before
  bool held = false;
  std::string state = {};
  bool offers = false;
  std::map<std::string, std::string> labels = {};
};

Json GateObject(const GateNode& facts) {
  Json object = {{"metadata", {{"name", "n"}, {"labels", facts.labels}}}};
  auto& labels = object["metadata"]["labels"];
  labels["feature.node.kubernetes.io/pci-10de.present"] = "true";
  if (facts.known) labels["nvidia.com/gpu.present"] = "true";
  if (!facts.state.empty()) labels[kGateLabel] = facts.state;
  Json team = {{"key", "team"}, {"value", "a"}, {"effect", "NoSchedule"}};
  object["spec"] = {{"taints", Json::array({team})}};
  if (facts.held) {
    object["spec"]["taints"].push_back(
        {{"key", "nvidia.com/gpu-operator.not-qualified"}, {"effect", "NoSchedule"}});
  }
  object["status"] = {{"allocatable", {{"cpu", "8"}}}};
  if (facts.offers) object["status"]["allocatable"]["nvidia.com/gpu"] = "8";
  return object;
}

NodePolicy GateRequired() {
  NodePolicy policy;
  policy.qualification_required = true;
  return policy;
}

NodeDecision DecideGate(const GateNode& facts, const NodePolicy& policy = GateRequired()) {
  return DecideNode(*ReadNode(GateObject(facts)), policy);
}

// What the decision makes of the label; "(same)" when nothing.
std::string StateAfterGate(const NodeDecision& decision) {
  const auto found = decision.labels.find(kGateLabel);
  if (found == decision.labels.end()) return "(same)";
  return found->second.value_or("(none)");
}

TEST(QualificationGate, ANodeThatJoinsIsHeldInTheWriteThatFindsItsGpu) {
  for (const char* state : {"", "passed", "failed", "running"}) {
    const auto decision = DecideGate({.state = state});
    EXPECT_EQ(decision.taint, TaintChange::kPut) << state;
    EXPECT_EQ(StateAfterGate(decision), "pending") << "a result of before proves nothing yet";
    EXPECT_THAT(decision.labels, Contains(Key("nvidia.com/gpu.present")));
  }
  // The kubelet may have registered it so.
  const auto registered = DecideGate({.held = true});
  EXPECT_EQ(registered.taint, TaintChange::kNone);
  EXPECT_EQ(StateAfterGate(registered), "pending");
}

TEST(QualificationGate, NodesThatMayRunGpuPodsAreLeftAlone) {
  EXPECT_TRUE(DecideGate({.known = true}).taint == TaintChange::kNone);
  EXPECT_EQ(DecideGate({.known = true, .state = "failed"}).taint, TaintChange::kNone);
  const auto offering = DecideGate({.offers = true});
  EXPECT_EQ(offering.taint, TaintChange::kNone);
  EXPECT_EQ(StateAfterGate(offering), "(same)");
}

TEST(QualificationGate, OnlyAPassOpensIt) {
  for (const char* state : {"pending", "running", "failed"}) {
    const auto decision = DecideGate({.known = true, .held = true, .state = state});
    EXPECT_EQ(decision.taint, TaintChange::kNone) << state;
    EXPECT_EQ(StateAfterGate(decision), "(same)") << state;
  }
  EXPECT_EQ(DecideGate({.known = true, .held = true, .state = "passed"}).taint,
            TaintChange::kRemove);
  // A qualification that was broken off begins again.
  EXPECT_EQ(StateAfterGate(DecideGate({.known = true, .held = true})), "pending");
}

TEST(QualificationGate, WhereNobodyWouldTestNothingIsHeld) {
  const auto label = [](const char* key, const char* value) {
    return std::map<std::string, std::string>{{key, value}};
  };
  NodePolicy machines = GateRequired();
  machines.sandbox_enabled = true;
  machines.sandbox_mode = "kubevirt";
  for (const auto& [labels, policy] :
       {std::pair(label("nvidia.com/gpu.deploy.operands", "false"), GateRequired()),
        std::pair(label("nvidia.com/gpu.deploy.operator-validator", "false"), GateRequired()),
        std::pair(label("nvidia.com/gpu.workload.config", "vm-passthrough"), machines)}) {
    EXPECT_EQ(DecideGate({.labels = labels}, policy).taint, TaintChange::kNone);
    const auto held =
        DecideGate({.known = true, .held = true, .state = "pending", .labels = labels}, policy);
    EXPECT_EQ(held.taint, TaintChange::kRemove);
    EXPECT_EQ(StateAfterGate(held), "(none)");
  }
}

TEST(QualificationGate, OffIsAsIfItWereNotThere) {
  const auto joins = DecideGate({}, NodePolicy());
  EXPECT_EQ(joins.taint, TaintChange::kNone);
  EXPECT_THAT(joins.labels, Not(Contains(Key(kGateLabel))));
  // Switched off: what waits is let go, and a verdict stays told.
  const auto waits = DecideGate({.known = true, .held = true, .state = "pending"}, NodePolicy());
  EXPECT_EQ(waits.taint, TaintChange::kRemove);
  EXPECT_EQ(StateAfterGate(waits), "(none)");
  const auto failed = DecideGate({.known = true, .held = true, .state = "failed"}, NodePolicy());
  EXPECT_EQ(failed.taint, TaintChange::kRemove);
  EXPECT_EQ(StateAfterGate(failed), "(same)");
}

TEST(QualificationGate, ANodeThatLosesItsGpuIsLetGoAndOneThatHasNoneYetIsNot) {
  Json object = GateObject({.known = true, .held = true, .state = "pending"});
  object["metadata"]["labels"].erase("feature.node.kubernetes.io/pci-10de.present");
  object["metadata"]["labels"]["feature.node.kubernetes.io/kernel-version.full"] = "6.1";
  EXPECT_EQ(DecideNode(*ReadNode(object), GateRequired()).taint, TaintChange::kRemove);
  object["metadata"]["labels"].erase("nvidia.com/gpu.present");
  EXPECT_EQ(DecideNode(*ReadNode(object), GateRequired()).taint, TaintChange::kNone);
  EXPECT_EQ(DecideNode(*ReadNode(object), NodePolicy()).taint, TaintChange::kRemove);
}

TEST(QualificationGate, TaintsOfOthersStay) {
  const Json node = GateObject({});
  const Json put = TaintsAfter(node, TaintChange::kPut);
  ASSERT_EQ(put.size(), 2u);
  EXPECT_EQ(put[0], node["spec"]["taints"][0]);
  EXPECT_EQ(put[1],
            Json({{"key", "nvidia.com/gpu-operator.not-qualified"}, {"effect", "NoSchedule"}}));
  const Json held = GateObject({.held = true});
  EXPECT_EQ(TaintsAfter(held, TaintChange::kPut), put) << "never twice";
  EXPECT_EQ(TaintsAfter(held, TaintChange::kRemove), node["spec"]["taints"]);
  EXPECT_EQ(TaintsAfter(held, TaintChange::kNone), held["spec"]["taints"]);
  EXPECT_TRUE(TaintsAfter({{"metadata", {{"name", "n"}}}}, TaintChange::kRemove).is_null());
}

// The two readers of nodes see the same.
TEST(QualificationGate, TheTaintIsReadFromTextToo) {
  for (const bool held : {true, false}) {
    auto text = codec::ToJsonText(GateObject({.held = held, .offers = true}));
    text.append(kube::kReadablePadding, '\0');
    const auto node =
        ReadNodeText(std::string_view(text).substr(0, text.size() - kube::kReadablePadding));
    ASSERT_TRUE(node) << node.error().ToString();
    EXPECT_EQ(node->held_for_qualification, held);
    EXPECT_TRUE(node->offers_gpu);
  }
}

}  // namespace
}  // namespace pitcrew::desired
