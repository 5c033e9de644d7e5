// The driver's validation over the simulated driver of this build: NVML answers, links are made.
// Without that build the test says so and is skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "apiserver/api_server.h"
#include "base/file.h"
#include "host/process.h"
#include "node/validator/components.h"
#include "node/validator/driver_check.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validator {
namespace {

using codec::Json;
using ::pitcrew::testing::ApiServer;

class SimulatedDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string program = test_support::BuildFolder() / "bin/pitcrew-simulate";
    if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " is not built";
    const auto description = root_.Write("gpus.yaml", "gpus: [{profile: H100-80, count: 2}]\n");
    host::ProgramRun run;
    run.program = program;
    run.arguments = {"driver-install", "--root", (root_.path() / "driver").string(),
                     "--description", description.string()};
    const auto installed = host::RunProgram(run);
    ASSERT_TRUE(installed) << installed.error().message;
    if (installed->exit_status != 0) GTEST_SKIP() << "device nodes cannot be made here";
    options_.output_folder = root_.path() / "validations";
    options_.host_seen_at = root_.path() / "host";
    options_.driver_seen_at = root_.path() / "driver";
    options_.device_links_folder = root_.path() / "dev-char";
    options_.proc = root_.path() / "proc";
    options_.kubeconfig = ApiServer::Shared().kubeconfig();
    ASSERT_TRUE(StatusFolder(options_.output_folder).Prepare(false));
  }
  std::string Link(const std::string& number) {
    return std::filesystem::read_symlink(options_.device_links_folder / number).string();
  }
  std::string DriverReady() {
    return base::ReadFile(options_.output_folder / kDriverReady).value_or("");
  }

  test_support::TemporaryFolder root_;
  Options options_;
};

TEST_F(SimulatedDriverTest, ADriverOfTheHost) {
  RecordProperty("holds", "validator.md #23, section 3.4");
  options_.host_seen_at = root_.path() / "driver";
  Cluster nobody("/nonexistent");  // a host driver is proven without the API server
  const auto done = ValidateDriver(options_, nobody, {});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(DriverReady(), ::testing::StartsWith("IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\n"));
  EXPECT_EQ(Link("195:0"), "/dev/nvidia0");
  EXPECT_EQ(Link("195:255"), "/dev/nvidiactl");
}

TEST_F(SimulatedDriverTest, ADriverContainerThatNobodyManages) {
  RecordProperty("holds", "validator.md #24, section 3.3");
  options_.namespace_name = "default";
  Cluster cluster(options_.kubeconfig);
  const auto done = ValidateDriver(options_, cluster, {});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(DriverReady(),
            "IS_HOST_DRIVER=false\nNVIDIA_DRIVER_ROOT=/run/nvidia/driver\n"
            "DRIVER_ROOT_CTR_PATH=/driver-root\nNVIDIA_DEV_ROOT=/run/nvidia/driver\n"
            "DEV_ROOT_CTR_PATH=/driver-root\n");
  EXPECT_EQ(Link("195:1"), "/run/nvidia/driver/dev/nvidia1");
}

TEST_F(SimulatedDriverTest, AManagedDriverContainerIsWaitedFor) {  // validator.md section 3.3, #6
  options_.namespace_name = "managed";
  const auto client = ApiServer::Shared().MakeClient();
  ASSERT_TRUE(client->Create(kube::kNamespaces, {{"metadata", {{"name", "managed"}}}}));
  const Json labels = {{"app", "nvidia-driver-daemonset"}};
  const auto made = client->Create(
      kube::kDaemonSets,
      {{"metadata",
        {{"name", "nvidia-driver-daemonset"},
         {"namespace", "managed"},
         {"labels", {{"app.kubernetes.io/component", "nvidia-driver"}}},
         {"ownerReferences", Json::array({{{"apiVersion", "nvidia.com/v1"},
                                           {"kind", "ClusterPolicy"},
                                           {"name", "cluster-policy"},
                                           {"uid", "u"},
                                           {"controller", true}}})}}},
       {"spec",
        {{"selector", {{"matchLabels", labels}}},
         {"template",
          {{"metadata", {{"labels", labels}}},
           {"spec", {{"containers", Json::array({{{"name", "c"}, {"image", "i"}}})}}}}}}}});
  ASSERT_TRUE(made) << made.error().message;
  const StatusFolder status(options_.output_folder);
  ASSERT_TRUE(status.Write(kDriverReady, "of an earlier driver\n"));
  Cluster cluster(options_.kubeconfig);
  const auto early = ValidateDriver(options_, cluster, {});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().reason, "DriverContainerNotReady");
  EXPECT_FALSE(*status.Has(kDriverReady)) << "it is known not to be ready";

  options_.with_wait = true;
  options_.retry_interval = std::chrono::hours(1);  // only the file's appearance can end the wait
  std::thread driver([&] {
    [[maybe_unused]] const auto written = status.Write(
        kDriverContainerReady,
        "GDRCOPY_ENABLED: false\nGDS_ENABLED: false\nGPU_DIRECT_RDMA_ENABLED: false\n");
  });
  const auto done = ValidateDriver(options_, cluster, {});
  driver.join();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(DriverReady(), ::testing::StartsWith("IS_HOST_DRIVER=false\n"));

  // A flag whose module is not loaded keeps the driver from being ready.
  options_.with_wait = false;
  root_.Write("proc/modules", "nvidia 1 0 - Live 0x0\n");
  ASSERT_TRUE(status.Write(kDriverContainerReady, "GDS_ENABLED: true\nSOMETHING_NEW: true\n"));
  EXPECT_EQ(ValidateDriver(options_, cluster, {}).error().reason, "ModuleNotLoaded");
  root_.Write("proc/modules", "nvidia_fs 1 0 - Live 0x0\n");
  EXPECT_TRUE(ValidateDriver(options_, cluster, {}));
  EXPECT_TRUE(*status.Has("nvidia-fs-ready"));
}

TEST_F(SimulatedDriverTest, VectorAddComputesOnTheSimulatedGpu) {
  const std::string program = test_support::BuildFolder() / "bin/vectorAdd";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " is not built";
  host::ProgramRun run;
  run.program = program;
  run.capture_output = true;
  run.environment["LD_LIBRARY_PATH"] = (root_.path() / "driver/usr/lib/x86_64-linux-gnu").string();
  const auto end = host::RunProgram(run);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->exit_status, 0) << end->output;
  EXPECT_THAT(end->output, ::testing::HasSubstr("Test PASSED"));
  run.environment["LD_LIBRARY_PATH"] = "/nonexistent";
  EXPECT_EQ(host::RunProgram(run)->exit_status, 3) << "there is no libcuda.so.1";
}

}  // namespace
}  // namespace pitcrew::node::validator
