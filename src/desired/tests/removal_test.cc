// Which objects are removed: the one function behind the operator and `pitcrew plan`.
#include "desired/removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/labels.h"
#include "desired/owned_object.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::string_view kUid = "uid-of-the-policy";

const Operand& OperandOf(std::string_view state) {
  return *std::ranges::find(Operands(), state, &Operand::state);
}

Json MakeObject(const std::string& version, const std::string& kind, const std::string& name) {
  return {{"apiVersion", version}, {"kind", kind}, {"metadata", {{"name", name}}}};
}

StandingObject Standing(const Json& object, std::string state) {
  return {.kind = KindOf(object),
          .key = kube::KeyOf(object),
          .uid = "uid-of-" + kube::KeyOf(object).name,
          .owner_uid = std::string(kUid),
          .state = std::move(state)};
}

const Json kExporter = MakeObject("apps/v1", "DaemonSet", "exporter");
const Json kExporterService = MakeObject("v1", "Service", "exporter");
const Json kExporterRole = MakeObject("rbac.authorization.k8s.io/v1", "ClusterRole", "exporter");
constexpr std::string_view kExporterState = "state-dcgm-exporter";

std::vector<StandingObject> WholeExporter() {
  std::vector<StandingObject> standing;
  for (const Json& object : {kExporter, kExporterService, kExporterRole}) {
    standing.push_back(Standing(object, std::string(kExporterState)));
  }
  return standing;
}

RenderedOperand Rendered(std::string_view state, Mode mode, std::vector<Json> objects = {}) {
  return {.operand = &OperandOf(state), .mode = mode, .objects = std::move(objects)};
}

// "DaemonSet exporter: why", in order.
std::vector<std::string> Told(const std::vector<RenderedOperand>& rendered,
                              const std::vector<StandingObject>& standing,
                              std::string_view uid = kUid) {
  std::vector<std::string> told;
  for (const Removal& removal : DecideRemovals(rendered, standing, uid)) {
    told.push_back(std::string(removal.object.kind->kind) + " " + removal.object.key.name + ": " +
                   std::string(ToString(removal.reason)));
  }
  return told;
}

// A disabled operand's objects are all deleted.
TEST(Removal, OfADisabledOperandEverythingGoes) {
  RecordProperty("holds", "operator-behaviour.md #26");
  EXPECT_THAT(Told({Rendered(kExporterState, Mode::kDisabled)}, WholeExporter()),
              ElementsAre("DaemonSet exporter: the operand is switched off",
                          "Service exporter: the operand is switched off",
                          "ClusterRole exporter: the operand is switched off"));
}

TEST(Removal, OfAnEnabledOperandWhatItNoLongerMakesGoes) {
  EXPECT_THAT(
      Told({Rendered(kExporterState, Mode::kEnabled, {kExporter, kExporterRole})}, WholeExporter()),
      ElementsAre("Service exporter: no longer part of the operand"));
}

// What the user brings instead of a manifest's object is neither made nor removed.
TEST(Removal, WhatIsLeftAloneStays) {
  RenderedOperand rendered = Rendered(kExporterState, Mode::kEnabled, {kExporter, kExporterRole});
  rendered.left_alone = {kExporterService};
  EXPECT_THAT(Told({rendered}, WholeExporter()), IsEmpty());
}

// operator-behaviour.md #27, section 6.1: without GPU nodes no DaemonSet is made, and none is lost.
TEST(Removal, WithheldDaemonSetsStay) {
  RecordProperty("holds", "operator-behaviour.md #27");
  RecordProperty("holds", "operator-behaviour.md #27");
  RenderedOperand rendered = Rendered(kExporterState, Mode::kEnabled, {kExporterRole});
  rendered.daemonsets_withheld = true;
  EXPECT_THAT(Told({rendered}, WholeExporter()),
              ElementsAre("Service exporter: no longer part of the operand"));
}

// Only the DaemonSets of a driver that NVIDIADriver objects take over go, and their pods stay.
TEST(Removal, DelegatedDaemonSetsLeaveTheirPods) {
  const std::vector<RenderedOperand> rendered = {Rendered(kExporterState, Mode::kDelegated)};
  const auto removals = DecideRemovals(rendered, WholeExporter(), kUid);
  ASSERT_EQ(removals.size(), 1u);
  EXPECT_EQ(removals[0].object.key.name, "exporter");
  EXPECT_EQ(*removals[0].object.kind, kube::kDaemonSets);
  EXPECT_EQ(removals[0].reason, RemovalReason::kDelegated);
  EXPECT_TRUE(removals[0].orphans_pods);
}

// The driver of a node goes on under the DaemonSet that takes the place of another; only drivers
// are upgraded node by node.
TEST(Removal, ADriversDaemonSetPassesItsPodsOnToThoseThatTakeItsPlace) {
  Json newer = MakeObject("apps/v1", "DaemonSet", "nvidia-driver-daemonset-6.8.0");
  newer["metadata"]["labels"][std::string(api::kComponentLabel)] = api::kDriverComponent;
  const Json former = MakeObject("apps/v1", "DaemonSet", "nvidia-driver-daemonset");
  const Json service = MakeObject("v1", "Service", "driver");
  const std::vector<StandingObject> standing = {Standing(former, "state-driver"),
                                                Standing(service, "state-driver")};
  const auto removals = [&](Mode mode, std::vector<Json> objects) {
    const std::vector<RenderedOperand> rendered = {Rendered("state-driver", mode, objects)};
    return DecideRemovals(rendered, standing, kUid);
  };
  auto decided = removals(Mode::kEnabled, {newer});
  ASSERT_EQ(decided.size(), 2u);
  EXPECT_TRUE(decided[0].passes_pods_on);
  EXPECT_FALSE(decided[0].orphans_pods);
  EXPECT_FALSE(decided[1].passes_pods_on) << "no DaemonSet";
  // Switched off, or with drivers that nobody upgrades, there is nobody to pass them on to.
  EXPECT_FALSE(removals(Mode::kDisabled, {})[0].passes_pods_on);
  newer["metadata"]["labels"][std::string(api::kComponentLabel)] = "nvidia-vgpu-host-manager";
  EXPECT_FALSE(removals(Mode::kEnabled, {newer})[0].passes_pods_on);
}

Json DaemonSetOfDriver(const std::string& name, const Json& owners, const std::string& driver) {
  Json daemonset = MakeObject("apps/v1", "DaemonSet", name);
  daemonset["metadata"]["labels"] = {{std::string(api::kStateLabel), "state-driver"}};
  if (!owners.is_null()) daemonset["metadata"]["ownerReferences"] = owners;
  daemonset["spec"]["template"]["spec"]["nodeSelector"] = {
      {std::string(api::kDriverOwner), driver}};
  return daemonset;
}

Json OwnedByDriver(const std::string& name, const std::string& uid) {
  return {{"apiVersion", "nvidia.com/v1alpha1"},
          {"kind", "NVIDIADriver"},
          {"name", name},
          {"uid", uid},
          {"controller", true}};
}

// A NVIDIADriver that was deleted and made anew has DaemonSets of other names. What the former one
// left goes, without its pods, once the new one's stand; what may be anybody else's stays.
TEST(Removal, WhatAFormerNvidiaDriverOfTheNameLeftGoesWithoutItsPods) {
  Json of_policy = OwnedByDriver("training", "1");
  of_policy["kind"] = "ClusterPolicy";
  Json of_somebody = OwnedByDriver("training", "1");
  of_somebody["apiVersion"] = "example.com/v1";
  Json no_controller = OwnedByDriver("training", "1");
  no_controller["controller"] = false;
  Json of_no_operand = DaemonSetOfDriver("no-operand", nullptr, "training");
  of_no_operand["metadata"].erase("labels");
  const Json newer =
      DaemonSetOfDriver("newer", Json::array({OwnedByDriver("training", "2")}), "training");
  const Json service = MakeObject("v1", "Service", "driver");
  std::vector<StandingObject> standing;
  for (const Json& object :
       {newer,
        DaemonSetOfDriver("former", Json::array({OwnedByDriver("training", "1")}), "training"),
        DaemonSetOfDriver("orphan", nullptr, "training"),
        DaemonSetOfDriver("of-none", Json::array(), "training"),
        DaemonSetOfDriver("of-policy", Json::array({of_policy}), "training"),
        DaemonSetOfDriver("of-somebody", Json::array({of_somebody}), "training"),
        DaemonSetOfDriver("shared", Json::array({OwnedByDriver("training", "1"), of_somebody}),
                          "training"),
        DaemonSetOfDriver("no-controller", Json::array({no_controller}), "training"),
        DaemonSetOfDriver("renamed", Json::array({OwnedByDriver("other", "1")}), "training"),
        DaemonSetOfDriver("other", nullptr, "other"), DaemonSetOfDriver("all", nullptr, ""),
        of_no_operand}) {
    standing.push_back(StandingOf(kube::kDaemonSets, object));
  }
  const auto removed = [&](const RenderedOperand& rendered, std::string_view driver) {
    std::vector<std::string> names;
    for (const Removal& removal :
         DecideRemovals({&rendered, 1}, standing, "2", Operands(), driver)) {
      EXPECT_EQ(removal.reason, RemovalReason::kFormerObject);
      EXPECT_TRUE(removal.orphans_pods);
      EXPECT_FALSE(removal.passes_pods_on);
      names.push_back(removal.object.key.name);
    }
    return names;
  };
  const auto enabled = Rendered("state-driver", Mode::kEnabled, {newer});
  EXPECT_THAT(removed(enabled, "training"), ElementsAre("former", "orphan", "of-none"));
  EXPECT_THAT(removed(enabled, ""), IsEmpty()) << "the ClusterPolicy";
  standing.erase(standing.begin());
  EXPECT_THAT(removed(Rendered("state-driver", Mode::kDelegated), "training"),
              ElementsAre("former", "orphan", "of-none"));
  // Nothing takes their place.
  EXPECT_THAT(removed(Rendered("state-driver", Mode::kEnabled, {service}), "training"), IsEmpty());
  EXPECT_THAT(removed(Rendered("state-driver", Mode::kDisabled), "training"), IsEmpty());
  EXPECT_THAT(removed(Rendered(kExporterState, Mode::kEnabled, {kExporter}), "training"),
              IsEmpty());
  RenderedOperand failed = Rendered("state-driver", Mode::kEnabled);
  failed.objects = base::Fail(base::Invalid("InvalidDriver", "spec.version: wrong"));
  EXPECT_THAT(removed(failed, "training"), IsEmpty());
}

TEST(Removal, WhatAnEarlierVersionMadeGoes) {
  const auto rendered = Rendered(kExporterState, Mode::kEnabled, {kExporter});
  EXPECT_THAT(Told({rendered}, {Standing(kExporterService, "state-of-old")}),
              ElementsAre("Service exporter: no operand has this state any more"));
  // Without a state it is nobody's.
  EXPECT_THAT(Told({rendered}, {Standing(kExporterService, "")}), IsEmpty());
}

// An operand that could not be rendered, or was not: nobody knows what it wants.
TEST(Removal, UnknownIsNotAbsent) {
  RenderedOperand failed = Rendered(kExporterState, Mode::kEnabled);
  failed.objects = base::Fail(base::Invalid("InvalidPolicy", "spec.dcgmExporter: wrong"));
  EXPECT_THAT(Told({failed}, WholeExporter()), IsEmpty());
  EXPECT_THAT(Told({}, WholeExporter()), IsEmpty());
  EXPECT_THAT(Told({Rendered("state-driver", Mode::kDisabled)}, WholeExporter()), IsEmpty());
}

// Another policy's objects, people's, those without owner, those that go already; and nothing at
// all for a policy that the server does not know.
TEST(Removal, OnlyThePolicysOwn) {
  const auto disabled = Rendered(kExporterState, Mode::kDisabled);
  for (const char* owner : {"another", ""}) {
    auto standing = WholeExporter();
    for (StandingObject& object : standing) object.owner_uid = owner;
    EXPECT_THAT(Told({disabled}, standing), IsEmpty()) << owner;
    EXPECT_THAT(Told({disabled}, standing, ""), IsEmpty()) << owner;
  }
  auto standing = WholeExporter();
  standing[0].deleting = true;
  EXPECT_THAT(Told({disabled}, standing), Not(Contains(::testing::HasSubstr("DaemonSet"))));
}

// An object that has moved from one operand to another is changed by its new one, not deleted by
// its old one.
TEST(Removal, WhatAnotherOperandWantsStays) {
  EXPECT_THAT(Told({Rendered(kExporterState, Mode::kDisabled),
                    Rendered("state-dcgm", Mode::kEnabled, {kExporterService})},
                   WholeExporter()),
              ElementsAre("DaemonSet exporter: the operand is switched off",
                          "ClusterRole exporter: the operand is switched off"));
}

// A name is only the same object's in the same namespace and kind.
TEST(Removal, NamespacesAndKindsTellObjectsApart) {
  Json elsewhere = kExporterService;
  elsewhere["metadata"]["namespace"] = "gpu-operator";
  EXPECT_THAT(Told({Rendered(kExporterState, Mode::kEnabled, {elsewhere})},
                   {Standing(kExporterService, std::string(kExporterState)),
                    Standing(elsewhere, std::string(kExporterState))}),
              ElementsAre("Service exporter: no longer part of the operand"));
}

// What the plain policy makes, read back as it would stand: nothing of it is ever removed by the
// policy that made it, and all of it by one that wants nothing.
TEST(Removal, TheWholeInventoryComesAndGoes) {
  const auto policy = api::ReadClusterPolicy(testing::MinimalPolicy(Json::object()));
  ASSERT_TRUE(policy);
  const Facts facts = testing::ReadCluster(testing::PlainCluster());
  const DefaultImages images = testing::TestImages();
  const Context context{
      .policy = *policy, .facts = facts, .images = images, .operator_namespace = "gpu-operator"};
  std::vector<RenderedOperand> rendered = Render(context);
  std::vector<StandingObject> standing;
  for (const RenderedOperand& operand : rendered) {
    ASSERT_TRUE(operand.objects) << operand.operand->state;
    for (const Json& object : *operand.objects) {
      standing.push_back(StandingOf(*KindOf(object), object));
      EXPECT_EQ(standing.back().state, operand.operand->state);
    }
  }
  ASSERT_GT(standing.size(), 50u);
  EXPECT_THAT(DecideRemovals(rendered, standing, policy->uid), IsEmpty());
  for (RenderedOperand& operand : rendered) {
    operand.mode = Mode::kDisabled;
    operand.objects = std::vector<Object>{};
    operand.left_alone.clear();
  }
  EXPECT_EQ(DecideRemovals(rendered, standing, policy->uid).size(), standing.size());
}

}  // namespace
}  // namespace pitcrew::desired
