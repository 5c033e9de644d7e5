// What NVIDIADriver objects need: drivers of several owners side by side, each for its own pool of
// nodes, from facts about those nodes alone.
#include "desired/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "api/labels.h"
#include "codec/yaml.h"
#include "desired/node_totals.h"
#include "desired/owned_object.h"
#include "desired/removal.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using codec::Json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kPoolLabel = "example.com/pool";

// The facts about a pool whose nodes run one version of Ubuntu.
Facts PoolFacts(const std::string& version, std::size_t nodes) {
  NodeTotals totals;
  for (std::size_t i = 0; i < nodes; ++i) {
    Json node = testing::PlainCluster()["nodes"][0];
    node["metadata"]["name"] = fmt::format("node-{}", i);
    node["metadata"]["labels"][std::string(api::kOsReleaseVersionId)] = version;
    totals.Add(*ReadNode(node));
  }
  Facts facts = testing::ReadCluster(testing::PlainCluster());
  totals.Fill(facts);
  return facts;
}

// Two pools of one cluster, whose nodes run different systems.
struct TwoPools {
  Facts training = PoolFacts("22.04", 1);
  Facts inference = PoolFacts("24.04", 2);
};

// A driver of one owner for one pool.
std::vector<Json> RenderDriver(const std::string& owner, const std::string& version,
                               const Facts& facts) {
  // The policy's own driver is another one; what is common to all operands comes from the policy.
  const auto policy = api::ReadClusterPolicy(testing::MinimalPolicy(
      {{"driver", {{"repository", "policy.test"}, {"image", "driver"}, {"version", "1"}}}}));
  const auto described = api::ReadClusterPolicy(testing::MinimalPolicy(
      {{"driver", {{"repository", "owner.test"}, {"image", "driver"}, {"version", version}}},
       {"gdrcopy",
        {{"enabled", version == "580"},
         {"repository", "owner.test"},
         {"image", "gdrdrv"},
         {"version", "v2"}}}}));
  const DriverSpec spec{.driver = described->driver,
                        .gds = described->gds,
                        .gdrcopy = described->gdrcopy,
                        .pool = {.name = owner, .os = **facts.os, .nodes = facts.gpu_nodes},
                        .host_root = "/host-root"};
  const DefaultImages images = testing::TestImages();
  const Context context{
      .policy = *policy,
      .facts = facts,
      .images = images,
      .operator_namespace = "gpu-operator",
      .owner = Owner{.api_version = "nvidia.com/v1alpha1",
                     .kind = "NVIDIADriver",
                     .name = owner,
                     .uid = owner + "-uid"},
      .driver_spec = &spec,
      .placement = Placement{.daemonset = "nvidia-gpu-driver-" + owner,
                             .name = "nvidia-gpu-driver-" + owner + "-rbac",
                             .node_selector = {{std::string(kPoolLabel), owner}}}};
  auto objects = RenderObjects(Operands().Named("driver"), context);
  EXPECT_TRUE(objects) << objects.error().ToString();
  return objects ? *objects : std::vector<Json>{};
}

const Json& DaemonSetOf(const std::vector<Json>& objects) {
  for (const Json& object : objects) {
    if (object["kind"] == "DaemonSet") return object;
  }
  static const Json kNone;
  return kNone;
}

TEST(Placement, TwoDriversOfTwoOwnersForTwoPools) {
  const TwoPools pools;
  const auto training = RenderDriver("training", "570", pools.training);
  const auto inference = RenderDriver("inference", "580", pools.inference);
  ASSERT_THAT(training, SizeIs(inference.size()));

  const Json& one = DaemonSetOf(training);
  const Json& other = DaemonSetOf(inference);
  EXPECT_EQ(testing::ContainerOf(one, "nvidia-driver-ctr")["image"],
            "owner.test/driver:570-ubuntu22.04");
  EXPECT_EQ(testing::ContainerOf(other, "nvidia-driver-ctr")["image"],
            "owner.test/driver:580-ubuntu24.04");
  EXPECT_FALSE(testing::HasContainer(one, "nvidia-gdrcopy-ctr"));
  EXPECT_TRUE(testing::HasContainer(other, "nvidia-gdrcopy-ctr"));
  EXPECT_EQ(
      one["spec"]["template"]["spec"]["nodeSelector"],
      (Json{{std::string(api::kDeployDriver), "true"}, {std::string(kPoolLabel), "training"}}));
  EXPECT_EQ(testing::VolumeOf(one, "host-root")["hostPath"]["path"], "/host-root");

  std::set<std::pair<std::string, std::string>> names;
  for (const auto* objects : {&training, &inference}) {
    for (const Json& object : *objects) {
      // Nothing of the one is in the way of the other.
      EXPECT_TRUE(names.emplace(object["kind"], object["metadata"]["name"]).second) << object;
    }
  }
  for (const Json& object : training) {
    EXPECT_EQ(object["metadata"]["ownerReferences"][0]["kind"], "NVIDIADriver");
    EXPECT_EQ(object["metadata"]["ownerReferences"][0]["uid"], "training-uid");
  }
}

// The names hang together: account, bindings, label, selector, volumes.
TEST(Placement, ReferencesFollowTheNames) {
  const TwoPools pools;
  const auto objects = RenderDriver("training", "570", pools.training);
  const std::string name = "nvidia-gpu-driver-training-rbac";
  std::set<std::string> config_maps;
  for (const Json& object : objects) {
    if (object["kind"] == "ConfigMap") config_maps.insert(object["metadata"]["name"]);
    if (object["kind"] == "DaemonSet") continue;
    EXPECT_THAT(object["metadata"]["name"].get<std::string>(), HasSubstr(name));
    if (object.contains("roleRef")) {
      EXPECT_EQ(object["roleRef"]["name"], name);
    }
    if (object.contains("subjects")) {
      EXPECT_EQ(object["subjects"][0]["name"], name);
    }
  }
  const Json& daemonset = DaemonSetOf(objects);
  EXPECT_EQ(daemonset["metadata"]["name"], "nvidia-gpu-driver-training");
  EXPECT_EQ(daemonset["spec"]["selector"]["matchLabels"]["app"], "nvidia-gpu-driver-training");
  EXPECT_EQ(daemonset["spec"]["template"]["metadata"]["labels"]["app"],
            "nvidia-gpu-driver-training");
  EXPECT_EQ(daemonset["spec"]["template"]["spec"]["serviceAccountName"], name);
  EXPECT_EQ(config_maps, (std::set<std::string>{name + "-startup-probe"}));
  EXPECT_EQ(testing::VolumeOf(daemonset, "driver-startup-probe-script")["configMap"]["name"],
            name + "-startup-probe");
}

// A pool with two kernels is two pools when drivers are precompiled.
TEST(Placement, IsForOneDaemonSet) {
  std::vector<Object> objects = {{{"kind", "ServiceAccount"}, {"metadata", {{"name", "x"}}}},
                                 {{"kind", "DaemonSet"}, {"metadata", {{"name", "x-a"}}}},
                                 {{"kind", "DaemonSet"}, {"metadata", {{"name", "x-b"}}}}};
  const auto placed = Place(objects, {.daemonset = "pool", .name = "x"});
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().reason, "NotPlaceable");
}

// What one owner no longer wants is its own to remove, whatever another owner has.
TEST(Placement, RemovalsAreTheOwners) {
  const TwoPools pools;
  const auto training = RenderDriver("training", "570", pools.training);
  const auto inference = RenderDriver("inference", "580", pools.inference);
  std::vector<StandingObject> standing;
  for (const auto* objects : {&inference, &training}) {
    for (const Json& object : *objects) standing.push_back(StandingOf(*KindOf(object), object));
  }
  const Operand& driver = Operands().Named("driver");
  const std::vector<RenderedOperand> wanted = {
      {.operand = &driver, .mode = Mode::kEnabled, .objects = training}};
  EXPECT_THAT(DecideRemovals(wanted, standing, "training-uid"), IsEmpty());
  const std::vector<RenderedOperand> nothing = {
      {.operand = &driver, .mode = Mode::kEnabled, .objects = std::vector<Json>{}}};
  const auto removals = DecideRemovals(nothing, standing, "training-uid");
  EXPECT_THAT(removals, SizeIs(training.size()));
  for (const Removal& removal : removals) EXPECT_EQ(removal.object.owner_uid, "training-uid");
}

}  // namespace
}  // namespace pitcrew::desired
