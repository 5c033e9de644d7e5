// Waiting for a container runtime, over real gRPC on a unix socket.
#include "rpc/container_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "rpc/testing/fake_container_runtime.h"

namespace pitcrew::rpc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FakeContainerRuntime;

class ContainerRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "pitcrew-rpc-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    socket_ = folder_ / "containerd.sock";
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  static std::chrono::steady_clock::time_point Ample() {
    return std::chrono::steady_clock::now() + 60s;
  }
  std::filesystem::path folder_;
  std::filesystem::path socket_;
};

TEST_F(ContainerRuntime, IsAskedUntilItIsInitialized) {
  const auto runtime = FakeContainerRuntime::Start(socket_, 3, {"", "nvidia"});
  ASSERT_TRUE(runtime);
  const auto status = WaitForContainerRuntime(socket_, {}, Ample());
  ASSERT_TRUE(status) << status.error().ToString();
  EXPECT_THAT(status->handlers, ElementsAre("", "nvidia"));
  EXPECT_EQ(runtime->refused(), 3);
  EXPECT_EQ(runtime->answered(), 1);
}

TEST_F(ContainerRuntime, IsWaitedForBeforeItListens) {
  std::unique_ptr<FakeContainerRuntime> runtime;
  std::jthread later([&] { runtime = FakeContainerRuntime::Start(socket_, 0, {}); });
  EXPECT_TRUE(WaitForContainerRuntime(socket_, {}, Ample()));
}

TEST_F(ContainerRuntime, WithoutTheInterfaceIsToldApart) {
  const auto runtime = FakeContainerRuntime::StartWithoutInterface(socket_);
  ASSERT_TRUE(runtime);
  const auto status = WaitForContainerRuntime(socket_, {}, Ample());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, base::Code::kUnsupported);
}

TEST_F(ContainerRuntime, TheDeadlineAndAStopEndTheWait) {
  const auto runtime = FakeContainerRuntime::Start(socket_, 1'000'000, {});
  ASSERT_TRUE(runtime);
  const auto late = WaitForContainerRuntime(socket_, {}, std::chrono::steady_clock::now() + 20ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, base::Code::kTimeout);
  const io::StopSource source;
  source.Stop();
  const auto stopped = WaitForContainerRuntime(socket_, source.token(), Ample());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, base::Code::kCancelled);
}

}  // namespace
}  // namespace pitcrew::rpc
