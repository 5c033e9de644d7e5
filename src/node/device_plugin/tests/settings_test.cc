#include "node/device_plugin/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pitcrew::node::device_plugin {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

base::Result<Settings> Read(const Variables& variables, std::string_view file = "",
                            std::vector<const char*> words = {}) {
  words.insert(words.begin(), "nvidia-device-plugin");
  TRY_ASSIGN(const auto options,
             ParseOptions(static_cast<int>(words.size()), words.data(),
                          [&](const std::string& name) -> std::optional<std::string> {
                            const auto found = variables.find(name);
                            if (found == variables.end()) return std::nullopt;
                            return found->second;
                          }));
  TRY_ASSIGN(const auto config, api::ParsePluginConfig(file, "config.yaml"));
  return Merge(options->flags, config);
}

TEST(Settings, Defaults) {  // device-plugin.md section 3
  const auto settings = Read({});
  ASSERT_TRUE(settings.has_value()) << settings.error().ToString();
  EXPECT_EQ(settings->mig_strategy, gpu::MigStrategy::kNone);
  EXPECT_TRUE(settings->fail_on_init_error);
  EXPECT_EQ(settings->driver_root, "/");
  EXPECT_EQ(settings->dev_root, "/");
  EXPECT_EQ(settings->driver_root_in_here, "/driver-root");
  EXPECT_FALSE(settings->pass_device_specs);
  EXPECT_TRUE(settings->list_strategies.envvar);
  EXPECT_FALSE(settings->list_strategies.UsesCdi());
  EXPECT_EQ(settings->device_id_strategy, DeviceIdStrategy::kUuid);
  EXPECT_EQ(settings->cdi_annotation_prefix, "cdi.k8s.io/");
  EXPECT_EQ(settings->cdi_hook_path, "/usr/bin/nvidia-ctk");
  EXPECT_EQ(settings->shared_allocation, SharedAllocation::kDistributed);
}

TEST(Settings, ReplicasAreDistributedUnlessTheyAreToBePacked) {
  RecordProperty("holds", "device-plugin.md #36");
  EXPECT_EQ(Read({})->shared_allocation, SharedAllocation::kDistributed);
  EXPECT_EQ(Read({{"SHARED_DEVICES_ALLOCATION_POLICY", "packed"}})->shared_allocation,
            SharedAllocation::kPacked);
  EXPECT_FALSE(Read({{"SHARED_DEVICES_ALLOCATION_POLICY", "magic"}}).has_value());
}

TEST(Settings, CommandLineOverEnvironmentOverFile) {
  RecordProperty("holds", "device-plugin.md #14");
  const auto* file = "flags: {migStrategy: mixed}";
  EXPECT_EQ(Read({}, file)->mig_strategy, gpu::MigStrategy::kMixed);
  EXPECT_EQ(Read({{"MIG_STRATEGY", "single"}}, file)->mig_strategy, gpu::MigStrategy::kSingle);
  EXPECT_EQ(Read({{"MIG_STRATEGY", "single"}}, file, {"-mig-strategy=none"})->mig_strategy,
            gpu::MigStrategy::kNone);
  const auto empty = Read({{"MIG_STRATEGY", ""}}, file);
  ASSERT_FALSE(empty.has_value());
  EXPECT_THAT(empty.error().message, HasSubstr("mig-strategy"));
}

TEST(Settings, EmptyVariables) {
  RecordProperty("holds", "device-plugin.md #15");
  EXPECT_FALSE(Read({{"FAIL_ON_INIT_ERROR", ""}})->fail_on_init_error);
  EXPECT_FALSE(Read({{"FAIL_ON_INIT_ERROR", "yes"}}).has_value());
  EXPECT_EQ(Read({{"IMEX_CHANNEL_IDS", ""}}, "imex: {channelIDs: [0]}")->imex_channels,
            std::vector<std::int64_t>{0});
  const auto strategies = Read({{"DEVICE_LIST_STRATEGY", ""}});
  ASSERT_FALSE(strategies.has_value());
  EXPECT_THAT(strategies.error().message, HasSubstr("device-list-strategy"));
}

TEST(Settings, DeviceNodesAreWhereTheDriverIs) {
  RecordProperty("holds", "device-plugin.md #16");
  EXPECT_EQ(Read({{"NVIDIA_DRIVER_ROOT", "/run/nvidia/driver"}})->dev_root, "/run/nvidia/driver");
  EXPECT_EQ(
      Read({{"NVIDIA_DRIVER_ROOT", "/run/nvidia/driver"}, {"NVIDIA_DEV_ROOT", "/"}})->dev_root,
      "/");
  EXPECT_EQ(Read({{"NVIDIA_DRIVER_ROOT", "/a"}, {"NVIDIA_DEV_ROOT", ""}})->dev_root, "/a");
}

TEST(Settings, TheOperatorsEnvironment) {  // device-plugin.md section 2
  const auto settings = Read({{"PASS_DEVICE_SPECS", "true"},
                              {"FAIL_ON_INIT_ERROR", "true"},
                              {"DEVICE_LIST_STRATEGY", "cdi-annotations,cdi-cri"},
                              {"DEVICE_ID_STRATEGY", "uuid"},
                              {"NVIDIA_VISIBLE_DEVICES", "all"},
                              {"CDI_ENABLED", "true"},
                              {"MPS_ROOT", "/run/nvidia/mps"},
                              {"NVIDIA_CDI_HOOK_PATH", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
                              {"DRIVER_ROOT_CTR_PATH", "/host"}});
  ASSERT_TRUE(settings.has_value()) << settings.error().ToString();
  EXPECT_TRUE(settings->list_strategies.cdi_annotations);
  EXPECT_TRUE(settings->list_strategies.cdi_cri);
  EXPECT_FALSE(settings->list_strategies.UsesRuntime());
  EXPECT_EQ(settings->cdi_hook_path, "/usr/local/nvidia/toolkit/nvidia-cdi-hook");
  EXPECT_EQ(settings->driver_root_in_here, "/host");
}

TEST(Settings, OneTextInTheFileIsOneStrategy) {  // device-plugin.md section 4
  EXPECT_TRUE(Read({}, "flags: {plugin: {deviceListStrategy: [cdi-cri, envvar]}}")
                  ->list_strategies.cdi_cri);
  EXPECT_FALSE(Read({}, "flags: {plugin: {deviceListStrategy: \"cdi-cri,envvar\"}}").has_value());
  const auto none = Read({}, "flags: {plugin: {deviceListStrategy: []}}");
  ASSERT_TRUE(none.has_value());
  EXPECT_FALSE(none->list_strategies.UsesCdi() || none->list_strategies.UsesRuntime());
}

TEST(Settings, WrongValuesNameTheFlag) {  // device-plugin.md section 3.2
  for (const auto& [name, value, flag] : std::vector<std::array<const char*, 3>>{
           {"DEVICE_LIST_STRATEGY", "envvar,magic", "device-list-strategy"},
           {"DEVICE_ID_STRATEGY", "name", "device-id-strategy"},
           {"SHARED_DEVICES_ALLOCATION_POLICY", "random", "shared-devices-allocation-policy"},
           {"SHARED_DEVICES_ALLOCATION_POLICY", "", "shared-devices-allocation-policy"},
           {"DEVICE_DISCOVERY_STRATEGY", "magic", "device-discovery-strategy"},
           {"MIG_STRATEGY", "double", "mig-strategy"},
           {"IMEX_CHANNEL_IDS", "1", "imex-channel-ids"}}) {
    const auto settings = Read({{name, value}});
    ASSERT_FALSE(settings.has_value()) << name;
    EXPECT_THAT(settings.error().message, HasSubstr(flag));
  }
}

TEST(Settings, ImexChannelsOfTheFile) {
  RecordProperty("holds", "device-plugin.md #6");
  EXPECT_TRUE(Read({}, "imex: {channelIDs: [0]}").has_value());
  EXPECT_FALSE(Read({}, "imex: {channelIDs: [2]}").has_value());
  EXPECT_FALSE(Read({}, "imex: {channelIDs: [0, 0]}").has_value());
}

TEST(Settings, MpsNeedsARootAndNoMixedStrategy) {
  RecordProperty("holds", "device-plugin.md #47");
  const auto* file = "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}";
  EXPECT_FALSE(Read({}, file).has_value());
  EXPECT_FALSE(Read({{"MPS_ROOT", "/r"}, {"MIG_STRATEGY", "mixed"}}, file).has_value());
  EXPECT_TRUE(Read({{"MPS_ROOT", "/r"}}, file).has_value());
}

TEST(Settings, TheKubeletsSocketMayBeEmpty) {  // device-plugin.md section 3
  const char* words[] = {"nvidia-device-plugin"};
  const auto variables = [](const std::string& name) -> std::optional<std::string> {
    if (name == "KUBELET_SOCKET") return "";
    return std::nullopt;
  };
  EXPECT_EQ((*ParseOptions(1, words, variables))->kubelet_socket, "");
  const auto nothing = [](const std::string&) -> std::optional<std::string> {
    return std::nullopt;
  };
  EXPECT_EQ((*ParseOptions(1, words, nothing))->kubelet_socket,
            "/var/lib/kubelet/device-plugins/kubelet.sock");
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
