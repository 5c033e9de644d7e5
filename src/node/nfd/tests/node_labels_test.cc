// What the master puts on nodes, as tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "node/nfd/node_labels.h"
#include "node/nfd/views.h"

namespace pitcrew::node::nfd {
namespace {

using codec::Json;
using ::testing::ElementsAre;

MasterConfig Config() {
  MasterConfig config;
  config.namespace_name = "own";
  return config;
}

MasterConfig ConfigOf(std::string_view yaml, const MasterOverrides& overrides = {}) {
  auto config = MakeMasterConfig({.file = *codec::ParseYaml(yaml), .options = Json::object()},
                                 overrides, "own");
  EXPECT_TRUE(config) << config.error().ToString();
  return *config;
}

KeyedNodeFeature Object(const std::string& space, const std::string& name, Labels labels) {
  return {{space, name}, {"node-a", std::move(labels)}};
}

Json Node(Labels labels, Labels annotations) {
  return {{"metadata", {{"name", "node-a"}, {"labels", labels}, {"annotations", annotations}}}};
}

const std::string kOwned = "nfd.node.kubernetes.io/feature-labels";

TEST(MergeLabels, OwnNamespaceThenNameThenNamespace) {
  RecordProperty("holds", "node-feature-discovery.md #59");
  const auto merged = MergeLabels(
      {Object("other", "node-a", {{"x", "2"}, {"y", "other"}}),
       Object("own", "node-a", {{"x", "1"}}), Object("another", "node-b", {{"y", "b"}})},
      Config());
  EXPECT_EQ(merged,
            (Labels{{"feature.node.kubernetes.io/x", "2"}, {"feature.node.kubernetes.io/y", "b"}}));
}

TEST(MergeLabels, APrefixedNameBeatsTheSameWithoutInOneObject) {  // section 8.3
  const auto merged = MergeLabels(
      {Object("own", "node-a", {{"a", "plain"}, {"feature.node.kubernetes.io/a", "prefixed"}})},
      Config());
  EXPECT_EQ(merged, (Labels{{"feature.node.kubernetes.io/a", "prefixed"}}));
}

TEST(MergeLabels, ThirdPartiesCanBeKeptOut) {  // section 8.2, denyNodeFeatureLabels
  const auto config = ConfigOf("restrictions: {denyNodeFeatureLabels: true}");
  const auto merged = MergeLabels(
      {Object("own", "node-a", {{"a.b/own", "1"}}), Object("own", "gfd", {{"a.b/foreign", "1"}}),
       Object("other", "node-a", {{"a.b/elsewhere", "1"}})},
      config);
  EXPECT_EQ(merged, (Labels{{"a.b/own", "1"}}));
}

struct FilterRow {
  std::string name;
  std::string value;
  bool accepted;
};

TEST(FilterLabels, NamespacesAndValues) {
  RecordProperty("holds", "node-feature-discovery.md #60");
  const auto config =
      ConfigOf("{denyLabelNs: [denied.ns, '*.denied.subns'], extraLabelNs: [example.io]}");
  const FilterRow rows[] = {
      {"feature.node.kubernetes.io/x", "true", true},
      {"sub.feature.node.kubernetes.io/x", "true", true},
      {"profile.node.kubernetes.io/x", "true", true},
      {"nvidia.com/gpu.count", "8", true},
      {"nvidia.com/gpu.product", "", true},
      {"kubernetes.io/x", "true", false},
      {"sub.ns.kubernetes.io/x", "true", false},
      {"notkubernetes.io/x", "true", true},
      {"unprefixed", "true", false},
      {"denied.ns/x", "true", false},
      {"my.denied.subns/x", "true", false},
      {"example.io/x", "true", true},
      {"nvidia.com/x", "white space", false},
      {"nvidia.com/x", std::string(64, 'a'), false},
      {"nvidia.com/" + std::string(64, 'a'), "true", false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(CheckNodeLabel(row.name, row.value, config).has_value(), row.accepted)
        << row.name << "=" << row.value;
  }
}

TEST(FilterLabels, EverythingDeniedExceptOneNamespace) {
  RecordProperty("holds", "node-feature-discovery.md #75");
  const auto config = ConfigOf("{denyLabelNs: ['*'], extraLabelNs: [example.com]}");
  const auto result = FilterLabels(
      {{"example.com/a", "1"}, {"nvidia.com/a", "1"}, {"feature.node.kubernetes.io/a", "1"}},
      config);
  EXPECT_EQ(result.labels, (Labels{{"example.com/a", "1"}}));
  EXPECT_EQ(result.rejected.size(), 2U);
}

TEST(FilterLabels, TheWhitelistSeesTheBaseName) {
  RecordProperty("holds", "node-feature-discovery.md #76");
  const auto result = FilterLabels({{"nvidia.com/gpu.x", "1"}, {"nvidia.com/cuda.x", "1"}},
                                   ConfigOf("labelWhiteList: ^gpu"));
  EXPECT_EQ(result.labels, (Labels{{"nvidia.com/gpu.x", "1"}}));
  EXPECT_EQ(result.rejected.size(), 1U);
}

TEST(FilterLabels, AnExtraNamespaceDoesNotExcuseABadValue) {  // section 12, weakness 9
  EXPECT_FALSE(
      CheckNodeLabel("example.io/x", "white space", ConfigOf("extraLabelNs: [example.io]")));
}

TEST(PlanNodePatch, AddsLabelsAndTheirNames) {
  RecordProperty("holds", "node-feature-discovery.md #58");
  const auto patch =
      PlanNodePatch(Node({}, {}), {{"feature.node.kubernetes.io/foo", "bar"}}, false, Config());
  ASSERT_TRUE(patch);
  EXPECT_EQ(*patch, Json({{"metadata",
                           {{"labels", {{"feature.node.kubernetes.io/foo", "bar"}}},
                            {"annotations", {{kOwned, "foo"}}}}}}));
}

TEST(PlanNodePatch, RemovesOnlyWhatItOwns) {
  RecordProperty("holds", "node-feature-discovery.md #64");
  const Labels desired = {{"feature.node.kubernetes.io/feature-1", "1"},
                          {"feature.node.kubernetes.io/feature-2", "2"},
                          {"profile.node.kubernetes.io/profile-a", "a"},
                          {"nvidia.com/gpu.count", "8"}};
  const auto patch = PlanNodePatch(Node({{"feature.node.kubernetes.io/old-feature", "1"},
                                         {"feature.node.kubernetes.io/foreign", "1"},
                                         {"feature.node.kubernetes.io/feature-1", "1"}},
                                        {{kOwned, "feature-1,old-feature"}}),
                                   desired, false, Config());
  ASSERT_TRUE(patch);
  const auto& metadata = patch->at("metadata");
  EXPECT_EQ(metadata.at("labels"), Json({{"feature.node.kubernetes.io/old-feature", nullptr},
                                         {"feature.node.kubernetes.io/feature-2", "2"},
                                         {"profile.node.kubernetes.io/profile-a", "a"},
                                         {"nvidia.com/gpu.count", "8"}}));
  EXPECT_EQ(
      metadata.at("annotations"),
      Json({{kOwned,
             "feature-1,feature-2,nvidia.com/gpu.count,profile.node.kubernetes.io/profile-a"}}));
}

TEST(PlanNodePatch, NothingIsWrittenWhenEqual) {
  EXPECT_FALSE(
      PlanNodePatch(Node({{"nvidia.com/a", "1"}, {"x/y", "z"}}, {{kOwned, "nvidia.com/a"}}),
                    {{"nvidia.com/a", "1"}}, false, Config()));
  EXPECT_FALSE(PlanNodePatch(Node({}, {}), {}, false, Config()));
}

TEST(PlanNodePatch, AtFirstSightNothingIsRemovedAndStaysOwned) {  // section 12, weakness 14
  RecordProperty("holds", "node-feature-discovery.md #67");
  const auto node =
      Node({{"nvidia.com/a", "1"}, {"nvidia.com/b", "1"}}, {{kOwned, "nvidia.com/a,nvidia.com/b"}});
  EXPECT_FALSE(PlanNodePatch(node, {}, true, Config()));
  const auto patch = PlanNodePatch(node, {{"nvidia.com/c", "1"}}, true, Config());
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->at("metadata").at("annotations").at(kOwned),
            "nvidia.com/a,nvidia.com/b,nvidia.com/c");
  EXPECT_EQ(patch->at("metadata").at("labels"), Json({{"nvidia.com/c", "1"}}));
  // Later the same node is known: now they go, and the list with them.
  EXPECT_EQ(*PlanNodePatch(node, {}, false, Config()),
            Json({{"metadata",
                   {{"labels", {{"nvidia.com/a", nullptr}, {"nvidia.com/b", nullptr}}},
                    {"annotations", {{kOwned, nullptr}}}}}}));
}

TEST(PlanNodePatch, ForeignLabelsAreOverwrittenUnlessForbidden) {  // section 12, weakness 1
  RecordProperty("holds", "node-feature-discovery.md #65");
  const auto node = Node({{"nvidia.com/foreign", "theirs"}, {"nvidia.com/mine", "old"}},
                         {{kOwned, "nvidia.com/mine"}});
  const Labels desired = {{"nvidia.com/foreign", "ours"}, {"nvidia.com/mine", "new"}};
  EXPECT_EQ(PlanNodePatch(node, desired, false, Config())->at("metadata").at("labels"),
            Json({{"nvidia.com/foreign", "ours"}, {"nvidia.com/mine", "new"}}));
  const auto careful =
      PlanNodePatch(node, desired, false, ConfigOf("restrictions: {allowOverwrite: false}"));
  EXPECT_EQ(careful->at("metadata"), Json({{"labels", {{"nvidia.com/mine", "new"}}}}));
}

TEST(PlanNodePatch, OldAnnotationsGo) {  // section 1
  const auto patch = PlanNodePatch(Node({}, {{"nfd.node.kubernetes.io/master.version", "v0.8"}}),
                                   {}, false, Config());
  EXPECT_EQ(*patch,
            Json({{"metadata",
                   {{"annotations", {{"nfd.node.kubernetes.io/master.version", nullptr}}}}}}));
}

TEST(PlanPrune, TakesEverythingOfThisInstance) {
  RecordProperty("holds", "node-feature-discovery.md #74");
  const auto patch = PlanPrune(
      Node({{"nvidia.com/a", "1"}, {"foreign/b", "1"}},
           {{kOwned, "nvidia.com/a"}, {"nfd.node.kubernetes.io/taints", "x"}, {"unrelated", "1"}}),
      Config());
  EXPECT_EQ(
      *patch,
      Json({{"metadata",
             {{"labels", {{"nvidia.com/a", nullptr}}},
              {"annotations", {{kOwned, nullptr}, {"nfd.node.kubernetes.io/taints", nullptr}}}}}}));
  EXPECT_FALSE(PlanPrune(Node({{"a", "b"}}, {{"c", "d"}}), Config()));
}

TEST(MasterConfig, InstancePrefixesTheBookkeeping) {
  RecordProperty("holds", "node-feature-discovery.md #72");
  MasterOverrides overrides;
  overrides.instance = "foo";
  EXPECT_EQ(OwnedLabelsAnnotation(ConfigOf("{}", overrides)),
            "foo.nfd.node.kubernetes.io/feature-labels");
  overrides.instance = "-x";
  EXPECT_FALSE(MakeMasterConfig({Json::object(), Json::object()}, overrides, "own"));
}

// Section 1's gates: NodeFeatureAPI is locked to true, DisableAutoPrefix is off unless it is named.
TEST(MasterConfig, GatesCountByTheirNames) {
  const auto with = [](std::vector<std::string> gates) {
    MasterOverrides overrides;
    overrides.feature_gates = std::move(gates);
    return MakeMasterConfig({Json::object(), Json::object()}, overrides, "own");
  };
  EXPECT_TRUE(with({})->auto_prefix);
  EXPECT_TRUE(with({"NodeFeatureAPI=true", "Another=true"})->auto_prefix);
  EXPECT_TRUE(with({"DisableAutoPrefix=false"})->auto_prefix);
  EXPECT_FALSE(with({"DisableAutoPrefix=true"})->auto_prefix);
  EXPECT_FALSE(with({"DisableAutoPrefix"})->auto_prefix);
  EXPECT_FALSE(with({"NodeFeatureAPI=false"}));
  EXPECT_FALSE(with({"DisableAutoPrefix=perhaps"}));
}

TEST(MasterConfig, ListsAddUpAndFlagsReplace) {  // section 8.2
  RecordProperty("holds", "node-feature-discovery.md #78");
  const ConfigTexts texts{.file = *codec::ParseYaml("{extraLabelNs: [a], resyncPeriod: 5m}"),
                          .options = *codec::ParseYaml("{extraLabelNs: [b]}")};
  const auto config = MakeMasterConfig(texts, {}, "own");
  ASSERT_TRUE(config);
  EXPECT_THAT(config->extra_label_namespaces, ElementsAre("a", "b"));
  EXPECT_EQ(config->resync_period, std::chrono::minutes(5));
  MasterOverrides overrides;
  overrides.extra_label_ns = {"c"};
  overrides.resync_period = "0s";
  const auto flagged = MakeMasterConfig(texts, overrides, "own");
  EXPECT_THAT(flagged->extra_label_namespaces, ElementsAre("c"));
  EXPECT_EQ(flagged->resync_period.count(), 0);
}

TEST(MasterConfig, RefusesWhatItCannotDo) {
  RecordProperty("holds", "node-feature-discovery.md #73");
  const auto with = [](std::string_view yaml) {
    return MakeMasterConfig({*codec::ParseYaml(yaml), Json::object()}, {}, "own");
  };
  EXPECT_FALSE(with("nfdApiParallelism: 0"));
  EXPECT_FALSE(with("restrictions: {nodeFeatureNamespaceSelector: {matchLabels: {a: b}}}"));
  EXPECT_FALSE(with("labelWhiteList: '('"));
  EXPECT_TRUE(with("{extraLabelNs: [nvidia.com], unknownKey: 1}"));
}

// simdjson reads a little beyond the text.
std::string Padded(std::string text) {
  text.reserve(text.size() + 64);
  return text;
}

TEST(Views, KeepTheNodesNameAndTheLabels) {
  const auto text = Padded(R"({"metadata":{"name":"n","labels":
      {"nfd.node.kubernetes.io/node-name":"node-a"}},"spec":{"features":{},"labels":{"a":"1"}}})");
  EXPECT_EQ(*NodeFeatureProjection()(text), (NodeFeatureView{"node-a", {{"a", "1"}}}));
  const auto bare = Padded(R"({"metadata":{"name":"n"},"spec":{}})");
  EXPECT_EQ(*NodeFeatureProjection()(bare), NodeFeatureView{});
}

TEST(Views, HeartbeatsDoNotChangeANode) {
  const auto view = [](const std::string& rest) {
    return *NodeProjection()(Padded(R"({"metadata":{"name":"n","uid":"u",)" + rest));
  };
  const auto first = view(R"("labels":{"a":"1","b":"2"}},"status":{"x":1}})");
  EXPECT_EQ(first, view(R"("labels":{"b":"2","a":"1"}},"status":{"x":2}})"));
  EXPECT_NE(first, view(R"("labels":{"a":"2","b":"1"}},"status":{"x":1}})"));
  EXPECT_EQ(first, view(R"("labels":{"a":"1","b":"2"},"annotations":{"other":"1"}}})"));
  EXPECT_NE(first, view(R"("labels":{"a":"1","b":"2"},
                    "annotations":{"nfd.node.kubernetes.io/feature-labels":"a"}}})"));
}

}  // namespace
}  // namespace pitcrew::node::nfd
