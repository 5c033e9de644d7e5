// Changes of vGPUs, lived through on a simulated /sys, where a write has its effect or its errno:
// by mediated devices, and by the vendor-specific framework.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/vgpu/change.h"
#include "simulation/sysfs/sriov.h"
#include "simulation/testing/simulated_sysfs.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::vgpu {
namespace {

using simulation::SimulatedSysfs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class VgpusOfSimulatedSysfs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SimulatedSysfs::IsPossible()) GTEST_SKIP() << "needs root and /dev/fuse";
  }
  void Start(const std::string& description = "kernel: {vgpu: mdev}\ngpus: [{profile: T4}]") {
    machine_ = std::make_unique<SimulatedSysfs>(description);
    Restart();
  }
  // As another process.
  void Restart() {
    node_ = std::make_unique<NodeVgpus>(NodeSettings{.root = host::Root(machine_->root()),
                                                     .processes = host::Root("/"),
                                                     .driver_roots = {},
                                                     .known_types = folder_.path() / "types"});
  }
  // As NVIDIA's program does.
  void EnableFunctions() const {
    const auto gpus = node_->Read();
    for (const auto& gpu : *gpus) {
      const auto made =
          simulation::sysfs::SetVirtualFunctions(machine_->sys(), gpu.pci.SysfsName(), true);
      ASSERT_TRUE(made) << made.error().ToString();
    }
  }
  base::Result<Plan> ApplyAll(Counts counts) {
    return Apply(*node_, nullptr, {{.vgpu_devices = std::move(counts)}},
                 {.journal = folder_.path() / "journal", .mig_journal = folder_.path() / "mig"});
  }
  Gpu Read() {
    const auto gpus = node_->Read();
    EXPECT_TRUE(gpus) << gpus.error().ToString();
    return gpus ? gpus->at(0) : Gpu{};
  }
  // What tells each vGPU from others: its place, and its UUID where it has one.
  std::vector<std::string> Vgpus() {
    std::vector<std::string> vgpus;
    for (const auto& vgpu : Read().vgpus) vgpus.push_back(vgpu.Title());
    return vgpus;
  }

  const test_support::TemporaryFolder folder_;
  std::unique_ptr<SimulatedSysfs> machine_;
  std::unique_ptr<NodeVgpus> node_;
};

TEST_F(VgpusOfSimulatedSysfs, MediatedDevicesComeAndGo) {
  Start();
  const auto made = ApplyAll({{"T4-8Q", 2}});
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_THAT(CountsOf(Read()), ElementsAre(Pair("T4-8Q", 2)));
  const auto two = Vgpus();
  ASSERT_TRUE(ApplyAll({{"T4-8Q", 1}}));
  const auto one = Vgpus();
  ASSERT_EQ(one.size(), 1U);
  EXPECT_THAT(two, ::testing::Contains(one[0])) << "the same device, not another of its type";
  // Of another size: only on a GPU without the others.
  const auto other = ApplyAll({{"T4-4Q", 4}});
  ASSERT_TRUE(other) << other.error().ToString();
  EXPECT_THAT(CountsOf(Read()), ElementsAre(Pair("T4-4Q", 4)));
  EXPECT_EQ(ApplyAll({{"T4-4Q", 5}}).error().reason, "DoesNotFit");
  ASSERT_TRUE(ApplyAll({}));
  EXPECT_THAT(Vgpus(), IsEmpty());
}

TEST_F(VgpusOfSimulatedSysfs, WhatTheDriverRefusesOnTheWayIsTakenBack) {
  Start();
  ASSERT_TRUE(ApplyAll({{"T4-4Q", 4}}));
  const auto before = Vgpus();
  // The driver has one size on a GPU, which nothing tells before.
  const auto mixed = ApplyAll({{"T4-8Q", 1}, {"T4-4Q", 2}});
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, HasSubstr("the vGPUs before are back"));
  EXPECT_EQ(Vgpus(), before) << "with their UUIDs";
}

TEST_F(VgpusOfSimulatedSysfs, AVgpuThatIsInUseStaysWhoeverHasIt) {
  Start();
  ASSERT_TRUE(ApplyAll({{"T4-8Q", 2}}));
  const auto before = Vgpus();
  // Its user is no process of this machine: only the kernel knows.
  machine_->Command("use " + Read().vgpus.at(1).uuid);
  const auto removed = ApplyAll({});
  ASSERT_FALSE(removed);
  EXPECT_EQ(Vgpus(), before);
}

constexpr const char* kA100 = "kernel: {vgpu: vendor}\ngpus: [{profile: A100-40}]";

// NVIDIA's driver makes none through sysfs, as a kernel says of such drivers.
TEST_F(VgpusOfSimulatedSysfs, VirtualFunctionsNeedNvidiasProgram) {
  Start(kA100);
  ASSERT_EQ(Read().framework, Framework::kNone);
  const auto refused = ApplyAll({{"A100X-20C", 2}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("sriov-manage"));
}

// What the driver does not tell of a full card it has told before.
TEST_F(VgpusOfSimulatedSysfs, VirtualFunctionsAreMadeVgpusAndBack) {
  RecordProperty("holds", "virtualisation-and-olm.md #37");
  Start(kA100);
  EnableFunctions();
  const auto made = ApplyAll({{"A100X-20C", 2}});
  ASSERT_TRUE(made) << made.error().ToString();
  Restart();
  EXPECT_EQ(Read().framework, Framework::kVendor);
  EXPECT_THAT(CountsOf(Read()), ElementsAre(Pair("A100X-20C", 2)));
  const auto again = ApplyAll({{"A100X-20C", 2}});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->empty());
  // Of another size: only on a GPU without the others.
  const auto other = ApplyAll({{"A100X-5C", 8}});
  ASSERT_TRUE(other) << other.error().ToString();
  EXPECT_THAT(CountsOf(Read()), ElementsAre(Pair("A100X-5C", 8)));
  const auto too_many = ApplyAll({{"A100X-5C", 9}});
  ASSERT_FALSE(too_many);
  EXPECT_THAT(CountsOf(Read()), ElementsAre(Pair("A100X-5C", 8))) << too_many.error().ToString();
  ASSERT_TRUE(ApplyAll({}));
  EXPECT_THAT(Vgpus(), IsEmpty());
}

TEST_F(VgpusOfSimulatedSysfs, AFunctionThatFailsTakesTheOthersBack) {
  Start(kA100);
  EnableFunctions();
  ASSERT_TRUE(ApplyAll({{"A100X-20C", 1}}));
  const auto before = Vgpus();
  const auto third = Read().slots.at(2).address.SysfsName();
  machine_->Command("fault " + third + " vgpu EIO");
  const auto failed = ApplyAll({{"A100X-10C", 4}});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("the vGPUs before are back"));
  EXPECT_EQ(Vgpus(), before);
}

}  // namespace
}  // namespace pitcrew::node::vgpu
