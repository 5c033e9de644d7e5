// The MIG manager on a real kube-apiserver and on simulated GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "api/labels.h"
#include "api/mig_progress.h"
#include "apiserver/api_server.h"
#include "base/file.h"
#include "kube/await.h"
#include "kube/projection.h"
#include "node/mig_manager/daemon.h"
#include "node/own_node/own_node.h"
#include "node/validations/mig_change.h"
#include "nvml/nvml.h"
#include "rpc/testing/fake_pod_resources.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/patience.h"
#include "tests/support/simulated_node.h"
#include "tests/system_bus/system_bus.h"

namespace pitcrew::node::mig_manager {
namespace {

using codec::Json;
using own_node::AnnotationOf;
using own_node::LabelOf;
using ::pitcrew::testing::ApiServer;
using rpc::testing::FakePodResources;
using test_support::SimulatedNode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kTwoGpus = "gpus: [{profile: H100-80, count: 2}]";

class Manager : public test_support::DaemonThread {
 public:
  Manager(const Options& options, const std::shared_ptr<kube::Client>& client)
      : DaemonThread([options, client](const io::StopToken& stop) {
          return Daemon(options, client, stop).Run();
        }) {}
};

class MigManagerTest : public ::testing::Test {
 protected:
  explicit MigManagerTest(const char* gpus = kTwoGpus) : gpus_(gpus) { gpus_.InstallDriver(); }

  void SetUp() override {
    client_ = ApiServer::Shared().MakeClient();
    node_ = "gpu-" + std::to_string(++counter_);
    const auto root = gpus_.folder().path();
    options_.node_name = node_;
    options_.namespace_name = "space-" + std::to_string(counter_);
    options_.clients_namespace = options_.namespace_name;
    options_.pod_name = "manager";
    options_.host_root = root / "host";
    options_.sys_root = root / "empty";
    options_.driver_root_container = gpus_.driver_root();
    options_.validations = root / "validations";
    options_.cdi_folder = root / "cdi";
    options_.generated_config = root / "etc/generated-config.yaml";
    std::filesystem::create_directories(options_.validations);
    std::filesystem::create_directories(options_.pod_resources().parent_path());
    Make(kube::kNamespaces, {{"metadata", {{"name", options_.namespace_name}}}});
    Make(kube::kServiceAccounts,
         {{"metadata", {{"name", "default"}, {"namespace", options_.namespace_name}}}});
    Make(kube::kNodes, {{"metadata", {{"name", node_}}}});
    MakePod("manager", Json::object());
    FollowStates();
  }
  void TearDown() override { states_.reset(); }

  void Make(const kube::ResourceKind& kind, const Json& object) {
    const auto made = client_->Create(kind, object);
    ASSERT_TRUE(made) << made.error().message;
  }
  void MakePod(const std::string& name, const Json& limits, const std::string& app = "") {
    Make(kube::kPods,
         {{"metadata",
           {{"name", name}, {"namespace", options_.namespace_name}, {"labels", {{"app", app}}}}},
          {"spec",
           {{"nodeName", node_},
            {"terminationGracePeriodSeconds", 0},
            {"containers",
             Json::array(
                 {{{"name", "c"}, {"image", "i"}, {"resources", {{"limits", limits}}}}})}}}});
  }
  void MakeGpuPod(const std::string& name) { MakePod(name, {{"nvidia.com/gpu", "1"}}); }
  void DeletePod(const std::string& name) {
    kube::DeleteOptions at_once;
    at_once.grace_period_seconds = 0;
    const auto deleted = client_->Delete(kube::kPods, {options_.namespace_name, name}, at_once);
    ASSERT_TRUE(deleted) << deleted.error().message;
  }
  void Label(std::string_view name, const std::optional<std::string>& value) {
    const auto sent = client_->Patch(kube::kNodes, {"", node_}, kube::PatchType::kMerge,
                                     own_node::LabelPatch(name, value));
    ASSERT_TRUE(sent) << sent.error().message;
  }
  void Want(const std::string& config) { Label(api::kMigConfig, config); }
  Json Node() { return *client_->Get(kube::kNodes, {"", node_}); }
  api::MigProgress Progress() {
    return api::ParseMigProgress(AnnotationOf(Node(), api::kMigConfigProgress))
        .value_or(api::MigProgress());
  }

  // Every value that the state label takes, once for each change.
  void FollowStates() {
    kube::InformerOptions only;
    only.field_selector = "metadata.name=" + node_;
    states_ = std::make_unique<kube::Informer<Json>>(
        client_, kube::kNodes, kube::ProjectJson<Json>([](const Json& node) -> base::Result<Json> {
          return Json{LabelOf(node, api::kMigConfigState),
                      AnnotationOf(node, api::kMigConfigProgress)};
        }),
        only);
    states_->AddHandler([this](const kube::Change<Json>& change) {
      if (!change.now) return;
      const std::lock_guard lock(mutex_);
      const auto state = (*change.now)[0].get<std::string>();
      if (!state.empty() && last_ != state) seen_.push_back(state);
      last_ = state;
      progress_ = (*change.now)[1].get<std::string>();
      changed_.notify_all();
    });
    states_->Start();
    ASSERT_TRUE(states_->WaitUntilSynced({}));
  }
  // Waits for the states since the last call to end like this, and returns them all.
  std::vector<std::string> StatesUntil(const std::string& last) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, test_support::kPatience, [&] { return !seen_.empty() && seen_.back() == last; });
    return std::exchange(seen_, {});
  }
  bool WaitForProgress(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, test_support::kPatience,
                             [&] { return progress_.find(part) != std::string::npos; });
  }

  // Names of the MIG devices by GPU.
  std::vector<std::vector<std::string>> Geometry() {
    const auto library = nvml::Library::Open({gpus_.driver_root()});
    EXPECT_TRUE(library) << library.error().message;
    std::vector<std::vector<std::string>> geometry;
    const auto inventory = (*library)->ReadInventory();
    for (const auto& device : inventory->devices) {
      auto& names = geometry.emplace_back();
      for (const auto& mig : device.mig_devices) names.push_back(mig.profile.Name());
    }
    return geometry;
  }
  std::vector<std::string> Uuids() {
    const auto library = nvml::Library::Open({gpus_.driver_root()});
    std::vector<std::string> uuids;
    const auto inventory = (*library)->ReadInventory();
    for (const auto& device : inventory->devices) uuids.push_back(device.uuid);
    return uuids;
  }
  void ChangeWithAMigServiceOfTheHost();
  std::vector<std::string> EventReasons() {
    const auto events = client_->List(kube::kEvents, "default");
    std::vector<std::string> reasons;
    for (const auto& event : events->items) {
      if (codec::FindString(event, {"involvedObject", "name"}) == node_) {
        reasons.push_back(codec::FindString(event, {"reason"}));
      }
    }
    return reasons;
  }

  static int counter_;
  const SimulatedNode gpus_;
  std::shared_ptr<kube::Client> client_;
  std::string node_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> seen_;
  std::string last_;
  std::string progress_;
  std::unique_ptr<kube::Informer<Json>> states_;
};
int MigManagerTest::counter_ = 0;

const std::vector<std::string> kWhole;
const std::vector<std::string> kSeven(7, "1g.10gb");
const std::vector<std::string> kTwo(2, "3g.40gb");

TEST_F(MigManagerTest, FollowsALabelThroughItsChanges) {  // mig-manager.md 9.4
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_EQ(Progress().phase, "done");
  EXPECT_THAT(Progress().gpus, ElementsAre(std::pair(0, "done"), std::pair(1, "done")));
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kTwo, kTwo));
  // Nothing is torn down for a name that nobody knows, and operands are left in peace.
  Want("all-9g.90gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kTwo, kTwo));
  EXPECT_THAT(Progress().message, HasSubstr("selected mig-config not present: all-9g.90gb"));
  // The one that is in force needs no change.
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("success"));
  Want("all-disabled");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kWhole));
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(EventReasons(), Contains("MigChanged"));
  EXPECT_THAT(EventReasons(), Contains("MigChangeFailed"));
}

TEST_F(MigManagerTest, TellsWhichConfigurationsThereAre) {  // 9.2
  Manager manager(options_, client_);
  Want("all-disabled");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("success"));
  const auto map =
      client_->Get(kube::kConfigMaps, {options_.namespace_name, node_ + "-mig-config"});
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(LabelOf(*map, "app.kubernetes.io/component"), "nvidia-mig-manager");
  EXPECT_EQ(LabelOf(*map, "nvidia.com/node-name"), node_);
  EXPECT_EQ((*map)["metadata"]["ownerReferences"][0]["name"], "manager");
  const auto text = codec::FindString(*map, {"data", "config.yaml"});
  EXPECT_THAT(text, ::testing::StartsWith("# DO NOT EDIT: Auto-generated MIG configuration"));
  EXPECT_THAT(text, HasSubstr("all-1g.10gb:"));
  EXPECT_EQ(*base::ReadFile(options_.generated_config), text);
}

TEST_F(MigManagerTest, AFileThatIsMissingIsFatal) {  // 9.2
  options_.config_file = options_.host_root / "nowhere.yaml";
  Manager manager(options_, client_);
  const auto done = manager.Wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("failed to read custom config"));
}

TEST_F(MigManagerTest, ARepairedFileIsTriedAgain) {
  options_.config_file = gpus_.folder().Write(
      "config/config.yaml",
      "version: v1\nmig-configs:\n  mine: [{devices: all, mig-enabled: true, mig-devices: "
      "{1g.10gb: 8}}]\n");
  Manager manager(options_, client_);
  Want("mine");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kWhole)) << "eight do not fit";
  // Other files in the folder are no reason to try again.
  gpus_.folder().Write("config/manager.log", "a line");
  gpus_.folder().Write("config/manager.log", "another line");
  gpus_.folder().Write(
      "config/config.yaml",
      "version: v1\nmig-configs:\n  mine: [{devices: [1], mig-enabled: true, mig-devices: "
      "{1g.10gb: 7}}, {devices: [0], mig-enabled: false}]\n");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kSeven));
}

constexpr const char* kPlugin = "nvidia.com/gpu.deploy.device-plugin";
constexpr const char* kDiscovery = "nvidia.com/gpu.deploy.gpu-feature-discovery";

TEST_F(MigManagerTest, PausesWhoDoesNotFollow) {  // 9.4, steps 7, 8 and 17
  Label(kPlugin, "true");
  Label(kDiscovery, "false");
  MakePod("plugin", Json::object(), "nvidia-device-plugin-daemonset");
  MakePod("old-validation", Json::object(), "nvidia-cuda-validator");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  ASSERT_TRUE(WaitForProgress("pausing"));
  // The DaemonSet's controller takes the pod away when the label says so.
  const auto paused = kube::Await<Json>(
      client_, kube::kNodes,
      kube::ProjectJson<Json>([](const Json& node) -> base::Result<Json> { return node; }), {},
      [&](const kube::Store<Json>& store) -> base::Result<bool> {
        const auto node = store.Find({"", node_});
        return node.is_present() && LabelOf(**node.value(), kPlugin) == "paused-for-mig-change";
      },
      {}, base::Deadline::After(test_support::kPatience));
  ASSERT_TRUE(paused) << paused.error().message;
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kWhole)) << "it has the GPUs still open";
  DeletePod("plugin");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  const auto node = Node();
  EXPECT_EQ(LabelOf(node, kPlugin), "true");
  EXPECT_EQ(LabelOf(node, kDiscovery), "false");
  EXPECT_EQ(LabelOf(node, "nvidia.com/gpu.deploy.dcgm"), "") << "never scheduled, never labelled";
  EXPECT_FALSE(client_->Get(kube::kPods, {options_.namespace_name, "old-validation"}));
}

class DividedGpus : public MigManagerTest {
 protected:
  DividedGpus()
      : MigManagerTest(
            "gpus: [{profile: H100-80, count: 2, mig: {enabled: true, devices: {1g.10gb: 7}}}]") {}
};

TEST_F(DividedGpus, WhoFollowsIsNotPaused) {
  Label(kPlugin, "true");
  MakePod("plugin", Json::object(), "nvidia-device-plugin-daemonset");
  const validations::StatusFolder folder(options_.validations);
  const auto follower =
      validations::MigFollower::Register(folder, "nvidia-device-plugin-daemonset");
  ASSERT_TRUE(follower);
  Manager manager(options_, client_);
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kTwo, kTwo));
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "plugin"})) << "its pod goes on";
  EXPECT_THAT(*validations::ReadMigChange(folder), IsEmpty());
}

TEST_F(DividedGpus, AGpuInUseStaysAsItIs) {
  gpus_.Gpu({"process", "1", "4242"});
  Label(kPlugin, "true");
  Manager manager(options_, client_);
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven)) << "all of them as before";
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_THAT(Progress().message, HasSubstr("4242"));
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(EventReasons(), Contains("MigChangeFailed"));
}

class GpuPodsTest : public DividedGpus {
 protected:
  void SetUp() override {
    DividedGpus::SetUp();
    kubelet_ = FakePodResources::Start(options_.pod_resources());
    ASSERT_TRUE(kubelet_);
    options_.pods = PodPolicy::kWait;
    // Only the second GPU is to become another.
    options_.config_file = gpus_.folder().Write(
        "config/config.yaml",
        "version: v1\nmig-configs:\n"
        "  second: [{devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 2}}]\n"
        "  before: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]\n");
    MakeGpuPod("on-first");
    MakeGpuPod("on-second");
    const auto devices = MigUuids();
    kubelet_->Set({{options_.namespace_name, "on-first", {{"nvidia.com/gpu", {devices[0]}}}},
                   {options_.namespace_name, "on-second", {{"nvidia.com/gpu", {devices[1]}}}}});
  }
  // One of each GPU.
  std::vector<std::string> MigUuids() {
    const auto library = nvml::Library::Open({gpus_.driver_root()});
    const auto inventory = (*library)->ReadInventory();
    std::vector<std::string> uuids;
    for (const auto& device : inventory->devices) uuids.push_back(device.mig_devices[0].uuid);
    return uuids;
  }
  bool HasPod(const std::string& name) {
    return client_->Get(kube::kPods, {options_.namespace_name, name}).has_value();
  }
  std::string Name(const std::string& pod) { return options_.namespace_name + "/" + pod; }

  std::unique_ptr<FakePodResources> kubelet_;
};

TEST_F(GpuPodsTest, AreWaitedForAndTheOthersGoOn) {
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress("waitingFor"));
  EXPECT_THAT(Progress().waiting_for, ElementsAre(Name("on-second")));
  EXPECT_FALSE(Progress().deadline.empty());
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  // Meanwhile the GPU goes to nobody else.
  const validations::StatusFolder folder(options_.validations);
  EXPECT_THAT(*validations::ReadMigChange(folder), ElementsAre(Uuids()[1]));
  DeletePod("on-second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kTwo));
  EXPECT_TRUE(HasPod("on-first"));
  EXPECT_THAT(*validations::ReadMigChange(folder), IsEmpty());
  ASSERT_TRUE(manager.Stop());
  EXPECT_THAT(EventReasons(), Contains("MigChangeWaits"));
}

TEST_F(GpuPodsTest, ThatStayUntilTheDeadlineEndTheChange) {
  options_.pods_deadline = std::chrono::milliseconds(300);
  Label(kPlugin, "true");
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_THAT(Progress().message, HasSubstr(Name("on-second")));
  EXPECT_TRUE(HasPod("on-second"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_THAT(*validations::ReadMigChange(validations::StatusFolder(options_.validations)),
              IsEmpty());
}

TEST_F(GpuPodsTest, AreDrainedWhereThatIsThePolicy) {
  options_.pods = PodPolicy::kDrain;
  options_.drain_force = true;  // nobody makes them again
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kTwo));
  EXPECT_FALSE(HasPod("on-second"));
  EXPECT_TRUE(HasPod("on-first"));
}

TEST_F(GpuPodsTest, ThatMayNotBeEvictedAreWaitedForAndNamed) {
  options_.pods = PodPolicy::kDrain;
  options_.pods_deadline = std::chrono::milliseconds(300);
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_TRUE(HasPod("on-second"));
  EXPECT_THAT(Progress().message, HasSubstr("DRAIN_USE_FORCE"));
}

TEST_F(GpuPodsTest, WithoutAPolicyAreLeftAlone) {  // as upstream
  options_.pods = PodPolicy::kIgnore;
  Manager manager(options_, client_);
  Want("second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_TRUE(HasPod("on-second"));
}

TEST_F(GpuPodsTest, AnotherLabelEndsTheWait) {
  Label(kPlugin, "true");
  Manager manager(options_, client_);
  Want("second");
  ASSERT_TRUE(WaitForProgress("waitingFor"));
  Want("before");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_TRUE(HasPod("on-second"));
}

TEST_F(GpuPodsTest, AManagerThatIsReplacedGoesOnWaiting) {
  Label(kPlugin, "true");
  {
    Manager manager(options_, client_);
    Want("second");
    ASSERT_TRUE(WaitForProgress("waitingFor"));
    EXPECT_EQ(LabelOf(Node(), kPlugin), "paused-for-mig-change");
    ASSERT_TRUE(manager.Stop());
  }
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true") << "a node is not left with its operands paused";
  EXPECT_EQ(LabelOf(Node(), api::kMigConfigState), "pending");
  Manager successor(options_, client_);
  ASSERT_TRUE(WaitForProgress("waitingFor"));
  DeletePod("on-second");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kTwo));
}

TEST_F(DividedGpus, WhatAKilledManagerLeftIsTidiedUp) {
  Label(kPlugin, "paused-for-mig-change");
  Label(api::kMigConfigState, "pending");
  const validations::StatusFolder folder(options_.validations);
  ASSERT_TRUE(validations::AnnounceMigChange(folder, {"GPU-1"}));
  Want("all-1g.10gb");
  Manager manager(options_, client_);
  EXPECT_THAT(StatesUntil("success"), Contains("success"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_THAT(*validations::ReadMigChange(folder), IsEmpty());
}

TEST_F(MigManagerTest, ANodeWithoutSystemdHasNoServicesToStop) {  // 9.5
  options_.shutdown_host_clients = true;
  options_.gpu_clients_file = gpus_.folder().Write(
      "clients.yaml", "version: v1\nsystemd-services: [nvsm.service, nvidia-dcgm.service]\n");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
}

// The service reads the configuration that it makes at a boot from a file.
void MigManagerTest::ChangeWithAMigServiceOfTheHost() {
  const auto file = gpus_.folder().Write("host" + options_.state_file, "[Service]\n");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_EQ(*base::ReadFile(file),
            "[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=all-1g.10gb\"\n");
}

class HostServicesTest : public MigManagerTest {
 protected:
  void SetUp() override {
    MigManagerTest::SetUp();
    options_.shutdown_host_clients = true;
    options_.gpu_clients_file = gpus_.folder().Write(
        "clients.yaml",
        "version: v1\nsystemd-services: [nvsm.service, nvidia-dcgm.service, none.service]\n");
    auto bus = test_support::SystemBus::Start(options_.host_root / "run/dbus/system_bus_socket");
    ASSERT_TRUE(bus) << bus.error().message;
    bus_ = *std::move(bus);
    const systemd::UnitState runs{"loaded", "active", "running", "enabled"};
    systemd_ =
        bus_->StartSystemd({{"nvsm.service", {runs}},
                            {"nvidia-dcgm.service", {{"loaded", "inactive", "dead", "enabled"}}},
                            {"kubelet.service", {runs}},
                            {"broken.service", {runs, "failed"}}});
  }

  std::unique_ptr<test_support::SystemBus> bus_;
  std::unique_ptr<test_support::FakeSystemd> systemd_;
};

TEST_F(HostServicesTest, AreStoppedForAChangeAndStartedAgain) {  // 9.5
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  // While a MIG mode changes, the kubelet may not have the GPUs open either.
  const std::vector<std::string> with_kubelet = {
      "StopUnit nvsm.service", "StopUnit kubelet.service", "StartUnit kubelet.service",
      "StartUnit nvsm.service"};
  EXPECT_EQ(systemd_->jobs(), with_kubelet);
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  auto both = with_kubelet;
  both.insert(both.end(), {"StopUnit nvsm.service", "StartUnit nvsm.service"});
  EXPECT_EQ(systemd_->jobs(), both);
  EXPECT_FALSE(std::filesystem::exists(options_.stopped_services()));
}

TEST_F(HostServicesTest, AreLeftAloneWhereTheDriverIsAContainers) {
  options_.shutdown_host_clients = false;
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
  EXPECT_THAT(systemd_->jobs(), IsEmpty());
}

TEST_F(HostServicesTest, OneThatDoesNotStopKeepsTheGpusAsTheyAre) {
  options_.gpu_clients_file = gpus_.folder().Write(
      "clients.yaml", "version: v1\nsystemd-services: [nvsm.service, broken.service]\n");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kWhole));
  EXPECT_THAT(Progress().message, HasSubstr("broken.service"));
  EXPECT_THAT(systemd_->jobs(), Contains("StartUnit nvsm.service"));
}

TEST_F(HostServicesTest, ThatAKilledManagerHadStoppedAreStarted) {
  gpus_.folder().Write("host/run/nvidia/mig/stopped-services", "nvidia-dcgm.service\n");
  Manager manager(options_, client_);
  Want("all-disabled");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("success"));
  EXPECT_THAT(systemd_->jobs(), ElementsAre("StartUnit nvidia-dcgm.service"));
  EXPECT_FALSE(std::filesystem::exists(options_.stopped_services()));
}

TEST_F(HostServicesTest, TheHostsOwnMigServiceIsReadAnew) {  // 9.4, step 4
  options_.shutdown_host_clients = false;
  ChangeWithAMigServiceOfTheHost();
  EXPECT_THAT(systemd_->jobs(), ElementsAre("Reload"));
}

// A node whose GPUs take a MIG mode only when it starts again: somebody holds the first one.
class RebootTest : public MigManagerTest {
 protected:
  void SetUp() override {
    MigManagerTest::SetUp();
    options_.with_reboot = true;
    const auto host = options_.host_root;
    std::filesystem::create_directories(host / "bin");
    std::filesystem::copy_file("/bin/busybox", host / "bin/busybox");
    const auto reboot = gpus_.folder().Write("host/sbin/reboot",
                                             "#!/bin/busybox sh\necho restarted >> /restarts\n");
    std::filesystem::permissions(reboot, std::filesystem::perms::owner_all);
    Label(kPlugin, "true");
    gpus_.Gpu({"process", "0", "4242"});
  }
  void RestartNode() {
    Manager manager(options_, client_);
    Want("all-1g.10gb");
    EXPECT_THAT(StatesUntil("rebooting"), ElementsAre("pending", "rebooting"));
    ASSERT_TRUE(manager.Stop());
    EXPECT_EQ(*base::ReadFile(options_.host_root / "restarts"), "restarted\n");
    EXPECT_EQ(LabelOf(Node(), kPlugin), "paused-for-mig-change") << "it would take the GPUs first";
    EXPECT_EQ(Progress().phase, "rebooting");
    EXPECT_THAT(EventReasons(), Contains("MigRebooting"));
  }
};

TEST_F(RebootTest, TheNodeIsRestartedAndTheChangeGoesOn) {  // 9.4, steps 3 and 15
  RestartNode();
  gpus_.Gpu({"process", "0", "4242", "--remove"});
  gpus_.Gpu({"reset", "all"});
  Manager manager(options_, client_);
  EXPECT_THAT(StatesUntil("success"), ::testing::Not(Contains("rebooting")));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_EQ(*base::ReadFile(options_.host_root / "restarts"), "restarted\n");
}

TEST_F(RebootTest, ARestartInVainIsNotRepeated) {  // 9.4, step 5
  RestartNode();
  Manager manager(options_, client_);
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("failed"));
  EXPECT_THAT(Progress().message, HasSubstr("did not take effect after rebooting"));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
  EXPECT_EQ(*base::ReadFile(options_.host_root / "restarts"), "restarted\n");
}

TEST_F(MigManagerTest, ServicesThatStayStoppedAreNoSuccess) {
  gpus_.folder().Write("host/run/nvidia/mig/stopped-services", "nvidia-dcgm.service\n");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Progress().message, HasSubstr("system_bus_socket"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
}

TEST_F(MigManagerTest, TheHostsOwnServiceIsToldWithoutSystemdToo) {
  ChangeWithAMigServiceOfTheHost();
}

}  // namespace
}  // namespace pitcrew::node::mig_manager
