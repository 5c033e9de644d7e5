// What the kubelet is told of the health of GPUs, over real gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support_daemon.h"
#include "tests/support/eventually.h"

namespace pitcrew::node::device_plugin {
namespace {

using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using test_support::SimulatedNode;
using ::testing::ElementsAre;

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

  // Whether the plugin gets to know what the driver says a GPU needs. It tells the kubelet of the
  // XID first; a reset in between is one that it cannot see.
  [[nodiscard]] bool HearsWhatAGpuNeeds() const {
    return test_support::Eventually([&] {
      const auto known = base::ReadFile(node_.folder().path() / "health.json");
      return known && known->find("the driver says what it needs") != std::string::npos;
    });
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

// A GPU that comes back is watched anew; what another one says in that moment is heard.
TEST_F(DevicePluginHealth, HearsAGpuWhileAnotherComesBack) {
  StartPlugin();
  ASSERT_THAT(NextHealth(), ElementsAre(true, true));
  for (int round = 0; round < 3; ++round) {
    node_.Gpu({"lose", "0"});
    ASSERT_TRUE(WaitForHealth(*client_, uuids_[0], false));
    node_.Gpu({"restore", "0"});
    ASSERT_TRUE(WaitForHealth(*client_, uuids_[0], true));
    node_.Gpu({"xid", "1", "48"});
    ASSERT_TRUE(WaitForHealth(*client_, uuids_[1], false));
    ASSERT_TRUE(HearsWhatAGpuNeeds());
    node_.Gpu({"reset", "1"});
    ASSERT_TRUE(WaitForHealth(*client_, uuids_[1], true));
  }
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

}  // namespace
}  // namespace pitcrew::node::device_plugin
