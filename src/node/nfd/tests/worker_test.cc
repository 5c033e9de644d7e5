// The worker's configuration, and what it keeps when a source cannot be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "node/nfd/collector.h"
#include "node/nfd/publisher.h"
#include "node/nfd/worker_config.h"
#include "node/node_feature/node_feature.h"
#include "support_tree.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::nfd {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

ConfigTexts File(std::string_view yaml) {
  return {.file = *codec::ParseYaml(yaml), .options = Json::object()};
}

TEST(WorkerConfig, AllSourcesByDefault) {
  RecordProperty("holds", "node-feature-discovery.md #19");
  const auto config = MakeWorkerConfig(File("{}"), {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->feature_sources.size(), AllSources().size());
  EXPECT_THAT(config->label_sources,
              ElementsAre("cpu", "kernel", "memory", "pci", "system", "custom", "local"));
  EXPECT_THAT(config->pci.device_class_whitelist, ElementsAre("03", "0b40", "12"));
  EXPECT_EQ(config->sleep_interval, std::chrono::seconds(60));
}

TEST(WorkerConfig, SelectorsActInOrder) {
  RecordProperty("holds", "node-feature-discovery.md #19, #22");
  const auto config = MakeWorkerConfig(File("core: {labelSources: [all, -pci, nonsense]}"), {});
  ASSERT_TRUE(config);
  EXPECT_THAT(config->label_sources, Not(Contains("pci")));
  EXPECT_THAT(config->label_sources, Contains("kernel"));
}

TEST(WorkerConfig, OldNameOfLabelSourcesCountsUnlessTheFlagSpeaks) {
  RecordProperty("holds", "node-feature-discovery.md #20");
  const auto file = File("core: {sources: [system]}");
  EXPECT_THAT(MakeWorkerConfig(file, {})->label_sources, ElementsAre("system"));
  WorkerOverrides flags;
  flags.label_sources = {"cpu", "kernel", "pci"};
  EXPECT_THAT(MakeWorkerConfig(file, flags)->label_sources, ElementsAre("cpu", "kernel", "pci"));
}

TEST(WorkerConfig, ShortIntervalsBecomeOneSecondAndZeroMeansOnce) {
  RecordProperty("holds", "node-feature-discovery.md #21");
  EXPECT_EQ(MakeWorkerConfig(File("core: {sleepInterval: 500ms}"), {})->sleep_interval,
            std::chrono::seconds(1));
  EXPECT_EQ(MakeWorkerConfig(File("core: {sleepInterval: 0s}"), {})->sleep_interval.count(), 0);
  EXPECT_EQ(MakeWorkerConfig(File("core: {sleepInterval: 2000000000}"), {})->sleep_interval,
            std::chrono::seconds(2));
}

TEST(WorkerConfig, OptionsWinOverTheFile) {
  RecordProperty("holds", "node-feature-discovery.md #23");
  const ConfigTexts texts{.file = *codec::ParseYaml("core: {ownerRefs: [node]}"),
                          .options = *codec::ParseJson(R"({"core":{"ownerRefs":[]}})")};
  EXPECT_THAT(MakeWorkerConfig(texts, {})->owners, IsEmpty());
}

TEST(WorkerConfig, OwnersAreOrderedAndChecked) {  // section 5.4
  RecordProperty("holds", "node-feature-discovery.md #25");
  EXPECT_THAT(*ParseOwners({"ds", "node", "pod"}),
              ElementsAre(Owner::kNode, Owner::kPod, Owner::kDaemonSet));
  EXPECT_THAT(*ParseOwners({}), IsEmpty());
  EXPECT_FALSE(ParseOwners({"pod", "pod"}));
  EXPECT_FALSE(ParseOwners({"job"}));
}

TEST(WorkerConfig, AWrongKindIsToldWithItsPath) {
  const auto config = MakeWorkerConfig(File("sources: {pci: {deviceLabelFields: vendor}}"), {});
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().message,
            "sources.pci.deviceLabelFields must be a list of texts, not \"vendor\"");
}

TEST(Collector, ASourceThatFailsKeepsWhatItFound) {
  const test_support::TemporaryFolder root;
  MakeTree(*codec::ParseYaml("files: {proc/sys/kernel/osrelease: 6.8.0}"), root.path());
  Collector collector(*MakeWorkerConfig(File("core: {featureSources: [kernel]}"), {}),
                      HostPaths::Below(root.path()), "node-a");
  const auto now = base::WallClock::now();
  collector.DiscoverAll(now);
  const auto before = collector.Spec();
  std::filesystem::remove(root.path() / "proc/sys/kernel/osrelease");
  collector.DiscoverAll(now);
  EXPECT_EQ(collector.Spec(), before);
  EXPECT_TRUE(collector.troubles().contains("kernel"));
}

TEST(Collector, TakesOverWhatAnEarlierWorkerPublished) {
  const test_support::TemporaryFolder root;  // nothing can be read
  const auto config = MakeWorkerConfig(File("core: {featureSources: [pci, kernel]}"), {});
  Collector collector(*config, HostPaths::Below(root.path()), "node-a");
  const auto spec = codec::ParseYaml(R"(
features:
  flags: {}
  attributes:
    kernel.version: {elements: {full: 6.8.0}}
    storage.gone: {elements: {x: "1"}}
  instances:
    pci.device:
      elements: [{attributes: {class: "0302", vendor: 10de}}]
labels:
  feature.node.kubernetes.io/pci-10de.present: "true"
  feature.node.kubernetes.io/kernel-version.full: 6.8.0
  feature.node.kubernetes.io/storage-gone: "true"
)");
  ASSERT_TRUE(spec);
  collector.Restore(*spec);
  collector.DiscoverAll(base::WallClock::now());
  const auto now = collector.Spec();
  EXPECT_EQ(now.at("labels"), Json({{"feature.node.kubernetes.io/pci-10de.present", "true"},
                                    {"feature.node.kubernetes.io/kernel-version.full", "6.8.0"}}));
  EXPECT_TRUE(now["features"]["instances"].contains("pci.device"));
  EXPECT_FALSE(now["features"]["attributes"].contains("storage.gone"));
}

// Names of feature files have no prefix by which labels could be told apart (section 6.10): those
// labels are what local.label holds.
TEST(Collector, TakesOverTheLabelsOfFeatureFiles) {
  const test_support::TemporaryFolder root;
  Collector collector(*MakeWorkerConfig(File("core: {featureSources: [local]}"), {}),
                      HostPaths::Below(root.path()), "node-a");
  collector.Restore(*codec::ParseYaml(R"(
features:
  attributes:
    local.label: {elements: {nvidia.com/gpu.count: "2"}}
    local.feature: {elements: {nvidia.com/gpu.count: "2", other: x}}
labels:
  nvidia.com/gpu.count: "2"
  feature.node.kubernetes.io/kernel-version.full: 6.8.0
)"));
  EXPECT_EQ(collector.Spec().at("labels"), Json({{"nvidia.com/gpu.count", "2"}}));
}

TEST(Collector, TellsWhenALineExpires) {
  const test_support::TemporaryFolder root;
  MakeTree(*codec::ParseYaml(R"(
files:
  etc/kubernetes/node-feature-discovery/features.d/a: |
    # +expiry-time=2026-01-01T00:01:00Z
    soon=1
    # +expiry-time=2026-01-01T00:02:00Z
    later=1
)"),
           root.path());
  Collector collector(*MakeWorkerConfig(File("core: {featureSources: [local]}"), {}),
                      HostPaths::Below(root.path()), "node-a");
  const auto start = *base::ParseRfc3339("2026-01-01T00:00:00Z");
  collector.DiscoverAll(start);
  EXPECT_EQ(collector.next_expiry(), start + std::chrono::minutes(1));
  collector.DiscoverAll(start + std::chrono::seconds(61));
  EXPECT_EQ(collector.Spec().at("labels"), Json({{"later", "1"}}));
  EXPECT_EQ(collector.next_expiry(), start + std::chrono::minutes(2));
}

TEST(Sources, FeatureFilesAreReadUpTo64KiB) {
  RecordProperty("holds", "node-feature-discovery.md #32");
  const test_support::TemporaryFolder root;
  const std::string folder = "etc/kubernetes/node-feature-discovery/features.d/";
  root.Write(folder + "largest", "a=1\n" + std::string(65536 - 5, '#') + "\n");
  root.Write(folder + "too-large", "b=1\n" + std::string(65537 - 5, '#') + "\n");
  const auto found = DiscoverLocal(HostPaths::Below(root.path()), base::WallClock::now());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->discovery.labels, (Labels{{"a", "1"}}));
}

TEST(Publisher, ComparesOnlyWhatTheWorkerDecides) {
  RecordProperty("holds", "node-feature-discovery.md #27");
  const WorkerIdentity identity{"node-a", "gpu-operator", "pod", "uid-1", "v1"};
  const Json spec = {{"features", ToJson({})}, {"labels", {{"a/b", "c"}}}};
  const auto desired = MakeNodeFeature(identity, Json::array(), spec);
  auto live = desired;
  live["metadata"]["resourceVersion"] = "7";
  live["metadata"]["managedFields"] = Json::array({"x"});
  live["spec"]["features"].erase("flags");  // empty collections may be left out
  EXPECT_TRUE(node_feature::IsUpToDate(live, desired));
  EXPECT_FALSE(node_feature::IsUpToDate(
      live,
      MakeNodeFeature({"node-a", "gpu-operator", "pod", "uid-2", "v1"}, Json::array(), spec)));
  EXPECT_FALSE(node_feature::IsUpToDate(
      live, MakeNodeFeature(identity, Json::array({{{"kind", "Pod"}, {"uid", "u"}}}), spec)));
}

TEST(Publisher, NamesTheNodeAndTheWorker) {  // section 3.2
  RecordProperty("holds", "node-feature-discovery.md #28");
  const auto object = MakeNodeFeature({"node-a", "ns", "", "", "v1"}, Json::array(),
                                      {{"features", ToJson({})}, {"labels", Json::object()}});
  EXPECT_EQ(object["metadata"]["name"], "node-a");
  EXPECT_EQ(object["metadata"]["labels"], Json({{"nfd.node.kubernetes.io/node-name", "node-a"}}));
  EXPECT_EQ(object["metadata"]["annotations"],
            Json({{"nfd.node.kubernetes.io/worker.version", "v1"}}));
  EXPECT_FALSE(object["metadata"].contains("ownerReferences"));
}

TEST(Features, SurviveTheTripThroughJson) {
  Features features;
  features.flags["kernel.loadedmodule"] = {"nvidia", "ib_uverbs"};
  features.attributes["kernel.version"] = {{"full", "6.8"}};
  features.instances["pci.device"] = {{{"vendor", "10de"}}};
  EXPECT_EQ(*FeaturesFromJson(ToJson(features)), features);
  EXPECT_EQ(ToJson({}).dump(), R"({"attributes":{},"flags":{},"instances":{}})");
  EXPECT_FALSE(FeaturesFromJson(*codec::ParseJson(R"({"flags":{"a.b":{"elements":[]}}})")));
}

}  // namespace
}  // namespace pitcrew::node::nfd
