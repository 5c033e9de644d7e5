// A node for containers, some of whose GPUs are for virtual machines: what the driver manager makes
// of it before a driver comes, on a simulated sysfs with a real API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "desired/node_labels.h"
#include "node/driver_manager/tests/support_manager.h"
#include "simulation/sysfs/control_file.h"
#include "simulation/testing/simulated_sysfs.h"
#include "tests/support/kill_at_change.h"

namespace pitcrew::node::driver_manager {
namespace {

namespace fs = std::filesystem;
using codec::Json;
using simulation::SimulatedSysfs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kGpus =
    "kernel: {iommu: true}\ngpus: [{profile: L4, count: 3, graphics: true, functions: [audio]}]";

class DividedNode : public ManagerTest {
 protected:
  void SetUp() override {
    if (!SimulatedSysfs::IsPossible()) GTEST_SKIP() << "needs root and /dev/fuse";
    ManagerTest::SetUp();
    machine_ = std::make_unique<SimulatedSysfs>(kGpus, false);
    fs::create_directories(machine_->root() / "proc/sys/kernel");
    std::ofstream(machine_->root() / "proc/sys/kernel/osrelease") << "6.8.0-60-generic\n";
    std::ofstream(machine_->root() / "proc/cmdline") << "root=/dev/sda1\n";
    std::ofstream(machine_->root() / "proc/cpuinfo") << "vendor_id\t: GenuineIntel\n";
    options_.host_root = machine_->root();
    options_.sys = machine_->sys();
    options_.users_timeout = std::chrono::seconds(0);
    for (const auto& entry : fs::directory_iterator(machine_->sys() / "bus/pci/devices")) {
      const auto name = entry.path().filename().string();
      if (name.ends_with(".0")) gpus_.push_back(name);
    }
    std::ranges::sort(gpus_);
    ASSERT_EQ(gpus_.size(), 3U);
    SetLabel(api::kDeployDriver, "true");
    SetLabel(api::kDeploySandboxValidator, "true");
  }
  void Divide(const Json& list) {
    ASSERT_TRUE(client_->Patch(
        kube::kNodes, {"", node_}, kube::PatchType::kMerge,
        {{"metadata", {{"annotations", {{std::string(desired::kMachineGpus), list}}}}}}));
  }
  // Which driver has each of the GPUs, after NVIDIA's has come.
  std::vector<std::string> DriversAfterLoad() {
    EXPECT_TRUE(simulation::sysfs::WriteControl(machine_->sys(), "load nvidia"));
    std::vector<std::string> drivers;
    for (const auto& gpu : gpus_) {
      std::error_code error;
      drivers.push_back(
          fs::read_symlink(machine_->sys() / "bus/pci/devices" / gpu / "driver", error).filename());
    }
    return drivers;
  }
  // The driver's pod is replaced: its container unloads the driver when it ends.
  base::Status Prepare() {
    if (fs::exists(machine_->sys() / "bus/pci/drivers/nvidia")) {
      TRY(simulation::sysfs::WriteControl(machine_->sys(), "unload nvidia"));
    }
    return UninstallDriver(options_, client_, {});
  }

  std::unique_ptr<SimulatedSysfs> machine_;
  std::vector<std::string> gpus_;
};

TEST_F(DividedNode, TheDriverGetsOnlyTheOthers) {
  Divide(gpus_[1]);
  const auto done = Prepare();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "vfio-pci", "nvidia"));
  Divide(gpus_[1] + "," + gpus_[2]);
  ASSERT_TRUE(Prepare());
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "vfio-pci", "vfio-pci"));
  Divide(nullptr);
  ASSERT_TRUE(Prepare());
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "nvidia", "nvidia"));
}

// A device plugin that was told of the GPUs of before would go on offering them.
TEST_F(DividedNode, ALoadedDriverIsUnloadedAndWhoUsesItStartsAnew) {
  options_.unload_module = [this](const std::string& module) -> base::Status {
    unloaded_.push_back(module);
    if (module != "nvidia") return {};  // goes with it
    return simulation::sysfs::WriteControl(machine_->sys(), "unload nvidia");
  };
  machine_->Command("load nvidia 580.95.05");
  MakePod("plugin", "nvidia-device-plugin-daemonset", Json::object());
  Divide(gpus_[1]);
  const auto done = Run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(was_paused_);
  EXPECT_EQ(own_node::LabelOf(Node(), kPlugin), "true") << "it is not left paused";
  EXPECT_THAT(unloaded_, ElementsAre("nvidia_modeset", "nvidia_uvm", "nvidia"));
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "vfio-pci", "nvidia"));
}

// Nothing is half done, and no virtual machine loses its GPU by a slip of the pen.
TEST_F(DividedNode, WhatIsRefusedLeavesTheGpusAsTheyAre) {
  Divide(gpus_[1]);
  ASSERT_TRUE(Prepare());
  ASSERT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "vfio-pci", "nvidia"));
  for (const std::string& list :
       {gpus_[0] + ",0000:99:00.0", std::string("1"), gpus_[0] + "," + gpus_[1] + "," + gpus_[2]}) {
    SCOPED_TRACE(list);
    Divide(list);
    const auto done = Prepare();
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "vfio-pci", "nvidia"));
  }
  Divide(gpus_[0]);
  SetLabel(api::kMigConfig, "all-1g.10gb");
  ASSERT_TRUE(Prepare());
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "vfio-pci", "nvidia"));
}

// Without an IOMMU: containers keep it.
TEST_F(DividedNode, AGpuThatCannotGoStaysWithTheDriver) {
  machine_->Command("fault " + gpus_[1] + " bind EBUSY");
  Divide(gpus_[1]);
  const auto done = Prepare();
  ASSERT_TRUE(done) << done.error().message;
  machine_->Command("fault " + gpus_[1] + " bind none");
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "nvidia", "nvidia"));
}

// The operator has not set the node up for virtual machines: sandbox workloads are off.
TEST_F(DividedNode, TheAnnotationAloneMeansNothing) {
  ASSERT_TRUE(client_->Patch(
      kube::kNodes, {"", node_}, kube::PatchType::kMerge,
      {{"metadata", {{"labels", {{std::string(api::kDeploySandboxValidator), nullptr}}}}}}));
  Divide(gpus_[1]);
  ASSERT_TRUE(Prepare());
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "nvidia", "nvidia"));
}

// Pods of containers leave before; virtual machines whose GPUs stay do not.
TEST_F(DividedNode, WhoseGpuMayGoLeavesFirst) {
  Divide(gpus_[1]);
  const Json resources = {{"limits", {{"nvidia.com/gpu", "1"}}}};
  MakePod("bare", "notebook", resources);
  MakePod("machine", "virt-launcher", {{"limits", {{"nvidia.com/27b8", "1"}}}});
  const auto refused = Prepare();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "GpuPodsRemain");
  EXPECT_THAT(refused.error().message, HasSubstr("/bare has no controller"));
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("machine")));
  ASSERT_TRUE(client_->Delete(kube::kPods, {options_.namespace_name, "bare"}));
  ASSERT_TRUE(Prepare());
  EXPECT_THAT(DriversAfterLoad(), ElementsAre("nvidia", "vfio-pci", "nvidia"));
  EXPECT_TRUE(client_->Get(kube::kPods, {options_.namespace_name, "machine"}));
}

}  // namespace
}  // namespace pitcrew::node::driver_manager
