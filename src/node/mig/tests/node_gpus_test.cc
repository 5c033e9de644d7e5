// Reading and changing GPUs on the simulated driver.
#include "node/mig/node_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "node/mig/checkpoint.h"
#include "node/mig/export.h"
#include "node/mig/plan.h"
#include "node/mig/planner.h"
#include "simulation/state/incidents.h"
#include "support_simulated.h"

namespace pitcrew::node::mig {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NodeGpusTest : public SimulatedMig {
 protected:
  void AddProcess(std::uint32_t gpu, std::uint32_t pid) {
    ASSERT_TRUE(node_->file().Update([&](simulation::NodeState& node) {
      return simulation::AddProcess(node.gpus[gpu], pid, "/usr/bin/python3", 1 << 20, false);
    }));
  }
};

TEST_F(NodeGpusTest, ProfilesAreDiscovered) {
  RecordProperty("holds", "mig-manager.md #29");
  Start("gpus: [{profile: A100-40, count: 8}]");
  const auto boards = DiscoverProfiles(Read());
  ASSERT_TRUE(boards) << boards.error().ToString();
  ASSERT_THAT(*boards, SizeIs(8));
  for (const auto& board : *boards) {
    EXPECT_GE(board.counts.size(), 5U);
    for (const auto& [name, count] : board.counts) {
      EXPECT_GT(count, 0) << name;
      EXPECT_EQ(name.find("c."), std::string::npos) << name;
    }
  }
}

// Every way to divide one A100 by profiles without attributes: counts up to what fits of each
// alone.
std::vector<ProfileCounts> AllDivisions(const Gpu& gpu) {
  const std::vector<std::pair<std::string, int>> most = {{"1g.5gb", 7},  {"1g.10gb", 4},
                                                         {"2g.10gb", 3}, {"3g.20gb", 2},
                                                         {"4g.20gb", 1}, {"7g.40gb", 1}};
  std::vector<ProfileCounts> all = {{}};
  for (const auto& [name, count] : most) {
    const auto before = all;
    for (int n = 1; n <= count; ++n) {
      for (auto counts : before) {
        counts[name] = n;
        if (PlanLayout(gpu, counts)) all.push_back(std::move(counts));
      }
    }
  }
  return all;
}

TEST_F(NodeGpusTest, WhatIsSetIsRead) {
  RecordProperty("holds", "mig-manager.md #30");
  Start("gpus: [{profile: A100-40, count: 2, mig: {enabled: true}}]");
  const auto divisions = AllDivisions(Read().at(0));
  EXPECT_THAT(divisions, SizeIs(Ge(30U)));
  for (const auto& counts : divisions) {
    const auto applied = ApplyToAll(counts);
    ASSERT_TRUE(applied) << applied.error().ToString();
    EXPECT_THAT(Counts(), Each(counts));
  }
  ASSERT_TRUE(ApplyToAll({{"1c.3g.20gb", 6}}));
  EXPECT_THAT(Counts(), Each(ProfileCounts{{"1c.3g.20gb", 6}}));
}

TEST_F(NodeGpusTest, ClearLeavesNothing) {
  RecordProperty("holds", "mig-manager.md #30");
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 2, 3g.20gb: 1}}}]");
  const Gpu gpu = Read().at(0);
  ASSERT_THAT(gpu.layout.value()->instances, SizeIs(3));
  ASSERT_TRUE(gpus_->Clear(gpu));
  EXPECT_THAT(Read().at(0).layout.value()->instances, IsEmpty());
}

TEST_F(NodeGpusTest, AModeThatIsAskedForOfABusyGpuWaits) {
  RecordProperty("holds", "mig-manager.md #34");
  Start("gpus: [{profile: A100-40}, {profile: T4}]");
  EXPECT_FALSE(Read().at(0).CannotDoMig());
  EXPECT_TRUE(Read().at(1).CannotDoMig());
  AddProcess(0, 4711);
  const auto counts = gpus_->SetMode(Read().at(0), true);
  ASSERT_TRUE(counts) << counts.error().ToString();
  EXPECT_FALSE(*counts);
  EXPECT_EQ(*Read().at(0).mode.value(), (gpu::MigMode{.current = false, .pending = true}));
  EXPECT_THAT(*gpus_->Users(Read().at(0)), ::testing::ElementsAre("python3 (4711)"));
}

TEST_F(NodeGpusTest, WhatWasCheckpointedIsRestored) {
  RecordProperty("holds", "mig-manager.md #36");
  Start("gpus: [{profile: A100-40, count: 2}, {profile: T4}]");
  const std::vector<NamedConfig> states = {
      {{.mig_enabled = false}},
      {{.mig_enabled = true}},
      {{.mig_enabled = true, .mig_devices = {{"1g.5gb", 2}, {"2g.10gb", 1}, {"3g.20gb", 1}}}},
      {{.devices = std::vector<int>{0}, .mig_enabled = true, .mig_devices = {{"1c.3g.20gb", 3}}},
       {.devices = std::vector<int>{1}, .mig_enabled = false}}};
  for (const auto& state : states) {
    ASSERT_TRUE(ApplyConfig(state));
    const auto saved = MakeCheckpoint(Read());
    ASSERT_TRUE(saved) << saved.error().ToString();
    EXPECT_THAT(saved->devices, SizeIs(2)) << "boards without MIG are left out";
    ASSERT_TRUE(ApplyToAll({{"7g.40gb", 1}}));
    ASSERT_NE(*MakeCheckpoint(Read()), *saved);
    const Planner back = [&](const std::vector<Gpu>& gpus) { return PlanCheckpoint(gpus, *saved); };
    const auto restored = Apply(*gpus_, back, options_);
    ASSERT_TRUE(restored) << restored.error().ToString();
    EXPECT_EQ(*MakeCheckpoint(Read()), *saved);
  }
}

TEST_F(NodeGpusTest, ALostGpuIsUnknownAndKeepsItsPlace) {
  Start("gpus: [{profile: A100-40, count: 3}]");
  const auto before = Read();
  // As the kernel still lists them.
  for (const Gpu& gpu : before) {
    const auto folder = root_ / "sys/bus/pci/devices" / gpu.pci.SysfsName();
    std::filesystem::create_directories(folder);
    const auto write = [&](const char* name, const char* text) {
      ASSERT_TRUE(base::WriteFileAtomically(folder / name, text));
    };
    write("vendor", "0x10de\n");
    write("device", "0x20b0\n");
    write("class", "0x030200\n");
  }
  ASSERT_TRUE(node_->file().Update([](simulation::NodeState& node) {
    simulation::LoseGpu(node, 1);
    return true;
  }));
  const auto gpus = Read();
  ASSERT_THAT(gpus, SizeIs(3));
  EXPECT_TRUE(gpus[1].mode.is_unknown());
  EXPECT_EQ(gpus[2].uuid, before[2].uuid);
  const NamedConfig all = {{.mig_enabled = true}};
  EXPECT_THAT(PlanConfig(gpus, all).error().message, HasSubstr("GPU 1"));
  EXPECT_FALSE(AssertConfig(gpus, all));
  const NamedConfig others = {{.devices = std::vector<int>{0, 2}, .mig_enabled = true}};
  EXPECT_TRUE(PlanConfig(gpus, others));
}

TEST_F(NodeGpusTest, WithoutALibraryUnderALoadedModuleNothingIsTouched) {
  Start("gpus: [{profile: A100-40}]");
  std::filesystem::remove(root_ / "usr/lib64/libnvidia-ml.so.1");
  ASSERT_TRUE(base::WriteFileAtomically(root_ / "proc/modules", "nvidia 1 0 - Live 0x0\n"));
  EXPECT_EQ(gpus_->Read().error().reason, "LibraryNotFound");
}

TEST_F(NodeGpusTest, WhereModulesAreUnknownNothingIsTouchedEither) {
  Start("gpus: [{profile: A100-40}]");
  std::filesystem::remove(root_ / "usr/lib64/libnvidia-ml.so.1");
  std::filesystem::remove(root_ / "proc/modules");
  EXPECT_EQ(gpus_->Read().error().reason, "LibraryNotFound");
}

// The driver's own program in its root, here a script that notes how it was called.
TEST_F(NodeGpusTest, GpusAreResetByTheDriversProgram) {
  Start("gpus: [{profile: A100-40, count: 3}]");
  const auto write = [&](const char* name, std::string_view text) {
    ASSERT_TRUE(base::WriteFileAtomically(root_ / name, text, 0755));
  };
  std::filesystem::create_directories(root_ / "bin");
  std::filesystem::copy_file("/bin/busybox", root_ / "bin/busybox");
  write("usr/bin/nvidia-smi",
        "#!/bin/busybox sh\necho \"$@\" > /arguments\n"
        "[ ! -e /refuse ] || { echo 'GPU is in use by another client'; exit 1; }\n");
  const auto gpus = Read();
  ASSERT_TRUE(gpus_->Reset({gpus[0], gpus[2]}));
  EXPECT_EQ(*base::ReadFile(root_ / "arguments"),
            "--gpu-reset -i " + gpus[0].pci.SysfsName() + "," + gpus[2].pci.SysfsName() + "\n");
  write("refuse", "");
  ASSERT_THAT(Read(), SizeIs(3)) << "the library is opened anew";
  const auto refused = gpus_->Reset({gpus[1]});
  EXPECT_EQ(refused.error().reason, "ResetFailed");
  EXPECT_THAT(refused.error().message, HasSubstr("status 1: GPU is in use by another client"));
}

}  // namespace
}  // namespace pitcrew::node::mig
