// The whole device plugin on simulated GPUs, against the kubelet's side over real gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cdi/format.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "support_daemon.h"
#include "tests/support/file_opens.h"

namespace pitcrew::node::device_plugin {
namespace {

using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using test_support::SimulatedNode;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(DevicePlugin, RegistersAndListsWhatNvmlHas) {
  const SimulatedNode node("gpus: [{profile: H100-80, count: 8}]");
  node.InstallDriver();
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node);
  const auto taken = kubelet->WaitForRegistrations(1);
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_EQ(taken[0].resource_name, "nvidia.com/gpu");
  EXPECT_EQ(taken[0].endpoint, "nvidia-gpu.sock");
  EXPECT_EQ(taken[0].version, "v1beta1");

  const auto client = PluginClient::Connect(node.kubelet_folder() / taken[0].endpoint);
  const auto list = client->NextList();
  ASSERT_TRUE(list.has_value()) << list.error().ToString();
  EXPECT_EQ(Ids(list), Uuids(node));
  EXPECT_THAT(*list, Each(Field(&rpc::PluginDevice::healthy, true)));
  // NUMA nodes come from the PCI tree (section 8.3).
  EXPECT_THAT(*list, Each(Field(&rpc::PluginDevice::numa_node,
                                Property(&std::optional<std::int64_t>::has_value, true))));
  EXPECT_TRUE(daemon.Stop().has_value());
  EXPECT_FALSE(std::filesystem::exists(node.kubelet_folder() / "nvidia-gpu.sock"));  // #51
}

TEST(DevicePlugin, AllocatesThroughCdi) {
  RecordProperty("holds", "device-plugin.md #28");
  const SimulatedNode node("gpus: [{profile: A100-40, count: 2}]");
  node.InstallDriver();
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node, CdiFlags());
  kubelet->WaitForRegistrations(1);
  // The specification is there before the kubelet can ask (section 16).
  const auto text = base::ReadFile(node.cdi_folder() / "k8s.device-plugin.nvidia.com-gpu.json");
  ASSERT_TRUE(text.has_value()) << text.error().ToString();
  const auto spec = cdi::ParseSpec(*text, "spec");
  ASSERT_TRUE(spec.has_value()) << spec.error().ToString();
  const auto uuids = Uuids(node);
  std::vector<std::string> names;
  for (const auto& device : spec->devices) names.push_back(device.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(uuids));
  EXPECT_EQ(spec->kind, "k8s.device-plugin.nvidia.com/gpu");

  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  const auto answer = client->Allocate({{uuids[1]}});
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  const auto name = "k8s.device-plugin.nvidia.com/gpu=" + uuids[1];
  EXPECT_THAT(answer->at(0).cdi_devices, ElementsAre(name));
  ASSERT_THAT(answer->at(0).annotations, SizeIs(1));
  EXPECT_THAT(answer->at(0).annotations.begin()->first,
              StartsWith("cdi.k8s.io/nvidia-device-plugin_"));
  EXPECT_EQ(answer->at(0).annotations.begin()->second, name);
  EXPECT_THAT(answer->at(0).envs, IsEmpty());
  EXPECT_FALSE(client->Allocate({{"GPU-none"}}).has_value());

  // Every container request has a name of its own.
  const auto two = client->Allocate({{uuids[0]}, {uuids[1]}});
  ASSERT_TRUE(two.has_value());
  EXPECT_NE(two->at(0).annotations.begin()->first, two->at(1).annotations.begin()->first);
}

// What the MIG manager does to one GPU.
void Divide(const SimulatedNode& node, const std::string& gpu, unsigned profile, int count) {
  const auto library = nvml::Library::Open({node.driver_root()});
  ASSERT_TRUE(library) << library.error().ToString();
  const auto control = *(*library)->OpenMig(gpu);
  const auto instances = *control->GpuInstances();
  for (const auto& instance : instances) {
    const auto parts = *control->ComputeInstances(instance.id);
    for (const auto& compute : parts) {
      ASSERT_TRUE(control->DestroyComputeInstance(instance.id, compute.id));
    }
    ASSERT_TRUE(control->DestroyGpuInstance(instance.id));
  }
  const auto profiles = *control->GpuInstanceProfiles();
  const auto wanted = std::ranges::find(profiles, profile, &nvml::InstanceProfile::index);
  ASSERT_NE(wanted, profiles.end());
  for (int i = 0; i < count; ++i) {
    const auto made = control->CreateGpuInstance(wanted->id, std::nullopt);
    ASSERT_TRUE(made) << made.error().ToString();
    const auto parts = *control->ComputeInstanceProfiles(made->id);
    const auto whole = *std::ranges::max_element(parts, {}, &nvml::InstanceProfile::slice_count);
    ASSERT_TRUE(control->CreateComputeInstance(made->id, whole.id, std::nullopt));
  }
}

TEST(DevicePlugin, FollowsAChangedGeometryWithoutARestart) {
  const SimulatedNode node(
      "gpus: [{profile: H100-80, count: 2, mig: {enabled: true, devices: {1g.10gb: 7}}}]");
  node.InstallDriver();
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  auto flags = CdiFlags();
  flags.mig_strategy = "mixed";
  RunningDaemon daemon(node, flags);
  ASSERT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
  EXPECT_EQ(validations::IsMigFollowed(ValidationsOf(node), "nvidia-device-plugin-daemonset"),
            true);
  const auto small = PluginClient::Connect(node.kubelet_folder() / "nvidia-mig-1g.10gb.sock");
  ASSERT_THAT(Ids(small->NextList()), SizeIs(14));
  const auto first = Uuids(node).front();

  // While the GPU is divided anew, the kubelet can give none of it away; the other one goes on.
  ASSERT_TRUE(validations::AnnounceMigChange(ValidationsOf(node), {first}));
  const auto during = small->NextList();
  ASSERT_TRUE(during) << during.error().ToString();
  EXPECT_EQ(std::ranges::count_if(*during, &rpc::PluginDevice::healthy), 7);
  Divide(node, first, 2, 2);  // 3g.40gb
  ASSERT_TRUE(validations::AnnounceMigChange(ValidationsOf(node), {}));
  const auto taken = kubelet->WaitForRegistrations(2);
  ASSERT_THAT(taken, SizeIs(2));
  EXPECT_EQ(taken[1].resource_name, "nvidia.com/mig-3g.40gb");
  const auto large = PluginClient::Connect(node.kubelet_folder() / taken[1].endpoint);
  const auto ids = Ids(large->NextList());
  EXPECT_THAT(ids, SizeIs(2));
  // Its CDI devices are there before the kubelet can ask for them.
  const auto answer = large->Allocate({{ids.front()}});
  ASSERT_TRUE(answer) << answer.error().ToString();
  const auto text = base::ReadFile(node.cdi_folder() / "k8s.device-plugin.nvidia.com-gpu.json");
  ASSERT_TRUE(text) << text.error().ToString();
  EXPECT_THAT(*text, ::testing::HasSubstr(ids.front()));
}

TEST(DevicePlugin, PrefersGpusThatAreConnected) {
  const SimulatedNode node("gpus: [{profile: H100-80, count: 8}]");
  node.InstallDriver();
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node);
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  const auto uuids = Uuids(node);
  for (int size = 1; size <= 8; ++size) {
    const auto chosen =
        client->PreferredAllocation({.available = uuids, .must_include = {uuids[3]}, .size = size});
    ASSERT_TRUE(chosen.has_value()) << chosen.error().ToString();
    EXPECT_THAT(*chosen, AllOf(SizeIs(static_cast<std::size_t>(size)), Contains(uuids[3])));
  }
}

TEST(DevicePlugin, RegistersAgainWithARestartedKubelet) {
  RecordProperty("holds", "device-plugin.md #50");
  const SimulatedNode node("gpus: [{profile: T4, count: 1}]");
  node.InstallDriver();
  auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node);
  kubelet->WaitForRegistrations(1);
  kubelet.reset();
  // A starting kubelet clears the folder before it listens.
  std::filesystem::remove(node.kubelet_folder() / "nvidia-gpu.sock");
  kubelet = FakeKubelet::Start(node.kubelet_folder());
  ASSERT_NE(kubelet, nullptr);
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  EXPECT_EQ(Ids(client->NextList()), Uuids(node));
}

TEST(DevicePlugin, WaitsForAKubeletThatStartsLater) {
  const SimulatedNode node("gpus: [{profile: T4, count: 1}]");
  node.InstallDriver();
  RunningDaemon daemon(node);
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
}

// The files of a driver are there before it answers, and when it does, nothing tells of it.
TEST(DevicePlugin, ADriverOnItsWayIsAskedAgain) {
  const SimulatedNode node("gpus: [{profile: L4, count: 2}]");
  node.InstallDriver();
  const auto state = node.driver_root() / "run/nvidia/simulation/state";
  const auto away = node.folder().path() / "state-on-its-way";
  std::filesystem::rename(state, away);
  const test_support::FileOpens opens(node.driver_root() /
                                      "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  api::PluginFlags flags;
  flags.fail_on_init_error = false;
  RunningDaemon daemon(node, flags);
  ASSERT_TRUE(opens.Wait(3)) << "asked at most once";
  std::filesystem::rename(away, state);
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
}

// New settings come while the driver does not answer, and then a device does.
TEST(DevicePlugin, NewSettingsAreNotForgottenForADeviceThatCameMeanwhile) {
  const SimulatedNode node("gpus: [{profile: L4, count: 2}]");
  node.InstallDriver();
  const auto config = node.folder().Write("config.yaml", "version: v1\n");
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  auto options = OptionsOn(node, {}, config);
  options.probe_period = std::chrono::hours(1);  // nothing comes by itself
  RunningDaemon daemon(options, PathsOf(node));
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  const auto uuids = Uuids(node);
  ASSERT_TRUE(WaitForHealth(*client, uuids[0], true));
  const auto state = node.driver_root() / "run/nvidia/simulation/state";
  const auto away = node.folder().path() / "state-on-its-way";
  std::filesystem::rename(state, away);
  node.folder().Write("config.yaml",
                      "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}");
  daemon.Reload();
  ASSERT_TRUE(WaitForHealth(*client, uuids[0], false)) << "the driver did not answer";
  std::filesystem::rename(away, state);
  base::WriteFileAtomically(node.driver_root() / "dev/nvidia-modeset", "").value();
  EXPECT_TRUE(WaitForHealth(*client, uuids[0] + "::1", true));
}

// New settings that the GPUs do not fit yet, as they are about to be divided.
TEST(DevicePlugin, SettingsForANewGeometryAreTakenWhenItStands) {
  const SimulatedNode node("gpus: [{profile: H100-80, mig: {enabled: true}}]");
  node.InstallDriver();
  const auto config = node.folder().Write("config.yaml", "version: v1\n");
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node, {}, config);
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  const auto gpu = Uuids(node).front();
  ASSERT_TRUE(WaitForHealth(*client, gpu, true));
  node.folder().Write("config.yaml", "flags: {migStrategy: single}");
  daemon.Reload();
  // Signals are looked at first: when this is seen, the settings were refused.
  ASSERT_TRUE(validations::AnnounceMigChange(ValidationsOf(node), {gpu}));
  ASSERT_TRUE(WaitForHealth(*client, gpu, false));
  Divide(node, gpu, 2, 2);  // 3g.40gb
  ASSERT_TRUE(validations::AnnounceMigChange(ValidationsOf(node), {}));
  // The GPU as a whole is listed again first.
  std::vector<std::string> listed = {gpu};
  while (listed == std::vector<std::string>{gpu}) listed = Ids(client->NextList());
  EXPECT_THAT(listed, AllOf(SizeIs(2), Each(StartsWith("MIG-"))));
}

TEST(DevicePlugin, TakesUpControlNodesThatAppearLate) {
  const SimulatedNode node("gpus: [{profile: H100-80, count: 1}]");
  node.InstallDriver();
  const auto uvm = node.driver_root() / "dev/nvidia-uvm";
  std::filesystem::rename(uvm, node.folder().path() / "uvm");
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  auto flags = CdiFlags();
  flags.dev_root = "/";
  RunningDaemon daemon(node, flags);
  kubelet->WaitForRegistrations(1);
  const auto file = node.cdi_folder() / "k8s.device-plugin.nvidia.com-gpu.json";
  ASSERT_EQ(base::ReadFile(file).value().find("\"/dev/nvidia-uvm\""), std::string::npos);
  std::filesystem::rename(node.folder().path() / "uvm", uvm);
  EXPECT_TRUE(io::WaitForFiles({node.cdi_folder()},
                               [&]() -> base::Result<bool> {
                                 return base::ReadFile(file).value_or("").find(
                                            "\"/dev/nvidia-uvm\"") != std::string::npos;
                               },
                               {}));
}

TEST(DevicePlugin, SharesGpus) {
  RecordProperty("holds", "device-plugin.md #23");
  const SimulatedNode node("gpus: [{profile: L4, count: 2}]");
  node.InstallDriver();
  const auto config =
      node.folder().Write("config.yaml",
                          "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: "
                          "nvidia.com/gpu, replicas: 4}]}}");
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node, {}, config);
  const auto taken = kubelet->WaitForRegistrations(1);
  EXPECT_EQ(taken[0].resource_name, "nvidia.com/gpu.shared");
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.shared.sock");
  const auto ids = Ids(client->NextList());
  EXPECT_THAT(ids, SizeIs(8));
  EXPECT_EQ(ids[5], Uuids(node)[1] + "::1");
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
