// The driver manager's decisions, without a cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "api/labels.h"
#include "codec/yaml.h"
#include "node/driver_manager/eviction.h"
#include "node/driver_manager/machine_pods.h"
#include "node/driver_manager/manager.h"
#include "node/driver_manager/network_driver.h"
#include "node/driver_manager/operand_labels.h"
#include "node/driver_manager/options.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_manager {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

base::Result<std::optional<Options>> Read(const std::map<std::string, std::string>& environment,
                                          std::vector<std::string> words = {"uninstall_driver"}) {
  words.insert(words.begin(), "driver-manager");
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  return ReadOptions(static_cast<int>(pointers.size()), pointers.data(),
                     [&](const std::string& name) -> std::optional<std::string> {
                       const auto found = environment.find(name);
                       if (found == environment.end()) return std::nullopt;
                       return found->second;
                     });
}

TEST(Options, DrainTimeoutTakesAUnit) {
  RecordProperty("holds", "driver-lifecycle.md #101");
  const auto with = [](const std::string& timeout) {
    return Read({{"NODE_NAME", "n"}, {"DRAIN_TIMEOUT_SECONDS", timeout}});
  };
  EXPECT_FALSE(with("300"));
  EXPECT_EQ((*with("300s"))->drain_timeout, std::chrono::seconds(300));
  EXPECT_EQ((*with(""))->drain_timeout.count(), 0);
}

TEST(Options, TheNetworkDriverIsWaitedForForATime) {
  const auto with = [](const std::string& timeout) {
    return Read({{"NODE_NAME", "n"}, {"MOFED_TIMEOUT", timeout}});
  };
  EXPECT_EQ((*with(""))->mofed_timeout, std::chrono::minutes(30));
  EXPECT_EQ((*with("90s"))->mofed_timeout, std::chrono::seconds(90));
  EXPECT_EQ((*with("0s"))->mofed_timeout.count(), 0) << "no limit";
  EXPECT_THAT(with("90").error().message, HasSubstr("MOFED_TIMEOUT"));
}

TEST(Options, EnvironmentAndDefaults) {
  RecordProperty("holds", "driver-lifecycle.md #101, section 4.2");
  EXPECT_FALSE(Read({})) << "NODE_NAME is missing";
  EXPECT_FALSE(Read({{"NODE_NAME", "n"}}, {"install"}));
  EXPECT_FALSE(Read({{"NODE_NAME", "n"}}, {}));
  const auto defaults = **Read({{"NODE_NAME", "n"}});
  EXPECT_TRUE(defaults.evict_gpu_pods);
  EXPECT_EQ(defaults.namespace_name, "gpu-operator");
  EXPECT_FALSE((*Read({{"NODE_NAME", "n"}, {"ENABLE_GPU_POD_EVICTION", ""}}))->evict_gpu_pods);
}

// driver-lifecycle.md 4.11; that the kernel tells of the module is tried in tests/kernel.
class NetworkDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.sys = root_.path() / "sys";
    options_.proc = root_.path() / "proc";
    options_.mofed_ready = root_.path() / "run/mellanox/drivers/.driver-ready";
    options_.gpu_direct_rdma = true;
    options_.mofed_timeout = std::chrono::milliseconds(1);
    AddDevice("0000:17:00.0", "0x15b3", "0x020000");
    root_.Write("proc/modules", "ext4 1 2 - Live 0x0\n");
  }
  void AddDevice(const std::string& address, const char* vendor, const char* device_class) {
    const std::string folder = "sys/bus/pci/devices/" + address + "/";
    root_.Write(folder + "vendor", std::string(vendor) + "\n");
    root_.Write(folder + "device", "0x1021\n");
    root_.Write(folder + "class", std::string(device_class) + "\n");
  }
  test_support::TemporaryFolder root_;
  Options options_;
};

TEST_F(NetworkDriver, IsNotWaitedForWithoutTheWishOrACard) {
  options_.gpu_direct_rdma = false;
  EXPECT_TRUE(AwaitNetworkDriver(options_, {}));
  options_.gpu_direct_rdma = true;
  std::filesystem::remove_all(options_.sys / "bus/pci/devices/0000:17:00.0");
  AddDevice("0000:65:00.0", "0x10de", "0x030200");
  EXPECT_TRUE(AwaitNetworkDriver(options_, {}));
}

TEST_F(NetworkDriver, ThatDoesNotComeIsNamedInTheEnd) {
  auto missing = AwaitNetworkDriver(options_, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().reason, "NetworkDriverMissing");
  EXPECT_THAT(missing.error().message, HasSubstr(options_.mofed_ready.string()));
  options_.host_mofed = true;
  missing = AwaitNetworkDriver(options_, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().reason, "NetworkDriverMissing");
  EXPECT_THAT(missing.error().message, HasSubstr("mlx5_core is not loaded on the host"));
}

TEST_F(NetworkDriver, OfTheHostThatIsThereIsEnough) {
  options_.host_mofed = true;
  root_.Write("proc/modules", "mlx5_core 1 0 - Live 0x0\n");
  EXPECT_TRUE(AwaitNetworkDriver(options_, {}));
}

TEST_F(NetworkDriver, OfAContainerIsToldByItsFile) {
  options_.mofed_timeout = std::chrono::nanoseconds(0);  // however long
  std::thread network([this] { root_.Write("run/mellanox/drivers/.driver-ready", ""); });
  EXPECT_TRUE(AwaitNetworkDriver(options_, {}));
  network.join();
}

TEST_F(NetworkDriver, IsNotWaitedForAfterAStop) {
  options_.mofed_timeout = std::chrono::nanoseconds(0);
  io::StopSource stop;
  stop.Stop();
  for (const bool host : {false, true}) {
    options_.host_mofed = host;
    EXPECT_EQ(AwaitNetworkDriver(options_, stop.token()).error().code, base::Code::kCancelled);
  }
}

TEST(Eviction, RefusalsNameTheVariablesThatAllowIt) {  // driver-lifecycle.md 4.2, 4.8
  const std::vector<Json> pods = {*codec::ParseYaml("{metadata: {name: bare, namespace: a}}"),
                                  *codec::ParseYaml("{metadata: {name: data, namespace: a}, "
                                                    "spec: {volumes: [{name: v, emptyDir: {}}]}}")};
  EXPECT_THAT(workload::PlanDrain(pods, DrainOptionsOf({})).refused,
              ElementsAre(HasSubstr("DRAIN_USE_FORCE"), HasSubstr("DRAIN_DELETE_EMPTYDIR_DATA")));
  Options options;
  options.drain_force = true;
  options.drain_delete_empty_dir = true;
  EXPECT_THAT(workload::PlanDrain(pods, DrainOptionsOf(options)).evict, SizeIs(2));
}

TEST(Eviction, OnlySomeErrorsAreAboutPods) {
  using base::Code;
  EXPECT_TRUE(IsAboutPods({Code::kUnavailable, "PodsNotEvictable", ""}));
  EXPECT_TRUE(IsAboutPods({Code::kTimeout, "PodsNotGone", ""}));
  EXPECT_TRUE(IsAboutPods({Code::kDenied, "PodsNotEvicted", ""}));
  EXPECT_FALSE(IsAboutPods({Code::kUnavailable, "PodsNotEvicted", ""}));
  EXPECT_FALSE(IsAboutPods({Code::kTimeout, "RequestTimeout", ""}));
  EXPECT_FALSE(IsAboutPods({Code::kUnavailable, "ClaimNotRead", ""}));
  EXPECT_FALSE(IsAboutPods({Code::kCancelled, "Stopped", ""}));
}

TEST(MachinePods, ThePodOfAControlGroup) {
  EXPECT_EQ(PodUidOf("0::/kubepods.slice/kubepods-pod0f1e2d3c_0000_4000_8000_00000000000a.slice/"
                     "cri-containerd-77.scope\n"),
            "0f1e2d3c-0000-4000-8000-00000000000a");
  EXPECT_EQ(PodUidOf("12:devices:/kubepods/besteffort/pod0f1e2d3c-0000-4000-8000-00000000000a/77"),
            "0f1e2d3c-0000-4000-8000-00000000000a");
  // As another control group namespace shows it.
  EXPECT_EQ(
      PodUidOf("0::/../../kubepods-burstable-pod0f1e2d3c_0000_4000_8000_00000000000a.slice/x"),
      "0f1e2d3c-0000-4000-8000-00000000000a");
  EXPECT_EQ(PodUidOf("0::/machine.slice/libpod-77.scope"), "");
  EXPECT_EQ(PodUidOf("0::/kubepods/pod"), "");
  EXPECT_EQ(PodUidOf(""), "");
}

// Upstream's table of operands (driver-lifecycle.md 4.5); those for virtual machines are our own.
TEST(OperandsToPause, AreThoseThatUseTheDriver) {
  using ::testing::Contains;
  using ::testing::Not;
  const auto all = OperandsToPause("");
  EXPECT_THAT(all.labels, Contains(api::kDeployDevicePlugin));
  EXPECT_THAT(all.labels, Not(Contains(api::kDeployDraDriver)));
  EXPECT_THAT(all.apps, Contains("nvidia-device-plugin-daemonset"));
  EXPECT_THAT(OperandsToPause("example.com/mine").labels, Contains("example.com/mine"));
  EXPECT_THAT(DraPluginToPause().labels, ElementsAre(api::kDeployDraDriver));
}

// A node that becomes one for vGPUs keeps them, and they have looked at it for passthrough.
TEST(OperandsToPause, OfVirtualMachinesAreThoseOfBothKinds) {
  const auto both = MachineOperandsToPause();
  EXPECT_THAT(both.labels,
              UnorderedElementsAre(api::kDeploySandboxDevicePlugin, api::kDeploySandboxValidator));
  EXPECT_THAT(both.apps, UnorderedElementsAre("nvidia-sandbox-device-plugin-daemonset",
                                              "nvidia-sandbox-validator"));
}

TEST(ObserveNode, ADriverIsKeptOnlyWhenItIsTheWantedOne) {
  RecordProperty("holds", "driver-lifecycle.md #97, 6.3");
  const test_support::TemporaryFolder root;
  Options options;
  options.sys = root.path() / "sys";
  options.run_folder = root.path() / "run";
  options.config_digest = "123";
  EXPECT_FALSE(ObserveNode(options, Json::object())->driver_loaded);
  root.Write("run/nvidia-driver.state", "123\n");
  EXPECT_FALSE(ObserveNode(options, Json::object())->driver_kept) << "nothing is loaded";
  root.Write("sys/module/nvidia/refcnt", "0\n");
  EXPECT_TRUE(ObserveNode(options, Json::object())->driver_kept);
  options.force_reinstall = true;
  EXPECT_FALSE(ObserveNode(options, Json::object())->driver_kept);
  options.force_reinstall = false;
  options.config_digest = "124";
  EXPECT_FALSE(ObserveNode(options, Json::object())->driver_kept);
  options.config_digest = "";
  EXPECT_FALSE(ObserveNode(options, Json::object())->driver_kept);
}

// Taken for another configuration, it would cost the node's pods their GPUs.
TEST(ObserveNode, AnUnreadableDigestIsNoOtherDigest) {
  const test_support::TemporaryFolder root;
  Options options;
  options.sys = root.path() / "sys";
  options.run_folder = root.path() / "run";
  options.config_digest = "123";
  root.Write("sys/module/nvidia/refcnt", "0\n");
  EXPECT_FALSE(ObserveNode(options, Json::object())->driver_kept) << "there is none";
  std::filesystem::create_directories(options.run_folder / "nvidia-driver.state");
  EXPECT_FALSE(ObserveNode(options, Json::object()));
}

TEST(ObserveNode, AnUnreadableModuleStateIsNoAbsence) {
  const test_support::TemporaryFolder root;
  Options options;
  options.sys = root.path() / "sys";
  root.Write("sys/module/nvidia/refcnt", "rubbish\n");
  EXPECT_FALSE(ObserveNode(options, Json::object()));
}

}  // namespace
}  // namespace pitcrew::node::driver_manager
