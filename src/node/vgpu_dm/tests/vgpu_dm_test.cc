// The command on a node of plain files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/vgpu_dm/command.h"
#include "node/vgpu_dm/status.h"
#include "tests/support/vgpu_tree.h"

namespace pitcrew::node::vgpu_dm {
namespace {

using test_support::VgpuTree;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

constexpr std::string_view kConfig =
    "version: v1\n"
    "vgpu-configs:\n"
    "  two: [{devices: all, vgpu-devices: {H200X-35C: 2}}]\n"
    "  none: [{devices: all, vgpu-devices: {}}]\n";

class VgpuDmTest : public ::testing::Test {
 protected:
  VgpuDmTest() {
    tree_.AddGpu("0000:41:00.0", "2335");
    for (const auto* function : {"0000:41:00.1", "0000:41:00.2"}) {
      tree_.AddVendorFunction("0000:41:00.0", function, 20, "1420 : NVIDIA H200X-35C\n");
    }
    tree_.Write("config.yaml", kConfig);
  }
  // Exit status; what it says is in `said_` and `printed_`.
  int Run(std::vector<std::string> words) {
    std::vector<const char*> argv = {"nvidia-vgpu-dm"};
    for (const auto& word : words) argv.push_back(word.c_str());
    CaptureStderr();
    CaptureStdout();
    const int status = CommandAt(tree_.root(), static_cast<int>(argv.size()), argv.data());
    printed_ = GetCapturedStdout();
    said_ = GetCapturedStderr();
    return status;
  }
  std::string Config() const { return (tree_.root() / "config.yaml").string(); }
  std::string Journal() const { return (tree_.root() / "run/journal.json").string(); }

  const VgpuTree tree_;
  std::string said_;
  std::string printed_;
};

TEST_F(VgpuDmTest, AssertApplyAssert) {
  EXPECT_EQ(Run({"assert", "-f", Config(), "-c", "two"}), 1);
  EXPECT_THAT(said_, HasSubstr("ssertion failure: selected configuration not currently applied"));
  EXPECT_EQ(Run({"apply", "-f", Config(), "-c", "two", "--journal-file", Journal()}), 0) << said_;
  EXPECT_THAT(said_, AllOf(HasSubstr("Applying vGPU device configuration..."),
                           HasSubstr("Selected vGPU device configuration successfully applied")));
  EXPECT_EQ(tree_.VendorType("0000:41:00.2"), "1420");
  EXPECT_EQ(Run({"assert", "-f", Config(), "-c", "two"}), 0);
  EXPECT_THAT(said_, HasSubstr("Selected vGPU device configuration is currently applied"));
  EXPECT_EQ(Run({"apply", "-f", Config(), "-c", "none", "--journal-file", Journal()}), 0);
  EXPECT_EQ(tree_.VendorType("0000:41:00.2"), "0");
}

TEST_F(VgpuDmTest, ValidityIsToldWithoutANode) {
  EXPECT_EQ(Run({"assert", "-a", "-f", Config(), "-c", "two"}), 0);
  EXPECT_THAT(said_, HasSubstr("Selected vGPU device configuration is valid"));
  EXPECT_EQ(Run({"assert", "-a", "-f", Config(), "-c", "three"}), 1);
  EXPECT_THAT(said_,
              HasSubstr("rror selecting VGPU config: selected vgpu-config not present: three"));
  EXPECT_EQ(Run({"assert", "-a", "-f", Config()}), 1);
  EXPECT_THAT(said_, HasSubstr("missing required flag 'selected-config' when more than one"));
  tree_.Write("config.yaml", "version: v2\n");
  EXPECT_EQ(Run({"assert", "-a", "-f", Config()}), 1);
  EXPECT_THAT(said_, HasSubstr("rror parsing config file: unmarshal error: "));
  EXPECT_EQ(Run({"assert", "-a", "-f", "/nowhere/at/all"}), 1);
  EXPECT_THAT(said_, HasSubstr("rror parsing config file: read error: "));
}

TEST_F(VgpuDmTest, WrongUsageEndsWithOne) {
  EXPECT_EQ(Run({"apply"}), 1);
  EXPECT_THAT(said_, HasSubstr("issing required flags 'config-file'"));
  EXPECT_EQ(Run({"frobnicate"}), 1);
  EXPECT_EQ(Run({"apply", "--frobnicate"}), 1);
  EXPECT_EQ(Run({"status", "-o", "xml"}), 1);
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(printed_, AllOf(HasSubstr("apply"), HasSubstr("assert"), HasSubstr("status")));
}

TEST_F(VgpuDmTest, WhatDoesNotFitChangesNothing) {
  tree_.Write("config.yaml",
              "version: v1\nvgpu-configs: {a: [{devices: all, vgpu-devices: {H200X-35C: 3}}]}\n");
  EXPECT_EQ(Run({"apply", "-f", Config(), "--journal-file", Journal()}), 1);
  EXPECT_THAT(said_, HasSubstr("what fits is up to 2 x H200X-35C"));
  EXPECT_EQ(tree_.VendorType("0000:41:00.1"), "0");
}

TEST_F(VgpuDmTest, ExportIsAConfigurationThatHolds) {
  tree_.SetVendorType("0000:41:00.1", "1420");
  EXPECT_EQ(Run({"export"}), 0);
  tree_.Write("exported.yaml", printed_);
  EXPECT_EQ(Run({"assert", "-f", (tree_.root() / "exported.yaml").string(), "-c", "current"}), 0)
      << said_ << printed_;
  EXPECT_EQ(Run({"export", "-o", "json", "-l", "now"}), 0);
  EXPECT_THAT(printed_, HasSubstr("\"now\""));
}

TEST_F(VgpuDmTest, StatusTellsWhoUsesWhat) {
  tree_.SetVendorType("0000:41:00.1", "1420");
  tree_.AddVfioUser(12, "20", "qemu -name guest=default_vm");
  EXPECT_EQ(Run({"status"}), 0);
  EXPECT_EQ(printed_,
            "GPU 0 (0000:41:00.0), device id 0x233510DE:0x000010DE: vGPUs by vendor-specific VFIO, "
            "2 virtual functions\n"
            "  H200X-35C at 0000:41:00.1: qemu-kvm (process 12, virtual machine default_vm)\n"
            "  types: H200X-35C\n");
  EXPECT_EQ(Run({"status", "-o", "json"}), 0);
  EXPECT_THAT(printed_, AllOf(HasSubstr("\"typeId\": \"1420\""), HasSubstr("default_vm")));
}

TEST_F(VgpuDmTest, NothingToTakeBack) {
  EXPECT_EQ(Run({"recover", "--journal-file", Journal()}), 0);
  EXPECT_THAT(said_, HasSubstr("No vGPU change was cut off"));
}

}  // namespace
}  // namespace pitcrew::node::vgpu_dm
