// Hand-overs as far as a tree of plain files shows them: what is refused writes nothing, and what
// stands already is left. Moves that succeed are tried where writes have their effect.
#include "node/vfio/handover.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>

#include "node/vfio/move.h"
#include "node/vfio/status.h"
#include "node/vfio/users.h"
#include "node/vfio/variants.h"
#include "support_tree.h"

namespace pitcrew::node::vfio {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Tree;

constexpr const char* kGpu = "0000:65:00.0";
const std::string kFolder = std::string("sys/bus/pci/devices/") + kGpu + "/";

class HandoverTest : public ::testing::Test {
 protected:
  HandoverTest() { tree_.AddDriver("vfio-pci"); }

  Report Give(const Selection& selection = {}) {
    const auto report = GiveToVfio(settings(), selection, base::Deadline::After({}), {});
    EXPECT_TRUE(report) << report.error().ToString();
    return report.value_or(Report{});
  }
  Report Take(const Selection& selection = {}) {
    const auto report = TakeFromVfio(settings(), selection, base::Deadline::After({}), {});
    EXPECT_TRUE(report) << report.error().ToString();
    return report.value_or(Report{});
  }
  [[nodiscard]] Settings settings() const {
    auto settings = tree_.settings();
    // The processes are those of this machine.
    settings.host_root = host::Root(own_processes_ ? "/" : settings.root.path());
    return settings;
  }
  // This process uses the GPU: /dev/full stands for its VFIO group.
  int Use(int group) {
    own_processes_ = true;
    tree_.Write("sys/class/vfio/" + std::to_string(group) + "/dev", "1:7\n");
    return ::open("/dev/full", O_RDWR | O_CLOEXEC);
  }
  static std::string ReasonOf(const Report& report) {
    return report.devices.size() == 1 && report.devices.front().failure
               ? report.devices.front().failure->reason
               : "";
  }

  Tree tree_;
  bool own_processes_ = false;
};

TEST_F(HandoverTest, ANodeWithoutGpusIsDone) {
  EXPECT_TRUE(Give().done());
  EXPECT_TRUE(Take().done());
}

TEST_F(HandoverTest, WhatIsWithVfioAlreadyIsNotWrittenTo) {
  RecordProperty("holds", "vfio-manager.md #16");
  tree_.Add({.address = kGpu, .driver = "vfio-pci", .group = 12});
  const auto before = tree_.Commands();
  const auto report = Give();
  EXPECT_TRUE(report.done());
  EXPECT_FALSE(report.changed());
  EXPECT_EQ(report.devices.front().driver, "vfio-pci");
  EXPECT_EQ(tree_.Commands(), before);
}

TEST_F(HandoverTest, WithoutAnIommuNothingIsTouched) {
  tree_.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  std::filesystem::remove_all(settings().root.At("/sys/class/iommu"));
  const auto before = tree_.Commands();
  const auto report = Give();
  EXPECT_EQ(ReasonOf(report), "IommuNotEnabled");
  EXPECT_EQ(report.devices.front().driver, "nvidia");
  EXPECT_EQ(tree_.Commands(), before);
}

TEST_F(HandoverTest, ASharedGroupIsNotTouched) {
  RecordProperty("holds", "virtualisation-and-olm.md #24");
  tree_.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  tree_.Add({.address = "0000:66:00.0", .driver = "nvidia", .group = 12});
  const auto before = tree_.Commands();
  EXPECT_EQ(ReasonOf(Give({.device = Tree::At(kGpu)})), "IommuGroupShared") << "one of two GPUs";
  EXPECT_EQ(tree_.Commands(), before);
}

TEST_F(HandoverTest, AMissingDriverIsFoundOutBeforeAnythingIsTouched) {
  tree_.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  std::filesystem::remove_all(settings().root.At("/sys/bus/pci/drivers/vfio-pci"));
  const auto before = tree_.Commands();
  const auto report = Give();
  EXPECT_EQ(ReasonOf(report), "VfioDriverMissing");
  EXPECT_THAT(report.devices.front().failure->message, HasSubstr("there is no module vfio-pci"));
  EXPECT_EQ(tree_.Commands(), before);
}

TEST_F(HandoverTest, AUserIsNamedAndKeepsItsGpu) {
  tree_.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  const int use = Use(12);
  const auto before = tree_.Commands();
  const auto report = Give();
  EXPECT_EQ(ReasonOf(report), "GpuInUse");
  EXPECT_THAT(report.devices.front().failure->message,
              HasSubstr("(process " + std::to_string(::getpid()) + ")"));
  EXPECT_EQ(tree_.Commands(), before);
  ::close(use);
}

TEST_F(HandoverTest, AMachineKeepsItsGpuWhenItIsTakenBack) {
  tree_.Add({.address = kGpu, .driver = "vfio-pci", .group = 12});
  const int use = Use(12);
  const auto before = tree_.Commands();
  EXPECT_EQ(ReasonOf(Take()), "GpuInUse");
  EXPECT_EQ(tree_.Commands(), before);
  ::close(use);
}

TEST_F(HandoverTest, TheBestDriverIsFoundUnderTheNameThatTheKernelGivesIt) {
  RecordProperty("holds", "vfio-manager.md #8, #9");
  tree_.AddDriver("nvgrace_gpu_vfio_pci");
  tree_.Add({.address = kGpu, .device = "0x2941", .driver = "vfio-pci", .group = 12});
  tree_.Add({.address = "0000:66:00.0", .device = "0x2330", .driver = "nvidia", .group = 13});
  const auto node = tree_.ReadAll();
  const auto driver_of = [&](const host::PciDevice& device) {
    const auto variants = Variants::Read(settings());
    EXPECT_TRUE(variants);
    return variants->FindDriver(*variants->ModuleFor(device)).value_or("none");
  };
  EXPECT_EQ(driver_of(node.scan.devices[0]), "vfio-pci") << "a kernel without aliases";
  tree_.Write("lib/modules/6.8.0-60-generic/modules.alias",
              "alias vfio_pci:v*d*sv*sd*bc*sc*i* vfio_pci\n"
              "alias vfio_pci:v000010ded00002941sv*sd*bc*sc*i* nvgrace_gpu_vfio_pci\n");
  EXPECT_EQ(driver_of(node.scan.devices[0]), "nvgrace_gpu_vfio_pci");
  EXPECT_EQ(driver_of(node.scan.devices[1]), "vfio-pci");
}

TEST_F(HandoverTest, AKernelThatDoesNotDoWhatItTookIsFoundOut) {
  RecordProperty("holds", "vfio-manager.md #15");
  tree_.Add({.address = kGpu, .group = 12});
  const auto moved = MoveToDriver(settings().root, Tree::At(kGpu), "vfio-pci");
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().reason, "NotBound");
  EXPECT_EQ(tree_.Read(kFolder + "driver_override"), "vfio-pci");
  EXPECT_EQ(tree_.Read("sys/bus/pci/drivers/vfio-pci/bind"), kGpu);
  tree_.Bind(kGpu, "nvidia");
  EXPECT_EQ(MoveToNobody(settings().root, Tree::At(kGpu)).error().reason, "StillBound");
  EXPECT_EQ(tree_.Read(kFolder + "driver_override"), "\n");
  EXPECT_EQ(tree_.Read("sys/bus/pci/drivers/nvidia/unbind"), kGpu);
}

TEST_F(HandoverTest, AFailedMoveIsTakenBack) {
  tree_.Add({.address = kGpu, .group = 12});
  const auto report = Give();
  EXPECT_EQ(ReasonOf(report), "NotBound");
  EXPECT_EQ(tree_.Read(kFolder + "driver_override"), "\n") << "no driver is forced on it any more";
}

TEST_F(HandoverTest, TakingADeviceWithoutADriverOnlyClearsItsOverride) {
  RecordProperty("holds", "vfio-manager.md #18");
  tree_.Add({.address = kGpu, .group = 12});
  tree_.Write(kFolder + "driver_override", "vfio-pci\n");
  const auto report = Take();
  EXPECT_TRUE(report.done());
  EXPECT_EQ(tree_.Read(kFolder + "driver_override"), "\n");
  EXPECT_EQ(tree_.Read("sys/bus/pci/drivers_probe"), "") << "nouveau must not get it";
}

TEST_F(HandoverTest, WhereNvidiasDriverIsLoadedItIsToldOfTheGpu) {
  tree_.AddDriver("nvidia");
  tree_.Add({.address = kGpu, .group = 12});
  EXPECT_TRUE(Take().done());
  EXPECT_EQ(tree_.Read("sys/bus/pci/drivers_probe"), kGpu);
}

TEST_F(HandoverTest, AllTakesFromVfioOnly) {
  tree_.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  tree_.Write(kFolder + "driver_override", "nvidia\n");
  const auto before = tree_.Commands();
  const auto report = Take();
  EXPECT_TRUE(report.done());
  EXPECT_FALSE(report.changed());
  EXPECT_EQ(tree_.Commands(), before);
  tree_.Write(kFolder + "driver_override", "vfio-pci\n");
  EXPECT_TRUE(Take().done());
  EXPECT_EQ(tree_.Read(kFolder + "driver_override"), "\n") << "left by a run that was cut off";
  EXPECT_EQ(ReasonOf(Take({.device = Tree::At(kGpu)})), "StillBound")
      << "one is taken from anybody";
}

TEST_F(HandoverTest, OneDevicesFailureIsNotTheOthers) {
  tree_.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  tree_.Add({.address = "0000:66:00.0", .driver = "vfio-pci", .group = 13});
  tree_.Add({.address = "0000:03:00.0",
             .class_code = "0x010802",
             .vendor = "0x144d",
             .driver = "nvme",
             .group = 12});
  const auto report = Give();
  EXPECT_FALSE(report.done());
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].failure->reason, "IommuGroupShared");
  EXPECT_FALSE(report.devices[1].failure);
}

TEST(Users, NodesOfAFunctionAreThoseOfAllItsDrivers) {
  const Tree tree;
  tree.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  tree.Write("sys/class/vfio/12/dev", "511:0\n");
  tree.Write(kFolder + "vfio-dev/vfio3/dev", "510:3\n");
  tree.Write(kFolder + "drm/card0/dev", "226:0\n");
  tree.Write(kFolder + "drm/renderD128/dev", "226:128\n");
  tree.Write(std::string("proc/driver/nvidia/gpus/") + kGpu + "/information",
             "Model: \t\t NVIDIA H100\nBus Type: \t PCIe\nDevice Minor: \t 2\n");
  tree.Write("proc/devices", "Character devices:\n195 nvidia\n226 drm\n");
  const auto numbers = DeviceNumbersOf(tree.settings(), tree.ReadAll().scan.devices);
  ASSERT_TRUE(numbers) << numbers.error().ToString();
  EXPECT_EQ(*numbers, (host::DeviceNumbers{::makedev(511, 0), ::makedev(510, 3), ::makedev(226, 0),
                                           ::makedev(226, 128), ::makedev(195, 2)}));
}

TEST_F(HandoverTest, TheStatusTellsWhatStandsInTheWay) {
  tree_.Add({.address = kGpu, .driver = "nvidia", .group = 12});
  tree_.Add({.address = "0000:66:00.0", .driver = "vfio-pci", .group = 13});
  tree_.Add({.address = "0000:67:00.0", .driver = "vfio-pci", .group = 14});
  tree_.Add({.address = "0000:03:00.0",
             .class_code = "0x010802",
             .vendor = "0x144d",
             .driver = "nvme",
             .group = 14});
  const auto before = tree_.Commands();
  const auto status = ReadStatus(settings());
  ASSERT_TRUE(status) << status.error().ToString();
  ASSERT_EQ(status->devices.size(), 3U);
  EXPECT_FALSE(status->devices[0].ready);
  EXPECT_THAT(status->devices[0].obstacles, IsEmpty());
  EXPECT_EQ(status->devices[0].best_module, "vfio-pci");
  EXPECT_TRUE(status->devices[1].ready);
  EXPECT_FALSE(status->devices[2].ready);
  EXPECT_EQ(status->devices[2].obstacles.front().reason, "IommuGroupShared");
  EXPECT_EQ(status->devices[2].sharing.front(), Tree::At("0000:03:00.0"));
  EXPECT_EQ(tree_.Commands(), before);
}

}  // namespace
}  // namespace pitcrew::node::vfio
