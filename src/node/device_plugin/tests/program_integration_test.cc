// The device plugin's program: its configuration, its signals, and nodes without a driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "apiserver/api_server.h"
#include "base/file.h"
#include "kube/client.h"
#include "support_daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/program.h"

namespace pitcrew::node::device_plugin {
namespace {

using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using test_support::Eventually;
using test_support::Program;
using test_support::SimulatedNode;
using ::testing::SizeIs;

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

// A refused configuration is told on the node, not only in a log; the second Event tells its end.
TEST_F(DevicePluginProgram, TellsTheNodeOfARefusedConfiguration) {
  const auto client = testing::ApiServer::Shared().MakeClient();
  const std::string name = "program-" + std::to_string(::getpid());
  const auto is_told = [&](const std::string& reason) {
    kube::ListOptions options;
    options.field_selector = "involvedObject.name=" + name + ",reason=" + reason;
    return Eventually([&] {
      const auto events = client->List(kube::kEvents, "default", options);
      EXPECT_TRUE(events) << events.error().ToString();
      return !events || !events->items.empty();
    });
  };
  auto environment = Environment();
  environment.push_back("NODE_NAME=" + name);
  environment.push_back("KUBECONFIG=" + testing::ApiServer::Shared().kubeconfig().string());
  const auto kubelet = FakeKubelet::Start(node_.kubelet_folder());
  const Program program("device_plugin_program", {}, environment);
  kubelet->WaitForRegistrations(1);
  node_.folder().Write("config.yaml", "flags: {migStrategy: magic}");
  program.Signal(SIGHUP);
  EXPECT_TRUE(is_told("DevicePluginConfigRefused"));
  node_.folder().Write("config.yaml", "version: v1\n");
  program.Signal(SIGHUP);
  EXPECT_TRUE(is_told("DevicePluginConfigTaken"));
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
