#include "node/feature_discovery/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "node/feature_discovery/output.h"
#include "node/feature_discovery/settings.h"
#include "node/feature_discovery/vgpu.h"
#include "node/node_feature/node_feature.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::feature_discovery {
namespace {

using ::testing::HasSubstr;

TEST(Labels, Sanitise) {
  RecordProperty("holds", "feature-discovery.md #3");
  for (const auto& [given, wanted] : std::initializer_list<std::pair<const char*, const char*>>{
           {"a space separated string", "a-space-separated-string"},
           {"some(thing)else", "somethingelse"},
           {"some ( thing )else", "some-thing-else"},
           {"NVIDIA-TITAN-X-(Pascal)", "NVIDIA-TITAN-X-Pascal"},
           {" input  with multiple   spaces   ", "input-with-multiple-spaces"},
           {"some [ / thing / ]else", "some-thing-else"},
           {"some / thing /else", "some-thing-else"},
           {"some-thing.else_new", "some-thing.else_new"},
           {"a\tb\nc", "abc"}}) {
    EXPECT_EQ(Sanitise(given), wanted);
  }
}

TEST(Labels, EveryValueIsAValidLabelValue) {  // feature-discovery.md section 19 number 6
  Facts facts;
  facts.gpus.driver_version = "580.95.05";
  facts.machine = "(Long) " + std::string(80, 'x') + "...";
  gpu::Device device;
  device.name = "-NVIDIA " + std::string(90, 'y') + "-";
  facts.gpus.devices = {device};
  api::Sharing sharing;
  sharing.time_slicing.emplace();
  sharing.time_slicing->resources = {{.name = "nvidia.com/gpu", .rename = "", .replicas = 2}};
  const auto description = Describe(facts, gpu::MigStrategy::kNone, sharing);
  ASSERT_TRUE(description.has_value());
  for (const auto& [name, value] : description->labels) {
    EXPECT_LE(value.size(), 63U) << name;
    if (value.empty()) continue;
    EXPECT_TRUE(std::isalnum(value.front())) << name << "=" << value;
    EXPECT_TRUE(std::isalnum(value.back())) << name << "=" << value;
  }
  EXPECT_TRUE(description->labels.at("nvidia.com/gpu.product").ends_with("-SHARED"));
}

// Configuration space with one vendor capability at 0xd0.
std::string ConfigSpace(std::string_view capability) {
  std::string config(256, '\0');
  config[0x06] = 0x10;
  config[0x34] = static_cast<char>(0xd0);
  config.replace(0xd0, capability.size(), capability);
  return config;
}

std::string VgpuCapability() {
  using std::string_literals::operator""s;
  return "\x09\x68\x1bVF\x00\x16"s + "460.16\0\0\0\0"s + "r460_00\0\0\0"s;
}

TEST(VirtualGpu, NamesItsHostsDriver) {
  RecordProperty("holds", "feature-discovery.md #18");
  const auto capability = VgpuCapability();
  ASSERT_EQ(capability.size(), 27U);
  const auto vgpu = ReadVgpu(FindVendorCapability(ConfigSpace(capability)));
  ASSERT_TRUE(vgpu.has_value());
  ASSERT_TRUE(vgpu->has_value());
  EXPECT_EQ((*vgpu)->host_driver_version, "460.16");
  EXPECT_EQ((*vgpu)->host_driver_branch, "r460_00");
}

TEST(VirtualGpu, APassedThroughGpuIsNone) {
  RecordProperty("holds", "feature-discovery.md #18");
  std::string capability(20, '\0');
  capability[0] = 0x09;
  capability[2] = 20;
  EXPECT_EQ(ReadVgpu(FindVendorCapability(ConfigSpace(capability))).value(), std::nullopt);
  EXPECT_EQ(ReadVgpu("").value(), std::nullopt);
}

TEST(VirtualGpu, BrokenBytesNeitherHangNorCrash) {  // feature-discovery.md section 19 number 9
  // A record without length, a truncated one, a list of capabilities that runs in a circle.
  auto capability = VgpuCapability();
  capability[5] = 1;
  capability[6] = 0;
  EXPECT_EQ(ReadVgpu(capability).error().reason, "VgpuRecordMissing");
  EXPECT_EQ(ReadVgpu(VgpuCapability().substr(0, 12)).error().reason, "VgpuRecordMissing");
  auto circle = ConfigSpace("");
  circle[0xd0] = 0x10;
  circle[0xd1] = static_cast<char>(0xd0);
  EXPECT_EQ(FindVendorCapability(circle), "");
  auto outside = ConfigSpace("");
  outside[0x34] = static_cast<char>(0xff);
  EXPECT_EQ(FindVendorCapability(outside), "");
}

TEST(VirtualGpu, LooksAtNvidiaDevicesOnly) {
  const test_support::TemporaryFolder folder;
  const auto add = [&](const std::string& address, const char* vendor, const std::string& config) {
    folder.Write(address + "/vendor", vendor);
    folder.Write(address + "/device", "0x1234\n");
    folder.Write(address + "/class", "0x030200\n");
    folder.Write(address + "/numa_node", "-1\n");
    folder.Write(address + "/config", config);
  };
  EXPECT_TRUE(FindVgpu(folder.path() / "missing").is_absent());
  add("0000:00:01.0", "0x8086\n", "short");
  EXPECT_TRUE(FindVgpu(folder.path()).is_absent());
  add("0000:00:02.0", "0x10de\n", ConfigSpace(VgpuCapability()));
  ASSERT_TRUE(FindVgpu(folder.path()).is_present());
  EXPECT_EQ(FindVgpu(folder.path()).value()->host_driver_version, "460.16");
  add("0000:00:03.0", "0x10de\n", std::string(64, '\0'));
  EXPECT_TRUE(FindVgpu(folder.path()).is_unknown());
}

TEST(NodeFeature, ItsForm) {  // feature-discovery.md section 7.2
  const auto object = MakeNodeFeature("node-1", "gpu-operator", codec::Json::array(),
                                      {{"nvidia.com/gpu.count", "8"}});
  EXPECT_EQ(codec::FindString(object, {"apiVersion"}), "nfd.k8s-sigs.io/v1alpha1");
  EXPECT_EQ(codec::FindString(object, {"kind"}), "NodeFeature");
  EXPECT_EQ(codec::FindString(object, {"metadata", "name"}), "nvidia-features-for-node-1");
  EXPECT_EQ(codec::FindString(object, {"metadata", "namespace"}), "gpu-operator");
  EXPECT_EQ(object.at("metadata").at("labels"),
            codec::Json({{"nfd.node.kubernetes.io/node-name", "node-1"}}));
  EXPECT_EQ(object.at("spec").at("labels"), codec::Json({{"nvidia.com/gpu.count", "8"}}));
  for (const auto* kind : {"flags", "attributes", "instances"}) {
    EXPECT_EQ(object.at("spec").at("features").at(kind), codec::Json::object()) << kind;
  }
}

TEST(NodeFeature, Owners) {
  RecordProperty("holds", "feature-discovery.md #10");
  const auto pod = [](const char* kind) {
    return codec::Json{{"metadata",
                        {{"name", "gfd-x"},
                         {"uid", "pod-uid"},
                         {"ownerReferences",
                          {{{"apiVersion", "apps/v1"},
                            {"kind", kind},
                            {"name", "gfd"},
                            {"uid", "set-uid"},
                            {"controller", true},
                            {"blockOwnerDeletion", true}}}}}}};
  };
  const auto owners = OwnersOf(pod("DaemonSet"));
  ASSERT_EQ(owners.size(), 2U);
  EXPECT_EQ(owners[0], codec::Json({{"apiVersion", "apps/v1"},
                                    {"kind", "DaemonSet"},
                                    {"name", "gfd"},
                                    {"uid", "set-uid"},
                                    {"controller", true}}));
  EXPECT_EQ(
      owners[1],
      codec::Json({{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "gfd-x"}, {"uid", "pod-uid"}}));
  EXPECT_TRUE(OwnersOf(pod("ReplicaSet")).empty());
  EXPECT_TRUE(OwnersOf(codec::Json::object()).empty());
}

TEST(NodeFeature, EmptyAndMissingAreTheSame) {  // feature-discovery.md section 7.2
  const auto wanted =
      MakeNodeFeature("n", "ns", codec::Json::array(), {{"nvidia.com/gpu.count", "8"}});
  auto live = wanted;
  live["metadata"].erase("ownerReferences");
  live["metadata"]["resourceVersion"] = "7";
  live["spec"]["features"] = nullptr;
  EXPECT_TRUE(node_feature::IsUpToDate(live, wanted));
  live["metadata"]["labels"]["more"] = "x";
  EXPECT_FALSE(node_feature::IsUpToDate(live, wanted));
  live = wanted;
  live["spec"]["labels"]["nvidia.com/gpu.count"] = "7";
  EXPECT_FALSE(node_feature::IsUpToDate(live, wanted));
}

TEST(File, LinesAndRewrites) {  // feature-discovery.md section 7.1
  const test_support::TemporaryFolder folder;
  const auto file = folder.path() / "features.d" / "gfd";
  const auto output = FileOutput(file);
  EXPECT_EQ(ToLines({{"b", "2"}, {"a", ""}}), "a=\nb=2\n");
  ASSERT_TRUE(output->Publish({{"a", "1"}}, {}).has_value());
  EXPECT_TRUE(std::filesystem::exists(file));
  const auto permissions = std::filesystem::status(file).permissions();
  EXPECT_EQ(static_cast<unsigned>(permissions), 0644U);
  output->Withdraw();
  EXPECT_FALSE(std::filesystem::exists(file));
}

base::Result<Settings> Read(std::map<std::string, std::string> variables,
                            std::string_view file = "") {
  const char* words[] = {"gpu-feature-discovery"};
  TRY_ASSIGN(const auto options,
             ParseOptions(1, words, [&](const std::string& name) -> std::optional<std::string> {
               const auto found = variables.find(name);
               if (found == variables.end()) return std::nullopt;
               return found->second;
             }));
  TRY_ASSIGN(const auto config, api::ParsePluginConfig(file, "config.yaml"));
  return Merge(*options, config);
}

TEST(Settings, NodeFeaturesNeedANodeName) {
  RecordProperty("holds", "feature-discovery.md #21");
  const auto settings = Read({});
  ASSERT_FALSE(settings.has_value());
  EXPECT_THAT(settings.error().message, HasSubstr("NODE_NAME"));
  EXPECT_FALSE(Read({{"USE_NODE_FEATURE_API", "true"}}).has_value());
  EXPECT_TRUE(Read({{"NODE_NAME", "n"}}).has_value());
  EXPECT_TRUE(Read({{"USE_NODE_FEATURE_API", "false"}}).has_value());
}

TEST(Settings, WithoutAnyThereAreDefaults) {  // feature-discovery.md section 1
  const auto settings = Read({{"NODE_NAME", "n"}});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->mig_strategy, gpu::MigStrategy::kNone);
  EXPECT_TRUE(settings->fail_on_init_error);
  EXPECT_FALSE(settings->oneshot || settings->no_timestamp || settings->LooksOnce());
  EXPECT_EQ(settings->output_file, "/etc/kubernetes/node-feature-discovery/features.d/gfd");
  EXPECT_EQ(settings->machine_type_file, "/sys/class/dmi/id/product_name");
  EXPECT_TRUE(settings->use_node_feature_api);
  EXPECT_EQ(settings->driver_root_in_here, "/driver-root");
  const auto chosen = Read({{"NODE_NAME", "n"},
                            {"FAIL_ON_INIT_ERROR", "false"},
                            {"GFD_ONESHOT", "true"},
                            {"GFD_NO_TIMESTAMP", "true"},
                            {"DRIVER_ROOT_CTR_PATH", ""},
                            {"DEVICE_DISCOVERY_STRATEGY", "nvml"}});
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_TRUE(!chosen->fail_on_init_error && chosen->oneshot && chosen->no_timestamp);
  EXPECT_EQ(chosen->driver_root_in_here, "/");
  for (const char* strategy : {"tegra", "vfio"}) {
    const auto refused = Read({{"NODE_NAME", "n"}, {"DEVICE_DISCOVERY_STRATEGY", strategy}});
    ASSERT_FALSE(refused) << strategy;
    EXPECT_EQ(refused.error().reason, "DiscoveryNotSupported");
  }
}

TEST(Settings, TheFirstVariableWins) {  // feature-discovery.md section 1
  EXPECT_EQ(Read({{"NODE_NAME", "n"}, {"GFD_MIG_STRATEGY", "mixed"}, {"MIG_STRATEGY", "single"}})
                ->mig_strategy,
            gpu::MigStrategy::kMixed);
  EXPECT_EQ(Read({{"NODE_NAME", "n"}, {"MIG_STRATEGY", "single"}})->mig_strategy,
            gpu::MigStrategy::kSingle);
}

TEST(Settings, Intervals) {  // feature-discovery.md section 1
  const auto interval = [](std::map<std::string, std::string> variables, std::string_view file) {
    variables["NODE_NAME"] = "n";
    return Read(std::move(variables), file)->longest_interval;
  };
  EXPECT_EQ(interval({}, ""), std::chrono::seconds(60));
  EXPECT_EQ(interval({{"GFD_SLEEP_INTERVAL", "5m"}}, ""), std::chrono::minutes(5));
  EXPECT_EQ(interval({{"GFD_SLEEP_INTERVAL", ""}}, "flags: {gfd: {sleepInterval: 7s}}"),
            std::chrono::seconds(7));
  EXPECT_TRUE(Read({{"NODE_NAME", "n"}, {"GFD_SLEEP_INTERVAL", "infinite"}})->LooksOnce());
  EXPECT_FALSE(Read({{"NODE_NAME", "n"}, {"GFD_SLEEP_INTERVAL", "60"}}).has_value());
}

TEST(Settings,
     UnknownStrategiesAreRefusedAtTheStart) {  // feature-discovery.md section 19 number 16
  EXPECT_FALSE(Read({{"NODE_NAME", "n"}, {"MIG_STRATEGY", "bogus"}}).has_value());
  EXPECT_FALSE(Read({{"NODE_NAME", "n"}, {"DEVICE_DISCOVERY_STRATEGY", "bogus"}}).has_value());
}

}  // namespace
}  // namespace pitcrew::node::feature_discovery
