// The host of device plugins against the kubelet's side, over real gRPC on unix sockets.
#include "node/kubelet_plugin/plugin_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/file_watcher.h"
#include "rpc/testing/fake_kubelet.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::kubelet_plugin {
namespace {

using namespace std::chrono_literals;
using rpc::testing::FakeKubelet;
using rpc::testing::PluginClient;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class NothingToAllocate : public rpc::DevicePluginHandler {
 public:
  base::Result<std::vector<std::string>> PreferredAllocation(
      const rpc::PreferredRequest&) override {
    return std::vector<std::string>();
  }
  base::Result<rpc::ContainerAllocation> Allocate(const std::vector<std::string>&) override {
    return rpc::ContainerAllocation();
  }
};

std::vector<rpc::PluginDevice> Devices(const std::vector<std::string>& ids) {
  std::vector<rpc::PluginDevice> devices;
  for (const auto& id : ids) devices.push_back({.id = id, .healthy = true, .numa_node = {}});
  return devices;
}

auto Named(const std::string& resource) {
  return Field(&rpc::testing::TakenRegistration::resource_name, resource);
}

class PluginHostTest : public ::testing::Test {
 protected:
  void Start() {
    HostOptions options;
    options.folder = folder_.path();
    options.kubelet_socket = folder_.path() / rpc::kKubeletSocketName;
    options.first_retry = 20ms;
    options.longest_retry = longest_retry_;
    auto host = PluginHost::Start(options);
    ASSERT_TRUE(host) << host.error().ToString();
    host_ = *std::move(host);
  }
  void Offer(const std::string& name) {
    host_->Offer("example.com/" + name, name + ".sock", handler_, Devices({name + "-0"}));
  }
  [[nodiscard]] std::vector<std::string> List(const std::string& name) const {
    const auto client = PluginClient::Connect(folder_.path() / (name + ".sock"));
    const auto list = client->NextList();
    std::vector<std::string> ids;
    if (list) {
      for (const auto& device : *list) ids.push_back(device.id);
    }
    return ids;
  }

  test_support::TemporaryFolder folder_;
  std::chrono::milliseconds longest_retry_{1000};
  NothingToAllocate handler_;
  std::unique_ptr<PluginHost> host_;
};

TEST_F(PluginHostTest, SeveralResourcesAreServedAndRegistered) {
  const auto kubelet = FakeKubelet::Start(folder_.path());
  Start();
  Offer("a");
  Offer("b");
  EXPECT_THAT(kubelet->WaitForRegistrations(2),
              UnorderedElementsAre(Named("example.com/a"), Named("example.com/b")));
  EXPECT_THAT(List("a"), ElementsAre("a-0"));
  EXPECT_THAT(List("b"), ElementsAre("b-0"));
}

TEST_F(PluginHostTest, ListsChangeAndResourcesGo) {
  const auto kubelet = FakeKubelet::Start(folder_.path());
  Start();
  Offer("a");
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(folder_.path() / "a.sock");
  ASSERT_TRUE(client->NextList());
  host_->Publish("example.com/a", Devices({"x", "y"}));
  EXPECT_THAT(*client->NextList(), SizeIs(2));
  host_->Withdraw("example.com/a");
  EXPECT_FALSE(client->NextList()) << "the stream has ended";
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "a.sock"));
  host_->Publish("example.com/a", {});
  Offer("a");
  EXPECT_THAT(kubelet->WaitForRegistrations(2), SizeIs(2));
}

TEST_F(PluginHostTest, AKubeletThatStartsLaterIsFound) {
  Start();
  Offer("a");
  const auto kubelet = FakeKubelet::Start(folder_.path());
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
}

TEST_F(PluginHostTest, AKubeletThatClearsTheFolderGetsEverythingAgain) {
  RecordProperty("holds", "device-plugin.md #50");
  auto kubelet = FakeKubelet::Start(folder_.path());
  Start();
  Offer("a");
  kubelet->WaitForRegistrations(1);
  kubelet.reset();
  std::filesystem::remove(folder_.path() / "a.sock");
  kubelet = FakeKubelet::Start(folder_.path());
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
  EXPECT_THAT(List("a"), ElementsAre("a-0"));
}

TEST_F(PluginHostTest, AKubeletThatDoesNotClearTheFolderGetsEverythingAgain) {
  auto kubelet = FakeKubelet::Start(folder_.path());
  Start();
  Offer("a");
  kubelet->WaitForRegistrations(1);
  const auto client = PluginClient::Connect(folder_.path() / "a.sock");
  ASSERT_TRUE(client->NextList());
  kubelet.reset();
  kubelet = FakeKubelet::Start(folder_.path());
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
  host_->Publish("example.com/a", Devices({"x"}));
  EXPECT_TRUE(client->NextList()) << "the socket was not exchanged for it";
}

TEST_F(PluginHostTest, OneThatIsRefusedDelaysNobody) {
  longest_retry_ = 1h;
  auto kubelet = FakeKubelet::Start(folder_.path());
  kubelet->Refuse("example.com/bad", "no such thing");
  Start();
  Offer("bad");
  kubelet->WaitForRefusals(8);  // its next try is more than two seconds away
  Offer("good");
  EXPECT_THAT(kubelet->WaitForRegistrations(1), ElementsAre(Named("example.com/good")));
  // A new kubelet is asked at once, whatever the last one said.
  kubelet.reset();
  kubelet = FakeKubelet::Start(folder_.path());
  EXPECT_THAT(kubelet->WaitForRegistrations(2),
              UnorderedElementsAre(Named("example.com/bad"), Named("example.com/good")));
}

TEST_F(PluginHostTest, RegistrationIsTriedAgain) {
  longest_retry_ = 20ms;
  const auto kubelet = FakeKubelet::Start(folder_.path());
  kubelet->Refuse("example.com/a", "not now");
  Start();
  Offer("a");
  kubelet->WaitForRefusals(2);
  kubelet->Refuse("example.com/a", "");
  EXPECT_THAT(kubelet->WaitForRegistrations(1), SizeIs(1));
}

TEST(PluginHost, AFolderThatIsNotThereIsAnError) {
  HostOptions options;
  options.folder = "/nonexistent/plugins";
  EXPECT_EQ(PluginHost::Start(options).error().code, base::Code::kNotFound);
}

TEST(PluginHost, WithoutAKubeletsSocketResourcesAreOnlyServed) {
  const test_support::TemporaryFolder folder;
  NothingToAllocate handler;
  HostOptions options;
  options.folder = folder.path();
  options.kubelet_socket.clear();
  auto host = PluginHost::Start(options);
  ASSERT_TRUE(host);
  (*host)->Offer("example.com/a", "a.sock", handler, Devices({"x"}));
  const auto socket = folder.path() / "a.sock";
  ASSERT_TRUE(io::WaitForFiles(
      {folder.path()}, [&] { return base::Result<bool>(std::filesystem::exists(socket)); }, {}));
  const auto list = PluginClient::Connect(socket)->NextList();
  ASSERT_TRUE(list) << list.error().ToString();
  EXPECT_THAT(*list, SizeIs(1));
}

}  // namespace
}  // namespace pitcrew::node::kubelet_plugin
