// Asking a kubelet who holds which devices, over real gRPC on a unix socket.
#include "rpc/pod_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "rpc/testing/fake_container_runtime.h"
#include "rpc/testing/fake_pod_resources.h"
#include "tests/support/patience.h"

namespace pitcrew::rpc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class PodResourcesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "pitcrew-rpc-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    socket_ = folder_ / "kubelet.sock";
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path folder_;
  std::filesystem::path socket_;
};

TEST_F(PodResourcesTest, TellsWhoHoldsWhat) {
  const auto kubelet = testing::FakePodResources::Start(socket_);
  ASSERT_TRUE(kubelet);
  const PodDevices idle{"default", "idle", {}};
  const PodDevices training{
      "ml",
      "training",
      {{"nvidia.com/gpu", {"GPU-1", "GPU-2"}, "main"}, {"example.com/nic", {"eth1"}, "proxy"}},
      {{"main", "ml", "claim-x", "gpu.nvidia.com", "node-a", "gpu-0"}}};
  kubelet->Set({idle, training});
  const auto pods = ListPodDevices(socket_, {}, base::Deadline::After(test_support::kPatience));
  ASSERT_TRUE(pods) << pods.error().message;
  EXPECT_THAT(*pods, ElementsAre(idle, training));
}

TEST_F(PodResourcesTest, NoSocketIsNotAnEmptyAnswer) {
  const auto pods = ListPodDevices(socket_, {}, base::Deadline::After(test_support::kPatience));
  ASSERT_FALSE(pods);
  EXPECT_EQ(pods.error().code, base::Code::kNotFound);
}

TEST_F(PodResourcesTest, AServerWithoutThisApiIsNamed) {
  const auto other = testing::FakeContainerRuntime::StartWithoutInterface(socket_);
  const auto pods = ListPodDevices(socket_, {}, base::Deadline::After(test_support::kPatience));
  ASSERT_FALSE(pods);
  EXPECT_EQ(pods.error().code, base::Code::kUnsupported);
}

TEST_F(PodResourcesTest, AStopEndsTheCall) {
  std::filesystem::create_directory(folder_ / "dead.sock");
  const io::StopSource stop;
  stop.Stop();
  const auto pods = ListPodDevices(folder_ / "dead.sock", stop.token(), {});
  ASSERT_FALSE(pods);
  EXPECT_EQ(pods.error().code, base::Code::kCancelled);
}

}  // namespace
}  // namespace pitcrew::rpc
