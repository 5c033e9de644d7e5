// The components of virtual machines on a real kube-apiserver, over a node's tree of plain files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "api/labels.h"
#include "apiserver/api_server.h"
#include "base/file.h"
#include "host/root.h"
#include "io/file_watcher.h"
#include "node/validator/components.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validator {
namespace {

using ::pitcrew::testing::ApiServer;

class SandboxTest : public ::testing::Test {
 protected:
  SandboxTest() : cluster_(ApiServer::Shared().kubeconfig()) {
    static int counter = 0;
    options_.node_name = "sandbox-" + std::to_string(++counter);
    options_.output_folder = folder_.path() / "validations";
    options_.host_seen_at = folder_.path() / "host";
    options_.driver_seen_at = folder_.path() / "driver";
    options_.devices_root = host::Root(folder_.path());
    std::filesystem::create_directories(options_.output_folder);
    std::filesystem::create_directories(folder_.path() / "sys/bus/pci/devices");
  }
  void MakeNode(const std::string& label, const std::string& value) {
    const auto made = ApiServer::Shared().MakeClient()->Create(
        kube::kNodes, {{"metadata", {{"name", options_.node_name}, {"labels", {{label, value}}}}}});
    ASSERT_TRUE(made) << made.error().message;
  }
  void MakeGpu(const std::string& driver) const {
    const std::string gpu = "sys/bus/pci/devices/0000:65:00.0/";
    folder_.Write(gpu + "vendor", "0x10de\n");
    folder_.Write(gpu + "device", "0x2330\n");
    folder_.Write(gpu + "class", "0x030200\n");
    std::filesystem::create_symlink("../../drivers/" + driver, folder_.path() / (gpu + "driver"));
  }
  [[nodiscard]] std::string Read(const std::string& name) const {
    return base::ReadFile(options_.output_folder / name).value_or("missing");
  }

  test_support::TemporaryFolder folder_;
  Options options_;
  Cluster cluster_;
};

TEST_F(SandboxTest, AContainerNodeIsOnlyCalledSo) {
  RecordProperty("holds", "validator.md #26");
  MakeNode(std::string(api::kWorkloadConfig), "container");
  options_.component = "vfio-pci";
  ASSERT_TRUE(ValidateVfioPci(options_, cluster_, {}));
  EXPECT_EQ(Read("workload-type"), "container\n");
  EXPECT_EQ(Read("vfio-pci-ready"), "missing");
  for (const auto component : {ValidateVgpuManager, ValidateVgpuDevices}) {
    ASSERT_TRUE(component(options_, cluster_, {}));
  }
  EXPECT_EQ(Read("vgpu-devices-ready"), "missing");
}

TEST_F(SandboxTest, AGpuWithVfioIsValidOneWithItsDriverIsNot) {
  MakeNode(std::string(api::kWorkloadConfig), "vm-passthrough");
  ASSERT_TRUE(StatusFolder(options_.output_folder).Write("vfio-pci-ready"));
  MakeGpu("nvidia");
  EXPECT_EQ(ValidateVfioPci(options_, cluster_, {}).error().reason, "NotBoundToVfio");
  EXPECT_EQ(Read("vfio-pci-ready"), "missing") << "that of an earlier run is gone";
  std::filesystem::remove(folder_.path() / "sys/bus/pci/devices/0000:65:00.0/driver");
  MakeGpu("vfio-pci");
  ASSERT_TRUE(ValidateVfioPci(options_, cluster_, {}));
  EXPECT_EQ(Read("vfio-pci-ready"), "");
  EXPECT_EQ(Read("workload-type"), "vm-passthrough\n");
}

TEST_F(SandboxTest, TheDefaultIsForNodesWithoutALabel) {
  MakeNode("other", "label");
  options_.default_workload = "vm-vgpu";
  EXPECT_FALSE(ValidateVgpuDevices(options_, cluster_, {}));
  EXPECT_EQ(Read("workload-type"), "vm-vgpu\n");
}

TEST_F(SandboxTest, AWaitEndsWhenTheGpuIsBound) {
  MakeNode(std::string(api::kWorkloadConfig), "vm-passthrough");
  options_.with_wait = true;
  options_.retry_interval = std::chrono::seconds(1);
  MakeGpu("nvidia");
  base::Status done = base::Fail(base::Internal("NotRun", ""));
  std::thread validator([&] { done = ValidateVfioPci(options_, cluster_, {}); });
  ASSERT_TRUE(StatusFolder(options_.output_folder).Await("workload-type", {}));
  std::filesystem::remove(folder_.path() / "sys/bus/pci/devices/0000:65:00.0/driver");
  MakeGpu("vfio-pci");
  validator.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(Read("vfio-pci-ready"), "");
}

TEST_F(SandboxTest, ConfidentialComputingIsWaitedForWhereTheGpusCanDoIt) {
  RecordProperty("holds", "validator.md #28");
  MakeNode("other", "label");
  ASSERT_TRUE(ValidateCcManager(options_, cluster_, {}));
  EXPECT_EQ(Read("cc-manager-ready"), "");
  options_.node_name += "-capable";
  MakeNode(std::string(api::kCcCapable), "true");
  EXPECT_EQ(ValidateCcManager(options_, cluster_, {}).error().reason, "CcManagerNotReady");
  EXPECT_EQ(Read("cc-manager-ready"), "missing");
  ASSERT_TRUE(StatusFolder(options_.output_folder).Write(".cc-manager-ctr-ready"));
  ASSERT_TRUE(ValidateCcManager(options_, cluster_, {}));
  EXPECT_EQ(Read("cc-manager-ready"), "");
}

TEST_F(SandboxTest, AVgpuManagerWithoutADriverIsNotValid) {
  MakeNode(std::string(api::kWorkloadConfig), "vm-vgpu");
  ASSERT_TRUE(StatusFolder(options_.output_folder).Write("vgpu-manager-ready"));
  EXPECT_EQ(ValidateVgpuManager(options_, cluster_, {}).error().reason, "DriverLibraryNotFound");
  EXPECT_EQ(Read("vgpu-manager-ready"), "missing");
}

}  // namespace
}  // namespace pitcrew::node::validator
