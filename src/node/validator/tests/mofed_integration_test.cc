// The driver of the network adapters, on a real kube-apiserver.
#include <gtest/gtest.h>

#include <thread>

#include "api/labels.h"
#include "apiserver/api_server.h"
#include "node/validator/components.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validator {
namespace {

using ::pitcrew::testing::ApiServer;

class MofedTest : public ::testing::Test {
 protected:
  MofedTest() : cluster_(ApiServer::Shared().kubeconfig()) {
    static int counter = 0;
    options_.component = "mofed";
    options_.node_name = "mofed-" + std::to_string(++counter);
    options_.output_folder = folder_.path() / "validations";
    options_.proc = folder_.path() / "proc";
    options_.network_driver_folder = folder_.path() / "drivers";
    options_.uses_rdma = true;
    std::filesystem::create_directories(options_.output_folder);
    std::filesystem::create_directories(options_.network_driver_folder);
  }
  void MakeNode(const std::string& adapter) {
    const auto made = ApiServer::Shared().MakeClient()->Create(
        kube::kNodes, {{"metadata",
                        {{"name", options_.node_name},
                         {"labels", {{std::string(api::kMellanoxPresent), adapter}}}}}});
    ASSERT_TRUE(made) << made.error().message;
  }
  base::Status Validate() { return ValidateMofed(options_, cluster_, {}); }
  [[nodiscard]] bool IsReady() const {
    return std::filesystem::exists(options_.output_folder / "mofed-ready");
  }

  test_support::TemporaryFolder folder_;
  Options options_;
  Cluster cluster_;
};

TEST_F(MofedTest, WithoutRdmaThereIsNothingToValidate) {
  RecordProperty("holds", "validator.md #29");
  MakeNode("true");
  options_.uses_rdma = false;
  EXPECT_TRUE(Validate());
  EXPECT_FALSE(IsReady());
}

TEST_F(MofedTest, WithoutAnAdapterThereIsNothingToValidate) {
  MakeNode("false");
  EXPECT_TRUE(Validate());
  EXPECT_FALSE(IsReady());
}

TEST_F(MofedTest, AHostsDriverIsItsModule) {
  MakeNode("true");
  options_.network_driver_on_host = true;
  folder_.Write("proc/modules", "mlx5_ib 1 0 - Live 0x0\n");
  folder_.Write("validations/mofed-ready", "");
  EXPECT_EQ(Validate().error().reason, "ModuleNotLoaded");
  EXPECT_FALSE(IsReady()) << "that of an earlier run is gone";
  folder_.Write("proc/modules", "mlx5_ib 1 0 - Live 0x0\nmlx5_core 1 0 - Live 0x0\n");
  EXPECT_TRUE(Validate());
  EXPECT_TRUE(IsReady());
}

TEST_F(MofedTest, ADriverContainerIsWaitedFor) {
  MakeNode("true");
  EXPECT_EQ(Validate().error().reason, "NetworkDriverNotReady");
  options_.with_wait = true;
  base::Status done = base::Fail(base::Internal("NotRun", ""));
  std::thread validator([&] { done = Validate(); });
  folder_.Write("drivers/.driver-ready", "");
  validator.join();
  EXPECT_TRUE(done);
  EXPECT_TRUE(IsReady());
}

}  // namespace
}  // namespace pitcrew::node::validator
