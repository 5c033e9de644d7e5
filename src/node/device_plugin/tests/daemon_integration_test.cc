// The whole device plugin on simulated GPUs, against the kubelet's side over real gRPC.
#include "node/device_plugin/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "base/file.h"
#include "cdi/format.h"
#include "node/validations/mig_change.h"
#include "nvml/nvml.h"
#include "rpc/testing/fake_kubelet.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::device_plugin {
namespace {

using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using test_support::Program;
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
using ::testing::UnorderedElementsAre;

validations::StatusFolder ValidationsOf(const SimulatedNode& node) {
  return validations::StatusFolder(node.folder().path() / "validations");
}

Options OptionsOn(const SimulatedNode& node, api::PluginFlags flags,
                  const std::filesystem::path& config_file) {
  Options options;
  options.flags = std::move(flags);
  options.flags.driver_root_in_here = node.driver_root().string();
  options.kubelet_socket = node.kubelet_socket();
  options.config_file = config_file;
  options.probe_period = std::chrono::milliseconds(20);
  // Long enough for a busy machine: it is waited for once.
  options.nvml_limit = std::chrono::seconds(3);
  return options;
}

NodePaths PathsOf(const SimulatedNode& node) {
  NodePaths paths;
  paths.cdi_folder = node.cdi_folder();
  paths.dev = node.driver_root() / "dev";
  paths.pci_devices = {node.pci_devices()};
  paths.health_file = node.folder().path() / "health.json";
  paths.validations = ValidationsOf(node).path();
  std::filesystem::create_directories(paths.validations);
  return paths;
}

class RunningDaemon : public test_support::DaemonThread {
 public:
  explicit RunningDaemon(const SimulatedNode& node, api::PluginFlags flags = {},
                         const std::filesystem::path& config_file = {})
      : DaemonThread([options = OptionsOn(node, std::move(flags), config_file),
                      paths = PathsOf(node)](const io::StopToken& stop) {
          const auto reload = io::SignalReceiver::Create({SIGHUP});
          return Daemon(options, paths, *reload, stop).Run();
        }) {}
};

std::vector<std::string> Uuids(const SimulatedNode& node) {
  auto library = nvml::Library::Open({node.driver_root()});
  EXPECT_TRUE(library.has_value()) << library.error().ToString();
  const auto inventory = (*library)->ReadInventory();
  std::vector<std::string> uuids;
  for (const auto& device : inventory->devices) uuids.push_back(device.uuid);
  return uuids;
}

std::vector<std::string> Ids(const base::Result<std::vector<rpc::PluginDevice>>& list) {
  EXPECT_TRUE(list.has_value()) << list.error().ToString();
  std::vector<std::string> ids;
  if (list) {
    for (const auto& device : *list) ids.push_back(device.id);
  }
  return ids;
}

// The next list in which the device's health is this; lists in between may come.
bool WaitForHealth(PluginClient& client, const std::string& id, bool healthy) {
  while (true) {
    const auto list = client.NextList();
    if (!list) return false;
    const auto found = std::ranges::find(*list, id, &rpc::PluginDevice::id);
    if (found != list->end() && found->healthy == healthy) return true;
  }
}

api::PluginFlags CdiFlags() {
  api::PluginFlags flags;
  flags.device_list_strategy = {"cdi-annotations", "cdi-cri"};
  return flags;
}

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

// The health of two GPUs, as the kubelet is told of it.
class DevicePluginHealth : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.InstallDriver();
    uuids_ = Uuids(node_);
    kubelet_ = FakeKubelet::Start(node_.kubelet_folder());
  }
  // The plugin, once more where it has run before.
  void StartPlugin() {
    daemon_.reset();
    daemon_ = std::make_unique<RunningDaemon>(node_);
    kubelet_->WaitForRegistrations(++starts_);
    client_ = PluginClient::Connect(node_.kubelet_folder() / "nvidia-gpu.sock");
  }
  // Of the next list.
  std::vector<bool> NextHealth() {
    const auto list = client_->NextList();
    EXPECT_EQ(Ids(list), uuids_);
    std::vector<bool> health;
    if (list) {
      for (const auto& device : *list) health.push_back(device.healthy);
    }
    return health;
  }

  const SimulatedNode node_{"gpus: [{profile: H100-80, count: 2}]"};
  std::vector<std::string> uuids_;
  std::unique_ptr<FakeKubelet> kubelet_;
  std::size_t starts_ = 0;
  std::unique_ptr<RunningDaemon> daemon_;
  std::unique_ptr<PluginClient> client_;
};

TEST_F(DevicePluginHealth, TellsAboutXidsAndAboutTheirEnd) {
  RecordProperty("holds", "device-plugin.md #45, pain 8");
  StartPlugin();
  ASSERT_THAT(NextHealth(), ElementsAre(true, true));
  node_.Gpu({"lose", "1"});
  EXPECT_THAT(NextHealth(), ElementsAre(true, false));
  node_.Gpu({"restore", "1"});
  EXPECT_TRUE(WaitForHealth(*client_, uuids_[1], true));
}

TEST_F(DevicePluginHealth, IgnoresTheApplicationsXids) {
  RecordProperty("holds", "device-plugin.md #45");
  StartPlugin();
  ASSERT_THAT(NextHealth(), ElementsAre(true, true));
  // Events come in order: when the second GPU is told unhealthy, the first one's XID has been read.
  node_.Gpu({"xid", "0", "31"});
  node_.Gpu({"xid", "1", "48"});
  EXPECT_THAT(NextHealth(), ElementsAre(true, false));
}

TEST_F(DevicePluginHealth, KeepsAnXidInMindUntilTheResetIsSeen) {
  StartPlugin();
  ASSERT_TRUE(WaitForHealth(*client_, uuids_[1], true));
  node_.Gpu({"xid", "1", "48"});
  ASSERT_TRUE(WaitForHealth(*client_, uuids_[1], false));
  // The next one knows it from its first list on.
  StartPlugin();
  ASSERT_THAT(NextHealth(), ElementsAre(true, false));
  node_.Gpu({"reset", "1"});
  EXPECT_TRUE(WaitForHealth(*client_, uuids_[1], true));
}

TEST_F(DevicePluginHealth, AsksNvmlHowFitTheGpusAreAtTheStart) {
  node_.Gpu({"recovery", "1", "reset"});
  StartPlugin();
  ASSERT_THAT(NextHealth(), ElementsAre(true, false));
  node_.Gpu({"reset", "1"});
  EXPECT_TRUE(WaitForHealth(*client_, uuids_[1], true));
}

TEST(DevicePlugin, ListsAGpuThatIsLostAtTheStartUntilItIsBack) {
  const SimulatedNode node("gpus: [{profile: H100-80, count: 2}]");
  node.InstallDriver();
  const auto uuids = Uuids(node);
  node.Gpu({"lose", "1"});
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node, CdiFlags());
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  const auto list = client->NextList();
  ASSERT_EQ(Ids(list), (std::vector<std::string>{uuids[0], "unidentified-gpu-1"}));
  EXPECT_FALSE(list->at(1).healthy);
  node.Gpu({"restore", "1"});
  EXPECT_TRUE(WaitForHealth(*client, uuids[1], true));
}

TEST(DevicePlugin, KeepsALostGpuOverReadingAnew) {
  const SimulatedNode node("gpus: [{profile: H100-80, count: 3}]");
  node.InstallDriver();
  const auto uuids = Uuids(node);
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node);
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  ASSERT_EQ(Ids(client->NextList()), uuids);
  node.Gpu({"lose", "1"});
  ASSERT_TRUE(WaitForHealth(*client, uuids[1], false));
  // A late control node makes the plugin read everything anew; what it then gives shows that it
  // did.
  base::WriteFileAtomically(node.driver_root() / "dev/nvidia-modeset", "").value();
  node.Gpu({"lose", "2"});
  ASSERT_TRUE(WaitForHealth(*client, uuids[2], false));
  node.Gpu({"restore", "1"});
  ASSERT_TRUE(WaitForHealth(*client, uuids[1], true));
  node.Gpu({"restore", "2"});
  ASSERT_TRUE(WaitForHealth(*client, uuids[2], true));
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

TEST(DevicePlugin, AGpuThatHangsHoldsNothingUp) {
  const SimulatedNode node("gpus: [{profile: H100-80, count: 3}]");
  node.InstallDriver();
  const auto uuids = Uuids(node);
  node.Gpu({"hang", "0"});
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  RunningDaemon daemon(node);
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  const auto list = client->NextList();
  ASSERT_EQ(Ids(list), (std::vector<std::string>{"unidentified-gpu-0", uuids[1], uuids[2]}));
  EXPECT_FALSE(list->at(0).healthy);
  EXPECT_TRUE(list->at(1).healthy);
  // The others' health goes on, and so do the preferences among them.
  node.Gpu({"xid", "1", "48"});
  ASSERT_TRUE(WaitForHealth(*client, uuids[1], false));
  EXPECT_TRUE(client->PreferredAllocation(
      {.available = {uuids[1], uuids[2]}, .must_include = {}, .size = 1}));
  node.Gpu({"restore", "0"});
  EXPECT_TRUE(WaitForHealth(*client, uuids[0], true));
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

class DevicePluginProgram : public ::testing::Test {
 protected:
  DevicePluginProgram() : node_("gpus: [{profile: A100-40, count: 2}]") { node_.InstallDriver(); }
  [[nodiscard]] std::vector<std::string> Environment() const {
    return {"DRIVER_ROOT_CTR_PATH=" + node_.driver_root().string(),
            "KUBELET_SOCKET=" + node_.kubelet_socket().string(), "CONFIG_FILE=" + config_.string()};
  }
  SimulatedNode node_;
  std::filesystem::path config_ = node_.folder().Write("config.yaml", "version: v1\n");
};

TEST_F(DevicePluginProgram, ReadsItsConfigurationAgainOnHangUp) {
  RecordProperty("holds", "device-plugin.md #51");
  const auto kubelet = FakeKubelet::Start(node_.kubelet_folder());
  Program program("device_plugin_program", {}, Environment());
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node_.kubelet_folder() / "nvidia-gpu.sock");
  ASSERT_EQ(Ids(client->NextList()), Uuids(node_));
  node_.folder().Write("config.yaml",
                       "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}");
  program.Signal(SIGHUP);
  // The socket stays and the open stream goes on (section 22 number 16).
  EXPECT_THAT(Ids(client->NextList()), SizeIs(6));
  EXPECT_THAT(kubelet->registrations(), SizeIs(1));

  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(node_.kubelet_folder() / "nvidia-gpu.sock"));
}

TEST_F(DevicePluginProgram, KeepsTheLastGoodConfigurationAtHangUp) {
  const auto kubelet = FakeKubelet::Start(node_.kubelet_folder());
  Program program("device_plugin_program", {}, Environment());
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node_.kubelet_folder() / "nvidia-gpu.sock");
  ASSERT_THAT(Ids(client->NextList()), SizeIs(2));
  for (const auto* bad :
       {"version: v2\n", "flags: {migStrategy: magic}",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 9999999}]}}"}) {
    node_.folder().Write("config.yaml", bad);
    program.Signal(SIGHUP);
  }
  // Signals of one kind that wait are one; the good one comes when the bad ones were taken.
  node_.folder().Write("config.yaml",
                       "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}");
  program.Signal(SIGHUP);
  EXPECT_THAT(Ids(client->NextList()), SizeIs(6));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST(DevicePluginReload, HealthIsWatchedAfterAConfigurationThatDoesNotFitTheGpus) {
  const SimulatedNode node("gpus: [{profile: H100-80, mig: {enabled: true}}, {profile: H100-80}]");
  node.InstallDriver();
  const auto config = node.folder().Write("config.yaml", "version: v1\n");
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  const Program program(
      "device_plugin_program", {},
      {"DRIVER_ROOT_CTR_PATH=" + node.driver_root().string(),
       "KUBELET_SOCKET=" + node.kubelet_socket().string(), "CONFIG_FILE=" + config.string()});
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(node.kubelet_folder() / "nvidia-gpu.sock");
  const auto uuids = Uuids(node);
  ASSERT_EQ(Ids(client->NextList()), uuids);
  // A divided GPU without MIG devices.
  node.folder().Write("config.yaml", "flags: {migStrategy: single}");
  program.Signal(SIGHUP);
  node.Gpu({"lose", "1"});
  EXPECT_TRUE(WaitForHealth(*client, uuids[1], false));
}

TEST_F(DevicePluginProgram, EndsOnABadConfigurationAtTheStart) {  // device-plugin.md section 3.2
  node_.folder().Write("config.yaml", "version: v2\n");
  EXPECT_EQ(Program("device_plugin_program", {}, Environment()).Wait(), 1);
}

TEST_F(DevicePluginProgram, RefusesPlatformsThatItDoesNotKnow) {
  const auto library = node_.driver_root() / "usr/lib/x86_64-linux-gnu/libdxcore.so";
  base::WriteFileAtomically(library, "").value();
  EXPECT_EQ(Program("device_plugin_program", {}, Environment()).Wait(), 1);
}

// As programs: a process that has opened NVML once finds it again without its file.
TEST(DevicePluginWithoutDriver, WaitsForItWhenToldTo) {
  const SimulatedNode node("gpus: [{profile: L4, count: 2}]");
  std::filesystem::create_directories(node.driver_root() / "dev");
  std::filesystem::create_directories(node.driver_root() / "usr/lib/x86_64-linux-gnu");
  const auto kubelet = FakeKubelet::Start(node.kubelet_folder());
  const Program program("device_plugin_program", {"-fail-on-init-error=false"},
                        {"DRIVER_ROOT_CTR_PATH=" + node.driver_root().string(),
                         "KUBELET_SOCKET=" + node.kubelet_socket().string()});
  node.InstallDriver();
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
}

TEST(DevicePluginWithoutDriver, EndsAtOnce) {  // device-plugin.md section 6
  const SimulatedNode node("gpus: [{profile: L4, count: 2}]");
  Program program("device_plugin_program", {},
                  {"DRIVER_ROOT_CTR_PATH=" + node.driver_root().string(),
                   "KUBELET_SOCKET=" + node.kubelet_socket().string()});
  EXPECT_EQ(program.Wait(), 1);
}

TEST_F(DevicePluginProgram, EndsOnBadFlags) {
  RecordProperty("holds", "device-plugin.md #14 and #15");
  for (const auto* variable :
       {"MIG_STRATEGY=", "FAIL_ON_INIT_ERROR=yes", "DEVICE_LIST_STRATEGY=magic"}) {
    auto environment = Environment();
    environment.emplace_back(variable);
    EXPECT_EQ(Program("device_plugin_program", {}, environment).Wait(), 1) << variable;
  }
  EXPECT_EQ(Program("device_plugin_program", {"--version"}, {}).Wait(), 0);
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
