#include "gpu/device_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Checklist 9, with a comment and a subsystem between.
constexpr std::string_view kDatabase =
    "# a comment\n"
    "8086  Intel Corporation\n"
    "\t2331  Something else\n"
    "10de  NVIDIA Corporation\n"
    "\t118a  GK104GL [GRID K520]\n"
    "# within\n"
    "\t\t10de 097b  A subsystem\n"
    "\t118b  gk104gl [grid k520]\n"
    "\t118c  gk104.gl [grid/k./520]\n"
    "\t2331  GH100 [H100 PCIe]\n"
    "\t2331  Again\n"
    "1102  Creative Labs\n"
    "\t118d  Other vendor's\n";

TEST(DeviceNames, AreFoundInTheDatabaseAndMadeResources) {
  RecordProperty("holds", "kubevirt-device-plugin.md #9, #10");
  const DeviceNames names(kDatabase);
  EXPECT_EQ(KubevirtName(names.Find(0x118a)), "GK104GL_GRID_K520");
  EXPECT_EQ(KubevirtName(names.Find(0x118b)), "GK104GL_GRID_K520");
  EXPECT_EQ(KubevirtName(names.Find(0x118c)), "GK104_GL_GRID_K__520");
  EXPECT_EQ(names.Find(0x118d), "");
  EXPECT_EQ(names.Find(0x097b), "") << "a subsystem is no device";
  EXPECT_EQ(KubevirtName(names.Find(0x2331)), "GH100_H100_PCIE");
  EXPECT_EQ(KubevirtName(""), "");
}

TEST(DeviceNames, EndAtTheFirstLineOfSomethingElse) {
  RecordProperty("holds", "kubevirt-device-plugin.md #27");
  const DeviceNames names("10de  NVIDIA\n\t0001  One\n\n\t0002  Two\n");
  EXPECT_EQ(names.Find(1), "One");
  EXPECT_EQ(names.Find(2), "");
}

TEST(DeviceNames, LinesThatAreCutShortArePassedOver) {
  const DeviceNames names("10de  NVIDIA\n\t\n\t00\n\t000\n\t0001\n\t0002  Two\n");
  EXPECT_EQ(names.Find(0), "");
  EXPECT_EQ(names.Find(1), "");
  EXPECT_EQ(names.Find(2), "Two");
}

TEST(DeviceNames, AFileThatIsNoneIsRefused) {
  const test_support::TemporaryFolder folder;
  EXPECT_EQ(DeviceNames::Load(folder.path() / "missing").error().code, base::Code::kNotFound);
  const auto other = DeviceNames::Load(folder.Write("pci.ids", "8086  Intel\n\t0001  One\n"));
  EXPECT_EQ(other.error().reason, "NoDeviceNames");
  EXPECT_THAT(other.error().message, HasSubstr("--pci-ids"));
}

// Section 3.1: names of the shipped database, on which virtual machines rely.
TEST(DeviceNames, OfTheImage) {
  const std::pair<std::uint16_t, const char*> expected[] = {
      {0x1b38, "GP102GL_TESLA_P40"},
      {0x1db4, "GV100GL_TESLA_V100_PCIE_16GB"},
      {0x1db6, "GV100GL_TESLA_V100_PCIE_32GB"},
      {0x1eb8, "TU104GL_TESLA_T4"},
      {0x20b0, "GA100_A100_SXM4_40GB"},
      {0x20b2, "GA100_A100_SXM4_80GB"},
      {0x20b5, "GA100_A100_PCIE_80GB"},
      {0x20b7, "GA100GL_A30_PCIE"},
      {0x20b1, "GA100_A100_PCIE_40GB"},
      {0x20f1, "GA100_A100_PCIE_40GB"},
      {0x2230, "GA102GL_RTX_A6000"},
      {0x2235, "GA102GL_A40"},
      {0x2236, "GA102GL_A10"},
      {0x25b6, "GA107GL_A2___A16"},
      {0x1af1, "GA100_A100_NVSWITCH"},
      {0x22a3, "GH100_H100_NVSWITCH"},
      {0x26b1, "AD102GL_RTX_6000_ADA_GENERATION"},
      {0x26b5, "AD102GL_L40"},
      {0x26b9, "AD102GL_L40S"},
      {0x27b8, "AD104GL_L4"},
      {0x2321, "GH100_H100L_94GB"},
      {0x2330, "GH100_H100_SXM5_80GB"},
      {0x2331, "GH100_H100_PCIE"},
      {0x2335, "GH100_H200_SXM_141GB"},
      {0x2342, "GH100_GH200_120GB___480GB"},
      {0x2348, "GH100_GH200_144G_HBM3E"},
      {0x2901, "GB100_B200"},
      {0x2941, "GB100_HGX_GB200"},
      {0x2bb1, "GB202GL_RTX_PRO_6000_BLACKWELL_WORKSTATION_EDITION"},
      {0x2bb4, "GB202GL_RTX_PRO_6000_BLACKWELL_MAXQ_WORKSTATION_EDITION"},
      {0x2bb5, "GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION"},
      {0x3182, ""},
      {0x31c2, ""}};
  const auto names = DeviceNames::Load(test_support::SourceFolder() / "deploy/image/pci.ids");
  ASSERT_TRUE(names) << names.error().ToString();
  for (const auto& [device, name] : expected) {
    EXPECT_EQ(KubevirtName(names->Find(device)), name) << DeviceIdText(device);
  }
}

// The way back, from what a node offers to the devices that it may have.
TEST(DeviceNames, AreFoundByWhatTheyAreCalled) {
  const auto names = DeviceNames::Load(test_support::SourceFolder() / "deploy/image/pci.ids");
  ASSERT_TRUE(names) << names.error().ToString();
  EXPECT_THAT(names->CalledForKubevirt("GA102GL_A10"), ElementsAre(0x2236));
  EXPECT_THAT(names->CalledForKubevirt("GA100_A100_PCIE_40GB"), ElementsAre(0x20b1, 0x20f1));
  EXPECT_THAT(names->CalledForKubevirt("3182"), ElementsAre(0x3182)) << "a B300 has no name";
  EXPECT_THAT(names->CalledForKubevirt("NVIDIA_A10-24Q"), IsEmpty());
  EXPECT_THAT(names->CalledForKubevirt("gpu"), IsEmpty());
  EXPECT_THAT(names->CalledForKubevirt("318"), IsEmpty());
  EXPECT_THAT(names->CalledForKubevirt("31C2"), IsEmpty()) << "ids are in lower case";
  EXPECT_THAT(names->CalledForKubevirt(""), IsEmpty());
}

TEST(DeviceNames, KataKeepsHyphens) {
  EXPECT_EQ(KataName("GH100 [H100-SXM5 80GB / v1.0]"), "GH100_H100-SXM5_80GB___V1_0");
  EXPECT_EQ(KubevirtName("GH100 [H100-SXM5 80GB / v1.0]"), "GH100_H100SXM5_80GB___V1_0");
}

TEST(DeviceNames, OfVgpuTypes) {
  RecordProperty("holds", "kubevirt-device-plugin.md #4");
  EXPECT_EQ(VgpuName("GRID P100X-1B\n"), "GRID_P100X-1B");
  EXPECT_EQ(VgpuName("NVIDIA  A10-24Q"), "NVIDIA_A10-24Q");
}

TEST(DeviceNames, WhichTheKubeletTakes) {
  EXPECT_TRUE(IsUsableName("GA102GL_A10"));
  EXPECT_TRUE(IsUsableName("3182"));
  EXPECT_TRUE(IsUsableName(std::string(61, 'A')));
  EXPECT_FALSE(IsUsableName(std::string(62, 'A'))) << "its socket would have too long a path";
  EXPECT_FALSE(IsUsableName(""));
  EXPECT_FALSE(IsUsableName("A_"));
  EXPECT_FALSE(IsUsableName("_A"));
  EXPECT_FALSE(IsUsableName("A B"));
}

// Section 1.4: what virt-launcher looks for.
TEST(DeviceNames, OfVariables) {
  RecordProperty("holds", "virtualisation-and-olm.md #1");
  EXPECT_EQ(VariableName("PCI_RESOURCE", "nvidia.com/GA102GL_A10"),
            "PCI_RESOURCE_NVIDIA_COM_GA102GL_A10");
  EXPECT_EQ(VariableName("MDEV_PCI_RESOURCE", "nvidia.com/NVIDIA_A10-24Q"),
            "MDEV_PCI_RESOURCE_NVIDIA_COM_NVIDIA_A10-24Q");
  EXPECT_EQ(VariableName("PCI_RESOURCE", "nvidia.com/pgpu"), "PCI_RESOURCE_NVIDIA_COM_PGPU");
  EXPECT_EQ(VariableName("PCI_RESOURCE", "nvidia.com/a.b"), "PCI_RESOURCE_NVIDIA_COM_A_B");
}

}  // namespace
}  // namespace pitcrew::gpu
