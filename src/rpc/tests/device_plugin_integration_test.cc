// The room's server and registration against the kubelet's side, over real gRPC on unix sockets.
#include "rpc/device_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "rpc/testing/fake_kubelet.h"

namespace pitcrew::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "pitcrew-rpc-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Answers with what it was asked, and refuses the device "bad".
class EchoHandler : public DevicePluginHandler {
 public:
  base::Result<std::vector<std::string>> PreferredAllocation(
      const PreferredRequest& request) override {
    std::vector<std::string> chosen = request.must_include;
    for (const auto& id : request.available) {
      if (static_cast<int>(chosen.size()) < request.size) chosen.push_back(id);
    }
    return chosen;
  }
  base::Result<ContainerAllocation> Allocate(const std::vector<std::string>& ids) override {
    if (ids.front() == "bad") return base::Fail(base::Invalid("UnknownDevice", "no device bad"));
    ContainerAllocation allocation;
    allocation.envs["IDS"] = ids.front();
    allocation.mounts = {{.container_path = "/c", .host_path = "/h", .read_only = true}};
    allocation.devices = {{.container_path = "/dev/c", .host_path = "/dev/h", .permissions = "rw"}};
    allocation.annotations["note"] = "yes";
    allocation.cdi_devices = ids;
    return allocation;
  }
};

class DevicePluginRpc : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path socket() const { return folder_.path() / "plugin.sock"; }
  std::unique_ptr<DevicePluginServer> Serve(std::vector<PluginDevice> devices) {
    auto server = DevicePluginServer::Start(socket(), handler_, std::move(devices));
    EXPECT_TRUE(server.has_value()) << server.error().ToString();
    return *std::move(server);
  }
  TemporaryFolder folder_;
  EchoHandler handler_;
};

TEST_F(DevicePluginRpc, OptionsOfferPreferredAllocation) {  // device-plugin.md section 9
  const auto server = Serve({});
  const auto client = testing::PluginClient::Connect(socket());
  EXPECT_EQ(client->PreferredAllocationAvailable(), true);
}

TEST_F(DevicePluginRpc, ListAndWatchSendsTheWholeListAndThenOnlyChanges) {  // section 11
  const PluginDevice a{.id = "a", .healthy = true, .numa_node = 1};
  const PluginDevice b{.id = "b", .healthy = true, .numa_node = {}};
  const auto server = Serve({a, b});
  const auto client = testing::PluginClient::Connect(socket());
  ASSERT_THAT(client->NextList().value(), ElementsAre(a, b));

  PluginDevice sick = a;
  sick.healthy = false;
  server->Publish({a, b});  // the same again: nothing goes out
  server->Publish({sick, b});
  EXPECT_THAT(client->NextList().value(), ElementsAre(sick, b));
  server->Publish({});
  EXPECT_THAT(client->NextList().value(), ElementsAre());
}

TEST_F(DevicePluginRpc, TwoStreamsBothSeeEveryState) {  // device-plugin.md section 22 number 7
  const auto server = Serve({{.id = "a", .healthy = true, .numa_node = {}}});
  const auto one = testing::PluginClient::Connect(socket());
  const auto two = testing::PluginClient::Connect(socket());
  ASSERT_TRUE(one->NextList().has_value());
  ASSERT_TRUE(two->NextList().has_value());
  server->Publish({{.id = "a", .healthy = false, .numa_node = {}}});
  EXPECT_FALSE(one->NextList().value().front().healthy);
  EXPECT_FALSE(two->NextList().value().front().healthy);
}

TEST_F(DevicePluginRpc, PublishingWithoutAnyStreamKeepsTheNewestState) {
  const auto server = Serve({{.id = "a", .healthy = true, .numa_node = {}}});
  for (int i = 0; i < 100; ++i) {
    server->Publish({{.id = std::to_string(i), .healthy = true, .numa_node = {}}});
  }
  const auto client = testing::PluginClient::Connect(socket());
  EXPECT_EQ(client->NextList().value().front().id, "99");
}

TEST_F(DevicePluginRpc, StoppingEndsTheStreamAndRemovesTheSocket) {
  RecordProperty("holds", "device-plugin.md #51");
  auto server = Serve({});
  const auto client = testing::PluginClient::Connect(socket());
  ASSERT_TRUE(client->NextList().has_value());
  std::thread stop([&] { server.reset(); });
  EXPECT_FALSE(client->NextList().has_value());
  stop.join();
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(DevicePluginRpc, AStreamThatGoesAwayDisturbsNobody) {
  const auto server = Serve({{.id = "a", .healthy = true, .numa_node = {}}});
  {
    const auto gone = testing::PluginClient::Connect(socket());
    ASSERT_TRUE(gone->NextList().has_value());
  }
  server->Publish({{.id = "b", .healthy = true, .numa_node = {}}});
  const auto client = testing::PluginClient::Connect(socket());
  EXPECT_EQ(client->NextList().value().front().id, "b");
}

TEST_F(DevicePluginRpc, AllocateCarriesEveryField) {  // device-plugin.md section 10
  const auto server = Serve({});
  const auto client = testing::PluginClient::Connect(socket());
  const auto answer = client->Allocate({{"x", "y"}, {"z"}});
  ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  ASSERT_EQ(answer->size(), 2U);
  EXPECT_EQ(answer->at(0), handler_.Allocate({"x", "y"}).value());
  EXPECT_EQ(answer->at(1), handler_.Allocate({"z"}).value());
}

TEST_F(DevicePluginRpc, ErrorsAreStatusUnknownWithTheMessage) {  // device-plugin.md section 12
  const auto server = Serve({});
  const auto client = testing::PluginClient::Connect(socket());
  const auto answer = client->Allocate({{"bad"}});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().reason, "GrpcStatus2");
  EXPECT_EQ(answer.error().message, "no device bad");
}

TEST_F(DevicePluginRpc, PreferredAllocationPassesRequestAndAnswer) {
  const auto server = Serve({});
  const auto client = testing::PluginClient::Connect(socket());
  EXPECT_THAT(
      client->PreferredAllocation({.available = {"a", "b", "c"}, .must_include = {"z"}, .size = 3})
          .value(),
      ElementsAre("z", "a", "b"));
}

TEST_F(DevicePluginRpc, AStaleSocketIsReplaced) {
  auto first = Serve({{.id = "first", .healthy = true, .numa_node = {}}});
  auto second = Serve({{.id = "second", .healthy = true, .numa_node = {}}});
  const auto client = testing::PluginClient::Connect(socket());
  EXPECT_EQ(client->NextList().value().front().id, "second");
}

TEST_F(DevicePluginRpc, AFolderThatIsMissingIsAnError) {
  EchoHandler handler;
  const auto server = DevicePluginServer::Start(folder_.path() / "no" / "plugin.sock", handler, {});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().reason, "PluginSocketFailed");
}

TEST_F(DevicePluginRpc, RegistersWithTheKubelet) {  // device-plugin.md section 9
  const auto kubelet = testing::FakeKubelet::Start(folder_.path());
  ASSERT_NE(kubelet, nullptr);
  const auto status =
      RegisterWithKubelet(folder_.path() / kKubeletSocketName,
                          {.endpoint = "nvidia-gpu.sock", .resource_name = "nvidia.com/gpu"},
                          std::chrono::seconds(5), io::StopToken());
  ASSERT_TRUE(status.has_value()) << status.error().ToString();
  const auto taken = kubelet->WaitForRegistrations(1);
  EXPECT_EQ(taken.front().version, "v1beta1");
  EXPECT_EQ(taken.front().endpoint, "nvidia-gpu.sock");
  EXPECT_EQ(taken.front().resource_name, "nvidia.com/gpu");
  EXPECT_TRUE(taken.front().preferred_allocation_available);
  EXPECT_FALSE(taken.front().pre_start_required);
}

TEST_F(DevicePluginRpc, RegistrationTellsWhyItWasRefused) {
  const auto kubelet = testing::FakeKubelet::Start(folder_.path());
  kubelet->Refuse("r", "unsupported version");
  const auto status = RegisterWithKubelet(folder_.path() / kKubeletSocketName,
                                          {.endpoint = "e.sock", .resource_name = "r"},
                                          std::chrono::seconds(5), io::StopToken());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, base::Code::kInvalid);
  EXPECT_THAT(status.error().message, HasSubstr("unsupported version"));
}

TEST_F(DevicePluginRpc, RegistrationWaitsForAKubeletThatStartsLate) {
  const auto socket = folder_.path() / kKubeletSocketName;
  base::Status status;
  std::thread registering([&] {
    status = RegisterWithKubelet(socket, {.endpoint = "e.sock", .resource_name = "r"},
                                 std::chrono::seconds(30), io::StopToken());
  });
  const auto kubelet = testing::FakeKubelet::Start(folder_.path());
  EXPECT_EQ(kubelet->WaitForRegistrations(1).size(), 1U);
  registering.join();
  EXPECT_TRUE(status.has_value());
}

TEST_F(DevicePluginRpc, RegistrationStopsWhenTold) {
  const io::StopSource stop;
  stop.Stop();
  const auto status = RegisterWithKubelet(folder_.path() / kKubeletSocketName,
                                          {.endpoint = "e.sock", .resource_name = "r"},
                                          std::chrono::hours(1), stop.token());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, base::Code::kCancelled);
}

}  // namespace
}  // namespace pitcrew::rpc
