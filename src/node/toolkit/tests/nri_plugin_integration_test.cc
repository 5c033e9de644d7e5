// The plugin on a real socket, with a runtime of the test's behind it.
#include "node/toolkit/nri_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "nri/testing/fake_runtime.h"
#include "tests/support/daemon_thread.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

using nri::testing::FakeRuntime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kAll = "management.nvidia.com/gpu=all";

class NriPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.socket = folder_.path() / "nri/nri.sock";
    options_.operator_namespace = "gpu-operator";
  }
  void Start() {
    daemon_.emplace([this](const io::StopToken& stop) { return RunNriPlugin(options_, stop); });
  }
  static nri::Container Asking(const std::string& space) {
    return {.pod_name = "pod",
            .pod_namespace = space,
            .pod_annotations = {{"nvidia.cdi.k8s.io/container.main", kAll}},
            .name = "main"};
  }

  test_support::TemporaryFolder folder_;
  NriOptions options_;
  std::optional<test_support::DaemonThread> daemon_;
};

TEST_F(NriPluginTest, GivesManagementContainersTheirDevices) {
  FakeRuntime runtime(options_.socket);
  Start();
  EXPECT_EQ(runtime.Accept(), "10-nvidia-toolkit");
  EXPECT_EQ(runtime.Configure({"containerd", "v2.2.9"}).code, 0);
  EXPECT_EQ(runtime.Synchronize({Asking("gpu-operator")}).code, 0);
  EXPECT_THAT(runtime.Create(Asking("gpu-operator")), ElementsAre(kAll));
  EXPECT_THAT(runtime.Create(Asking("team")), IsEmpty());
  EXPECT_TRUE(daemon_->Stop());
}

TEST_F(NriPluginTest, WaitsForTheSocketAndComesBackToANewOne) {
  RecordProperty("holds", "runtimes-and-distributions.md #59 and #60");
  Start();
  for (int i = 0; i < 3; ++i) {
    FakeRuntime runtime(options_.socket);
    runtime.Accept();
    EXPECT_EQ(runtime.Configure({"containerd", "v2.2.9"}).code, 0);
    EXPECT_THAT(runtime.Create(Asking("gpu-operator")), ElementsAre(kAll));
  }
  EXPECT_TRUE(daemon_->Stop());
}

TEST_F(NriPluginTest, ComesBackToTheSameSocket) {
  FakeRuntime runtime(options_.socket);
  Start();
  runtime.Accept();
  runtime.Close();
  EXPECT_EQ(runtime.Accept(), "10-nvidia-toolkit");
}

TEST_F(NriPluginTest, RefusesARuntimeThatWouldDropDevices) {
  FakeRuntime runtime(options_.socket);
  Start();
  runtime.Accept();
  const auto answer = runtime.Configure({"containerd", "v2.0.5"});
  EXPECT_NE(answer.code, 0);
  EXPECT_THAT(answer.message, HasSubstr("2.0.5"));
  const auto ended = daemon_->Wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().reason, "NriNotSupported");
}

// What was created without its devices is named in the log.
TEST_F(NriPluginTest, NamesContainersThatCameTooEarly) {
  RecordProperty("holds", "runtimes-and-distributions.md #63");
  FakeRuntime runtime(options_.socket);
  ::testing::internal::CaptureStderr();
  Start();
  runtime.Accept();
  runtime.Configure({"containerd", "v2.2.9"});
  auto well = Asking("gpu-operator");
  well.pod_name = "well";
  well.device_paths = {"/dev/nvidiactl", "/dev/nvidia0"};
  auto early = Asking("gpu-operator");
  early.pod_name = "early";
  auto stranger = Asking("team");
  stranger.pod_name = "stranger";
  EXPECT_EQ(runtime.Synchronize({well, early, stranger}).code, 0);
  EXPECT_TRUE(daemon_->Stop());
  const auto log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("pod=early"));
  EXPECT_THAT(log, Not(HasSubstr("pod=well")));
  EXPECT_THAT(log, Not(HasSubstr("pod=stranger")));
}

}  // namespace
}  // namespace pitcrew::node::toolkit
