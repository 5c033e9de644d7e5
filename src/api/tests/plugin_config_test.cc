#include "api/plugin_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

base::Result<PluginConfig> Parse(std::string_view text) {
  return ParsePluginConfig(text, "config.yaml");
}

std::string Sharing(std::string_view kind, std::string_view resource) {
  return "sharing:\n  " + std::string(kind) + ":\n    resources:\n    - " + std::string(resource);
}

TEST(PluginConfig, EmptyTextIsAValidConfiguration) {
  RecordProperty("holds", "device-plugin.md #13");
  for (const auto* text : {"", "\n", "version: v1", "version: \"\"", "unknown: {key: 1}"}) {
    SCOPED_TRACE(text);
    const auto config = Parse(text);
    ASSERT_TRUE(config.has_value()) << config.error().ToString();
    EXPECT_EQ(config->sharing.strategy(), SharingStrategy::kNone);
  }
}

TEST(PluginConfig, OtherVersionsAreRefused) {
  RecordProperty("holds", "device-plugin.md #13");
  const auto config = Parse("version: v2");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().reason, "InvalidConfiguration");
  EXPECT_THAT(config.error().message, HasSubstr("config.yaml:1:10: version"));
}

TEST(PluginConfig, MpsFailsRequestsGreaterThanOneUnlessToldOtherwise) {
  RecordProperty("holds", "device-plugin.md #1");
  const std::string head = "sharing:\n  mps:\n";
  const std::string list = "    resources: [{name: nvidia.com/gpu, replicas: 2}]\n";
  EXPECT_TRUE(Parse(head + list)->sharing.mps->fail_requests_greater_than_one);
  EXPECT_FALSE(Parse(head + "    failRequestsGreaterThanOne: false\n" + list)
                   ->sharing.mps->fail_requests_greater_than_one);
  EXPECT_FALSE(Parse("sharing:\n  timeSlicing:\n" + list)
                   ->sharing.time_slicing->fail_requests_greater_than_one);
}

TEST(PluginConfig, SleepIntervals) {
  RecordProperty("holds", "device-plugin.md #2");
  const auto read = [](std::string_view value) {
    return Parse("flags: {gfd: {sleepInterval: " + std::string(value) + "}}")
        ->flags.sleep_interval->count();
  };
  EXPECT_EQ(read("0"), 0);
  EXPECT_EQ(read("\"0s\""), 0);
  EXPECT_EQ(read("5"), 5);
  EXPECT_EQ(read("\"5s\""), 5'000'000'000);
  EXPECT_EQ(read("\"infinite\""), INT64_MAX);
  EXPECT_FALSE(Parse("flags: {gfd: {sleepInterval: \"60\"}}").has_value());
}

TEST(PluginConfig, DeviceListStrategyIsOneTextOrAList) {
  RecordProperty("holds", "device-plugin.md #3");
  EXPECT_THAT(*Parse("flags: {plugin: {deviceListStrategy: envvar}}")->flags.device_list_strategy,
              ElementsAre("envvar"));
  EXPECT_THAT(*Parse("flags: {plugin: {deviceListStrategy: \"a,b\"}}")->flags.device_list_strategy,
              ElementsAre("a,b"));
  EXPECT_THAT(*Parse("flags: {plugin: {deviceListStrategy: [cdi-cri, envvar]}}")
                   ->flags.device_list_strategy,
              ElementsAre("cdi-cri", "envvar"));
  EXPECT_THAT(*Parse("flags: {plugin: {deviceListStrategy: []}}")->flags.device_list_strategy,
              ElementsAre());
}

TEST(PluginConfig, KeysOfPlainStructuresMatchInAnyCase) {  // device-plugin.md section 4
  EXPECT_EQ(Parse("Flags: {migstrategy: mixed}")->flags.mig_strategy, "mixed");
  EXPECT_FALSE(Parse(Sharing("timeSlicing", "{Name: gpu, replicas: 2}")).has_value());
}

TEST(PluginConfig, ValuesOfTheWrongKindAreNamed) {
  const auto config = Parse("flags: {plugin: {passDeviceSpecs: 3}}");
  ASSERT_FALSE(config.has_value());
  EXPECT_THAT(config.error().message, HasSubstr("flags.plugin.passDeviceSpecs"));
}

TEST(PluginConfig, ImexChannels) {
  RecordProperty("holds", "device-plugin.md #6");
  for (const auto* text : {"imex: {}", "imex: {channelIDs: null}", "imex: {channelIDs: []}",
                           "imex: {channelIDs: [0]}"}) {
    EXPECT_TRUE(Parse(text).has_value()) << text;
  }
  EXPECT_THAT(*Parse("imex: {channelIDs: [0]}")->flags.imex_channel_ids, ElementsAre(0));
  // Only the device plugin refuses the number (settings_test.cc); feature discovery reads on.
  EXPECT_THAT(*Parse("imex: {channelIDs: [2]}")->flags.imex_channel_ids, ElementsAre(2));
  EXPECT_FALSE(Parse("imex: {channelIDs: ['0']}").has_value());
  EXPECT_FALSE(Parse("imex: {channelIDs: 0}").has_value());
}

TEST(PluginConfig, DeviceReferences) {
  RecordProperty("holds", "device-plugin.md #7");
  const std::string uuid = "b1028956-cfa2-0990-bf4a-5da9abb51763";
  EXPECT_EQ(ClassifyDeviceReference("0"), DeviceReference::kGpuIndex);
  EXPECT_EQ(ClassifyDeviceReference("0:0"), DeviceReference::kMigIndex);
  EXPECT_EQ(ClassifyDeviceReference("GPU-" + uuid), DeviceReference::kGpuUuid);
  EXPECT_EQ(ClassifyDeviceReference("GPU-{" + uuid + "}"), DeviceReference::kGpuUuid);
  EXPECT_EQ(ClassifyDeviceReference("MIG-" + uuid), DeviceReference::kMigUuid);
  EXPECT_EQ(ClassifyDeviceReference("MIG-GPU-" + uuid + "/10/0"), DeviceReference::kMigUuid);
  for (const auto* text : {"", "-1", "x", "0:", ":0", "GPU-UUID", "MIG-UUID"}) {
    EXPECT_EQ(ClassifyDeviceReference(text), std::nullopt) << text;
  }
  EXPECT_EQ(ClassifyDeviceReference("MIG-GPU-" + uuid), std::nullopt);
}

// device-plugin.md section 4.2: a UUID in every form that Go's library takes.
TEST(PluginConfig, UuidsOfDeviceReferences) {
  for (const std::string uuid :
       {"urn:uuid:b1028956-cfa2-0990-bf4a-5da9abb51763", "{b1028956-cfa2-0990-bf4a-5da9abb51763}",
        "b1028956cfa20990bf4a5da9abb51763", "00000000-9999-aaaa-ffff-AAAAAAAAFFFF"}) {
    EXPECT_EQ(ClassifyDeviceReference("GPU-" + uuid), DeviceReference::kGpuUuid) << uuid;
    EXPECT_EQ(ClassifyDeviceReference("MIG-" + uuid), DeviceReference::kMigUuid) << uuid;
    EXPECT_EQ(ClassifyDeviceReference(uuid), std::nullopt) << uuid;
  }
  for (const std::string uuid :
       {"{b1028956-cfa2-0990-bf4a-5da9abb51763", "(b1028956-cfa2-0990-bf4a-5da9abb51763)",
        "{b1028956-cfa2-0990-bf4a-5da9abb51763)", "b1028956-cfa2-0990-bf4a-5da9abb5176",
        "b1028956-cfa2-0990-bf4a-5da9abb517633", "b1028956acfa2-0990-bf4a-5da9abb51763",
        "b1028956-cfa2a0990-bf4a-5da9abb51763", "b1028956-cfa2-0990abf4a-5da9abb51763",
        "b1028956-cfa2-0990-bf4aa5da9abb51763", "/1028956-cfa2-0990-bf4a-5da9abb51763",
        ":1028956-cfa2-0990-bf4a-5da9abb51763", "@1028956-cfa2-0990-bf4a-5da9abb51763",
        "G1028956-cfa2-0990-bf4a-5da9abb51763", "`1028956-cfa2-0990-bf4a-5da9abb51763",
        "g1028956-cfa2-0990-bf4a-5da9abb51763", "b1028956cfa20990bf4a5da9abb5176g"}) {
    EXPECT_EQ(ClassifyDeviceReference("GPU-" + uuid), std::nullopt) << uuid;
  }
  const std::string old = "MIG-GPU-b1028956-cfa2-0990-bf4a-5da9abb51763";
  for (const char* end : {"/1", "/1/2/3", "/x/0", "/0/x", "//0"}) {
    EXPECT_EQ(ClassifyDeviceReference(old + end), std::nullopt) << end;
  }
  EXPECT_EQ(ClassifyDeviceReference("9:9"), DeviceReference::kMigIndex);
  for (const char* text : {"0:0:0", "1:/", "/:1"}) {
    EXPECT_EQ(ClassifyDeviceReference(text), std::nullopt) << text;
  }
}

TEST(PluginConfig, NamesOfResources) {
  EXPECT_EQ(QualifyResourceName("az-09.a"), "nvidia.com/az-09.a");
  EXPECT_EQ(QualifyResourceName("nvidia.com/gpu"), "nvidia.com/gpu");
  EXPECT_EQ(QualifyResourceName(std::string(52, 'a'))->size(), 63U);
  for (const std::string& name :
       {std::string(53, 'a'), std::string(), std::string("a..b"), std::string("-a"),
        std::string("a-"), std::string("a.-b"), std::string("A"), std::string("a_b"),
        std::string("a/b"), std::string("a{"), std::string("a:")}) {
    EXPECT_EQ(QualifyResourceName(name).error().reason, "BadResourceName") << name;
  }
}

TEST(PluginConfig, DevicesOfASharedResource) {
  RecordProperty("holds", "device-plugin.md #8");
  const std::string uuid = "b1028956-cfa2-0990-bf4a-5da9abb51763";
  const auto parse = [](const std::string& devices) {
    return Parse(Sharing("timeSlicing", "{name: gpu, replicas: 2, devices: " + devices + "}"));
  };
  for (const std::string& devices :
       {std::string("\"not-all\""), std::string("-2"), std::string("[-1]"), std::string("[\"-1\"]"),
        std::string("null"), std::string("[\"invalid-UUID\"]"), std::string("[\"GPU-UUID\"]"),
        std::string("[\"MIG-UUID\"]"), "[\"MIG-GPU-" + uuid + "\"]"}) {
    EXPECT_FALSE(parse(devices).has_value()) << devices;
  }
  // 2.0 is 2 in the JSON that sigs.k8s.io/yaml makes of it.
  for (const std::string& devices :
       {std::string("\"all\""), std::string("2"), std::string("2.0"), std::string("[0]"),
        std::string("[\"0\"]"), std::string("[\"0:0\"]"),
        "[\"GPU-" + uuid + "\", 1, \"MIG-" + uuid + "\"]"}) {
    EXPECT_TRUE(parse(devices).has_value()) << devices;
  }
}

TEST(PluginConfig, ReplicatedResources) {
  RecordProperty("holds", "device-plugin.md #10");
  for (const auto* entry :
       {"{replicas: 2}", "{name: gpu}", "{name: gpu, replicas: 1}", "{name: gpu, replicas: 0}",
        "{name: gpu, replicas: -1}", "{name: gpu, replicas: \"2\"}", "{name: gpu, replicas: 2.5}",
        "{name: gpu, replicas: 1000001}", "{name: $invalid$, replicas: 2}",
        "{name: gpu, replicas: 2, rename: $invalid$}"}) {
    EXPECT_FALSE(Parse(Sharing("timeSlicing", entry)).has_value()) << entry;
  }
  const auto config = Parse(Sharing("timeSlicing", "{name: valid, replicas: 2.0}"));
  ASSERT_TRUE(config.has_value()) << config.error().ToString();
  EXPECT_THAT(
      config->sharing.time_slicing->resources,
      ElementsAre(ReplicatedResource{.name = "nvidia.com/valid", .rename = "", .replicas = 2}));
}

TEST(PluginConfig, SharingNeedsResources) {
  RecordProperty("holds", "device-plugin.md #11 and #13");
  EXPECT_FALSE(Parse("sharing: {timeSlicing: {resources: []}}").has_value());
  EXPECT_FALSE(Parse("sharing: {mps: {}}").has_value());
  EXPECT_FALSE(Parse("sharing: {timeSlicing: null}").has_value());
  const auto none = Parse("sharing: {mps: null}");
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->sharing.strategy(), SharingStrategy::kNone);
}

TEST(PluginConfig, CustomNamesAndDevicesAreIgnoredWithWarnings) {
  RecordProperty("holds", "device-plugin.md #17");
  const auto config =
      Parse("resources: {gpus: [{pattern: \"*H100*\", name: h100}]}\n" +
            Sharing("timeSlicing", "{name: gpu, replicas: 4, rename: small, devices: [0]}"));
  ASSERT_TRUE(config.has_value()) << config.error().ToString();
  EXPECT_THAT(config->warnings, SizeIs(3));
  EXPECT_EQ(config->sharing.time_slicing->resources.front().rename, "");

  const auto renamed = Parse(
      "sharing:\n  timeSlicing:\n    renameByDefault: true\n"
      "    resources: [{name: nvidia.com/gpu, replicas: 4, rename: small}]\n");
  EXPECT_EQ(renamed->sharing.time_slicing->resources.front().rename, "nvidia.com/gpu.shared");
  EXPECT_FALSE(Parse("resources: {gpus: [{pattern: \"*\"}]}").has_value());
}

TEST(PluginConfig, AResourceThatIsSharedTwiceHasOneSetOfReplicas) {
  const auto config = ParsePluginConfig(
      "sharing: {mps: {resources: [{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 6}, "
      "{name: gpu, replicas: 4}]}}",
      "test");
  ASSERT_TRUE(config) << config.error().ToString();
  ASSERT_EQ(config->sharing.mps->resources.size(), 1U);
  EXPECT_EQ(config->sharing.mps->resources[0].replicas, 6);
  EXPECT_EQ(config->warnings.size(), 2U);
}

TEST(PluginConfig, MpsIsTheListThatCounts) {  // device-plugin.md section 4.2
  const auto config = Parse(
      "sharing:\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n"
      "  mps: {resources: [{name: gpu, replicas: 5}]}\n");
  EXPECT_EQ(config->sharing.strategy(), SharingStrategy::kMps);
  EXPECT_EQ(config->sharing.replicated()->Find("nvidia.com/gpu")->replicas, 5);
  EXPECT_EQ(config->sharing.replicated()->Find("nvidia.com/other"), nullptr);
}

TEST(PluginConfig, FlagsFillFromLowerSources) {
  RecordProperty("holds", "device-plugin.md #14");
  PluginFlags command_line;
  command_line.mig_strategy = "single";
  auto file = Parse("flags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}}")->flags;
  command_line.FillFrom(file);
  EXPECT_EQ(command_line.mig_strategy, "single");
  EXPECT_EQ(command_line.pass_device_specs, true);
  EXPECT_EQ(command_line.driver_root, std::nullopt);
}

}  // namespace
}  // namespace pitcrew::api
