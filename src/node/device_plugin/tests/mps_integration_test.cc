// The device plugin's side of MPS: resources are offered, and their devices healthy, only while
// their server runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "node/device_plugin/daemon.h"
#include "node/mps_folder/mps_folder.h"
#include "rpc/testing/fake_kubelet.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::device_plugin {
namespace {

using mps_folder::LifeSign;
using mps_folder::MpsFolder;
using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using test_support::SimulatedNode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kGpu = "nvidia.com/gpu";

class DevicePluginMps : public ::testing::Test {
 protected:
  DevicePluginMps()
      : node_("gpus: [{profile: L4, count: 2}]"), folder_(node_.folder().path() / "mps") {
    node_.InstallDriver();
    std::filesystem::create_directories(folder_.path());
    kubelet_ = FakeKubelet::Start(node_.kubelet_folder());
  }
  void Start(std::string_view sharing) {
    Options options;
    options.flags.driver_root_in_here = node_.driver_root().string();
    options.flags.mps_root = "/run/nvidia/mps";
    options.kubelet_socket = node_.kubelet_socket();
    options.config_file = node_.folder().Write("config.yaml", sharing);
    NodePaths paths;
    paths.cdi_folder = node_.cdi_folder();
    paths.pci_devices = {node_.pci_devices()};
    paths.mps_folder = folder_.path();
    daemon_.emplace([options, paths](const io::StopToken& stop) {
      const auto reload = io::SignalReceiver::Create({SIGHUP});
      return Daemon(options, paths, *reload, stop).Run();
    });
  }
  base::Status Stop() { return daemon_->Stop(); }
  void Serve() { ASSERT_TRUE(base::WriteFileAtomically(folder_.StartedFile(kGpu), "")); }
  static bool AwaitHealth(PluginClient& client, bool healthy) {
    while (true) {
      const auto list = client.NextList();
      if (!list) return false;
      if (std::ranges::all_of(*list,
                              [&](const auto& device) { return device.healthy == healthy; })) {
        return true;
      }
    }
  }

  SimulatedNode node_;
  const MpsFolder folder_;
  std::unique_ptr<FakeKubelet> kubelet_;
  std::optional<test_support::DaemonThread> daemon_;
};

TEST_F(DevicePluginMps, OffersAResourceWhileItsServerRuns) {
  RecordProperty("holds", "device-plugin.md section 17.3, section 22 number 17");
  auto sign = std::make_optional(*LifeSign::Give(folder_));
  Start("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}");
  Serve();
  ASSERT_THAT(kubelet_->WaitForRegistrations(1), SizeIs(1));
  const auto client = PluginClient::Connect(node_.kubelet_folder() / "nvidia-gpu.sock");
  ASSERT_TRUE(AwaitHealth(*client, true));
  const auto answer = client->Allocate({{"GPU-none"}});
  EXPECT_FALSE(answer);

  // Its server dies, and is back.
  std::filesystem::remove(folder_.StartedFile(kGpu));
  ASSERT_TRUE(AwaitHealth(*client, false));
  Serve();
  ASSERT_TRUE(AwaitHealth(*client, true));

  // The control daemon is killed: its files stay.
  sign.reset();
  ASSERT_TRUE(AwaitHealth(*client, false));
  sign.emplace(*LifeSign::Give(folder_));
  Serve();
  ASSERT_TRUE(AwaitHealth(*client, true));
  EXPECT_THAT(kubelet_->registrations(), SizeIs(1)) << "all of that on the same stream";
  EXPECT_TRUE(Stop());
}

TEST_F(DevicePluginMps, WhatIsNotSharedNeedsNoServer) {
  Start("sharing: {mps: {resources: [{name: nvidia.com/other, replicas: 2}]}}");
  ASSERT_THAT(kubelet_->WaitForRegistrations(1), SizeIs(1));
  const auto client = PluginClient::Connect(node_.kubelet_folder() / "nvidia-gpu.sock");
  const auto list = client->NextList();
  ASSERT_TRUE(list);
  const auto answer = client->Allocate({{list->at(0).id}});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_THAT(answer->at(0).mounts, IsEmpty());
}

TEST_F(DevicePluginMps, AContainerIsAClientOfTheResourcesServer) {
  RecordProperty("holds", "device-plugin.md #25 and #32");
  const auto sign = LifeSign::Give(folder_);
  Start(
      "sharing: {mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}");
  ASSERT_TRUE(base::WriteFileAtomically(folder_.StartedFile("nvidia.com/gpu.shared"), ""));
  ASSERT_THAT(kubelet_->WaitForRegistrations(1), SizeIs(1));
  const auto client = PluginClient::Connect(node_.kubelet_folder() / "nvidia-gpu.shared.sock");
  const auto list = client->NextList();
  ASSERT_TRUE(list);
  ASSERT_THAT(*list, SizeIs(4));
  const auto answer = client->Allocate({{list->at(0).id}});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->at(0).envs.at("CUDA_MPS_PIPE_DIRECTORY"), "/mps/nvidia.com/gpu.shared/pipe");
  ASSERT_THAT(answer->at(0).mounts, SizeIs(2));
  EXPECT_EQ(answer->at(0).mounts[0].host_path, "/run/nvidia/mps/nvidia.com/gpu.shared/pipe");
  EXPECT_EQ(answer->at(0).mounts[1].host_path, "/run/nvidia/mps/shm");
  // More than one only where the configuration says so.
  const auto two = client->Allocate({{list->at(0).id, list->at(2).id}});
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message,
              HasSubstr("maximum request size for shared resources is 1; found 2"));
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
