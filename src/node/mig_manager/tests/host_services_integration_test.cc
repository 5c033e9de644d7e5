// What the MIG manager does with the host around a change: its services, its restart.
#include "support_mig_manager.h"
#include "tests/system_bus/system_bus.h"

namespace pitcrew::node::mig_manager {
namespace {

// The service reads the configuration that it makes at a boot from a file.
class WithServices : public MigManagerTest {
 protected:
  void ChangeWithAMigServiceOfTheHost() {
    const auto file = gpus_.folder().Write("host" + options_.state_file, "[Service]\n");
    Manager manager(options_, client_);
    Want("all-1g.10gb");
    EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
    EXPECT_EQ(*base::ReadFile(file),
              "[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=all-1g.10gb\"\n");
  }
};

TEST_F(MigManagerTest, ANodeWithoutSystemdHasNoServicesToStop) {  // 9.5
  options_.shutdown_host_clients = true;
  options_.gpu_clients_file = gpus_.folder().Write(
      "clients.yaml", "version: v1\nsystemd-services: [nvsm.service, nvidia-dcgm.service]\n");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("success"), ElementsAre("pending", "success"));
}

class HostServicesTest : public WithServices {
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
  explicit RebootTest(const char* gpus = kTwoGpus) : MigManagerTest(gpus) {}
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

class RebootOfADividedGpuTest : public RebootTest {
 protected:
  RebootOfADividedGpuTest()
      : RebootTest(
            "gpus: [{profile: H100-80}, {profile: H100-80, mig: {enabled: true, devices: "
            "{1g.10gb: 7}}}]") {}
};

// The first GPU takes its mode at once; it is the instances of the second one that are in use.
TEST_F(RebootOfADividedGpuTest, ARestartThatNoModeWaitsForIsNotMade) {
  gpus_.Gpu({"process", "0", "4242", "--remove"});
  gpus_.Gpu({"process", "1", "4242"});
  Manager manager(options_, client_);
  Want("all-3g.40gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_FALSE(std::filesystem::exists(options_.host_root / "restarts"));
  EXPECT_THAT(Progress().message, HasSubstr("4242"));
  EXPECT_THAT(Geometry(), ElementsAre(kWhole, kSeven));
  EXPECT_EQ(LabelOf(Node(), kPlugin), "true");
}

TEST_F(MigManagerTest, ServicesThatStayStoppedAreNoSuccess) {
  gpus_.folder().Write("host/run/nvidia/mig/stopped-services", "nvidia-dcgm.service\n");
  Manager manager(options_, client_);
  Want("all-1g.10gb");
  EXPECT_THAT(StatesUntil("failed"), ElementsAre("pending", "failed"));
  EXPECT_THAT(Progress().message, HasSubstr("system_bus_socket"));
  EXPECT_THAT(Geometry(), ElementsAre(kSeven, kSeven));
}

TEST_F(WithServices, TheHostsOwnServiceIsToldWithoutSystemdToo) {
  ChangeWithAMigServiceOfTheHost();
}

}  // namespace
}  // namespace pitcrew::node::mig_manager
