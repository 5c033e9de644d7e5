// What keeps a GPU from a virtual machine, each with its reason and the advice
// (virtualisation-and-olm.md section 4).
#include "node/vfio/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/vfio/bundle.h"
#include "support_tree.h"

namespace pitcrew::node::vfio {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Tree;

constexpr const char* kOnlyGpu = "0000:65:00.0";

std::string Reason(const std::optional<base::Error>& error) { return error ? error->reason : ""; }

TEST(Translation, OnNeedsNoAdvice) {
  RecordProperty("holds", "virtualisation-and-olm.md #23");
  const Tree tree;
  EXPECT_EQ(Reason(CheckTranslation(tree.ReadAll().translation)), "");
}

class TranslationTest : public ::testing::Test {
 protected:
  TranslationTest() { std::filesystem::remove_all(tree_.settings().root.At("/sys/class/iommu")); }
  [[nodiscard]] base::Error Check() const {
    const auto error = CheckTranslation(tree_.ReadAll().translation);
    return error.value_or(base::Error{});
  }
  Tree tree_;
};

TEST_F(TranslationTest, IntelNeedsItsArgument) {
  RecordProperty("holds", "virtualisation-and-olm.md #21");
  const auto error = Check();
  EXPECT_EQ(error.reason, "IommuNotEnabled");
  EXPECT_THAT(error.message, AllOf(HasSubstr("kernel argument intel_iommu=on"),
                                   HasSubstr("spec.kernelArguments: [intel_iommu=on]")));
}

TEST_F(TranslationTest, AmdNeedsNone) {
  RecordProperty("holds", "virtualisation-and-olm.md #22");
  tree_.Write("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu svm\n");
  const auto error = Check();
  EXPECT_EQ(error.reason, "IommuNotEnabled");
  EXPECT_THAT(error.message, HasSubstr("needs no kernel argument"));
}

TEST_F(TranslationTest, ArmNeedsItsDriver) {
  tree_.Write("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n");
  EXPECT_THAT(Check().message, HasSubstr("CONFIG_ARM_SMMU_V3"));
}

TEST_F(TranslationTest, AnArgumentThatSwitchesItOffIsNamed) {
  for (const char* argument : {"intel_iommu=off", "iommu=off", "intel_iommu=sm_on,off"}) {
    tree_.Write("proc/cmdline", std::string("quiet ") + argument + " splash\n");
    const auto error = Check();
    EXPECT_EQ(error.reason, "IommuSwitchedOff") << argument;
    EXPECT_THAT(error.message, HasSubstr(argument));
  }
  tree_.Write("proc/cmdline", "intel_iommu=off intel_iommu=on\n");
  EXPECT_EQ(Check().reason, "IommuNotEnabled") << "the last one counts";
}

TEST_F(TranslationTest, FirmwareWithoutOneIsAskedFor) {
  RecordProperty("holds", "virtualisation-and-olm.md #21, #31");
  std::filesystem::remove_all(tree_.settings().root.At("/sys/firmware/acpi/tables/DMAR"));
  EXPECT_EQ(Check().reason, "IommuMissing");
  EXPECT_THAT(Check().message, HasSubstr("Intel VT-d"));
  tree_.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n");
  EXPECT_THAT(Check().message, HasSubstr("this node is a virtual machine"));
}

TEST_F(TranslationTest, ThatOfAFirmwareThatCannotBeReadIsNotCalledMissing) {
  std::filesystem::remove_all(tree_.settings().root.At("/sys/firmware"));
  EXPECT_EQ(Check().reason, "IommuNotEnabled");
}

TEST_F(TranslationTest, UnsafeModeNeedsNone) {
  tree_.Write("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
  EXPECT_EQ(Check().reason, "");
}

// The bundle of all GPUs of the tree, which must be one.
Bundle OnlyBundle(const Node& node) {
  const auto bundles = MakeBundles(node, *SelectDevices(node, {}));
  EXPECT_EQ(bundles.size(), 1U);
  return bundles.front();
}

TEST(Groups, AForeignHolderIsNamed) {
  RecordProperty("holds", "virtualisation-and-olm.md #24");
  const Tree tree;
  tree.Add({.address = kOnlyGpu, .driver = "nvidia", .group = 12});
  tree.Add({.address = "0000:64:00.0",
            .class_code = "0x060400",
            .vendor = "0x8086",
            .driver = "pcieport",
            .group = 12});
  tree.Add({.address = "0000:65:00.1", .class_code = "0x040300", .group = 12});
  auto node = tree.ReadAll();
  EXPECT_EQ(Reason(CheckGroups(node, OnlyBundle(node))), "") << "a bridge, and its own audio";
  tree.Add({.address = "0000:66:00.0",
            .class_code = "0x010802",
            .vendor = "0x144d",
            .driver = "nvme",
            .group = 12});
  node = tree.ReadAll();
  const auto shared = CheckGroups(node, OnlyBundle(node));
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->reason, "IommuGroupShared");
  EXPECT_THAT(shared->message, AllOf(HasSubstr("IOMMU group 12"),
                                     HasSubstr("0000:66:00.0 (class 0108, driver nvme)"),
                                     Not(HasSubstr("0000:64:00.0"))));
}

TEST(Groups, AMemberThatCannotBeReadIsNotFree) {
  const Tree tree;
  tree.Add({.address = kOnlyGpu, .group = 12});
  tree.Folder("sys/kernel/iommu_groups/12/devices/0000:66:00.0");
  const auto node = tree.ReadAll();
  EXPECT_THAT(CheckGroups(node, OnlyBundle(node))->message, HasSubstr("0000:66:00.0 (cannot be"));
}

TEST(Groups, ADeviceWithoutOneIsNotTranslated) {
  const Tree tree;
  tree.Add({.address = kOnlyGpu});
  const auto node = tree.ReadAll();
  EXPECT_EQ(Reason(CheckGroups(node, OnlyBundle(node))), "NoIommuGroup");
}

TEST(Console, IsToldWithTheArgumentThatMovesIt) {
  const Tree tree;
  tree.Add({.address = kOnlyGpu, .driver = "nvidia", .group = 12});
  const auto check = [&] {
    const auto node = tree.ReadAll();
    const auto checked = CheckConsole(tree.settings().root, OnlyBundle(node));
    EXPECT_TRUE(checked);
    return *checked;
  };
  EXPECT_FALSE(check());
  tree.Folder(std::string("sys/bus/pci/devices/") + kOnlyGpu + "/graphics/fb0");
  tree.Write("sys/class/vtconsole/vtcon0/name", "(S) dummy device\n");
  tree.Write("sys/class/vtconsole/vtcon0/bind", "1\n");
  EXPECT_FALSE(check()) << "a framebuffer that no console uses";
  tree.Write("sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n");
  tree.Write("sys/class/vtconsole/vtcon1/bind", "1\n");
  const auto console = check();
  ASSERT_TRUE(console);
  EXPECT_EQ(console->reason, "ConsoleOnGpu");
  EXPECT_THAT(console->message, HasSubstr("nvidia-drm.modeset=0"));
}

TEST(Framebuffers, AreReadWithTheirAddresses) {
  EXPECT_THAT(ParseFramebuffers("00001000-0009fbff : System RAM\n"
                                "e0000000-efffffff : PCI Bus 0000:65\n"
                                "  e0000000-e07fffff : BOOTFB\n"
                                "00000000-00000000 : efifb\n"
                                "rubbish\n"),
              ElementsAre(MemoryRange{0xe0000000, 0xe07fffff, "BOOTFB"}));
  EXPECT_THAT(ParseResources("0x00000000e0000000 0x00000000efffffff 0x0000000000040200\n"
                             "0x000000000000e000 0x000000000000e07f 0x0000000000040101\n"
                             "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"),
              ElementsAre(MemoryRange{0xe0000000, 0xefffffff, ""}));
}

TEST(Framebuffers, OneInTheMemoryOfTheGpuKeepsItFromMachines) {
  RecordProperty("holds", "virtualisation-and-olm.md #28");
  const Tree tree;
  tree.Add({.address = kOnlyGpu, .driver = "vfio-pci", .group = 12});
  tree.Write(std::string("sys/bus/pci/devices/") + kOnlyGpu + "/resource",
             "0x00000000e0000000 0x00000000efffffff 0x0000000000040200\n");
  const auto check = [&] {
    const auto node = tree.ReadAll();
    const auto checked = CheckFramebuffer(tree.settings().root, node.scan.devices.front());
    EXPECT_TRUE(checked);
    return *checked;
  };
  EXPECT_FALSE(check()) << "no /proc/iomem";
  tree.Write("proc/iomem", "d0000000-d07fffff : efifb\n");
  EXPECT_FALSE(check());
  tree.Write("proc/iomem", "e0000000-e07fffff : efifb\n");
  ASSERT_TRUE(check());
  EXPECT_EQ(check()->reason, "FramebufferOnGpu");
  EXPECT_THAT(check()->message, HasSubstr("initcall_blacklist=sysfb_init"));
}

}  // namespace
}  // namespace pitcrew::node::vfio
