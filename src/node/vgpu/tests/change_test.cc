// Reading and changing a node. The vendor-specific VFIO framework is lived through on plain files;
// of mediated devices the exact writes are looked at.
#include "node/vgpu/change.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/file.h"
#include "node/vgpu/journal.h"
#include "tests/support/vgpu_tree.h"

namespace pitcrew::node::vgpu {
namespace {

using test_support::VgpuTree;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kTypes =
    "1414 : NVIDIA H200X-1-18C\n"
    "1420 : NVIDIA H200X-35C\n"
    "1428 : NVIDIA H200X-141C\n";
const std::string kGpu = "0000:41:00.0";

std::string Function(int number) { return fmt::format("0000:41:00.{}", number + 1); }

ConfigEntry EveryGpu(Counts counts) { return {.vgpu_devices = std::move(counts)}; }

class VgpuChangeTest : public ::testing::Test {
 protected:
  // An H200 with the vendor-specific framework.
  void AddH200(int functions) {
    tree_.AddGpu(kGpu, "2335", "18be");
    for (int i = 0; i < functions; ++i) tree_.AddVendorFunction(kGpu, Function(i), 20 + i, kTypes);
    functions_ = functions;
  }
  NodeVgpus Node() const {
    return NodeVgpus({.root = host::Root(tree_.root()),
                      .processes = host::Root(tree_.root()),
                      .driver_roots = {host::Root(tree_.root())},
                      .known_types = tree_.root() / "run/types.json"});
  }
  ChangeOptions Options() const {
    return {.journal = tree_.root() / "run/journal.json",
            .mig_journal = tree_.root() / "run/mig.json"};
  }
  base::Result<Plan> ApplyAll(Counts counts) {
    auto node = Node();
    return Apply(node, nullptr, {EveryGpu(std::move(counts))}, Options());
  }
  // By function.
  std::vector<std::string> Types() const {
    std::vector<std::string> types;
    for (int i = 0; i < functions_; ++i) types.push_back(tree_.VendorType(Function(i)));
    return types;
  }
  void SetTypes(const std::vector<std::string>& types) const {
    for (std::size_t i = 0; i < types.size(); ++i) {
      tree_.SetVendorType(Function(static_cast<int>(i)), types[i]);
    }
  }
  bool JournalLies() const { return WasCutOff(Options().journal).value(); }

  const VgpuTree tree_;
  int functions_ = 0;
};

TEST_F(VgpuChangeTest, ReadsTheVendorsFramework) {
  AddH200(2);
  tree_.SetVendorType(Function(1), "1420");
  const auto gpus = Node().Read();
  ASSERT_TRUE(gpus) << gpus.error().ToString();
  ASSERT_THAT(*gpus, SizeIs(1));
  const auto& gpu = gpus->front();
  EXPECT_EQ(gpu.framework, Framework::kVendor);
  EXPECT_EQ(gpu.id.ToString(), "0x233510DE:0x18BE10DE");
  EXPECT_EQ(gpu.functions, 2U);
  ASSERT_THAT(gpu.slots, SizeIs(2));
  EXPECT_EQ(gpu.slots[0].Room("H200X-35C"), 1U);
  EXPECT_EQ(gpu.slots[1].Room("H200X-35C"), 0U);
  ASSERT_THAT(gpu.vgpus, SizeIs(1));
  EXPECT_EQ(gpu.vgpus[0].type, "H200X-35C");
  EXPECT_EQ(gpu.vgpus[0].type_id, "1420");
}

TEST_F(VgpuChangeTest, ReadsMediatedDevices) {
  tree_.AddGpu("0000:3b:00.0", "1eb8", "12a2");
  tree_.AddMdevParent("0000:3b:00.0", "nvidia-230 16 GRID T4-1Q\nnvidia-233 1 GRID T4-8Q\n",
                      "num_heads=4, framebuffer=1024M, max_instance=16\n");
  tree_.AddMdev("0000:3b:00.0", "c2a7", "GRID T4-8Q", 40);
  tree_.AddVfioUser(77, "40",
                    "/usr/libexec/qemu-kvm -name guest=default_win,debug-threads=on -m 4");
  // Of another vendor: not counted.
  tree_.AddGpu("0000:01:00.0", "1533");
  tree_.Write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086\n");
  const auto gpus = Node().Read();
  ASSERT_TRUE(gpus) << gpus.error().ToString();
  ASSERT_THAT(*gpus, SizeIs(1));
  const auto& gpu = gpus->front();
  EXPECT_EQ(gpu.framework, Framework::kMdev);
  EXPECT_EQ(gpu.types, (std::vector<Type>{{"T4-1Q", 16}, {"T4-8Q", 16}}));
  ASSERT_THAT(gpu.vgpus, SizeIs(1));
  EXPECT_THAT(*gpu.vgpus[0].holders.value(),
              ElementsAre("qemu-kvm (process 77, virtual machine default_win)"));
}

TEST_F(VgpuChangeTest, AHostWithMediatedDevicesOnFunctionsIsNotTakenForTheVendors) {
  RecordProperty("holds", "virtualisation-and-olm.md #38");
  tree_.AddGpu(kGpu, "20f1");
  tree_.AddFunction(kGpu, Function(0), 20);
  const auto just_enabled = Node().Read();
  ASSERT_TRUE(just_enabled) << just_enabled.error().ToString();
  EXPECT_EQ(just_enabled->at(0).framework, Framework::kNone);
  EXPECT_FALSE(just_enabled->at(0).needs_functions());
  tree_.AddMdevParent(Function(0), "nvidia-471 1 NVIDIA A100-4C\n");
  EXPECT_EQ(Node().Read()->at(0).framework, Framework::kMdev);
}

TEST_F(VgpuChangeTest, MediatedDevicesAreMadeAndRemovedByExactWrites) {
  tree_.AddGpu("0000:3b:00.0", "1eb8");
  tree_.AddMdevParent("0000:3b:00.0", "nvidia-233 2 GRID T4-8Q\n");
  const std::string uuid = RandomUuid();
  tree_.AddMdev("0000:3b:00.0", uuid, "GRID T4-8Q", 40);
  auto node = Node();
  const auto gpus = node.Read();
  ASSERT_TRUE(gpus) << gpus.error().ToString();
  const auto& gpu = gpus->front();
  const std::string made = RandomUuid();
  ASSERT_TRUE(node.Create(gpu, gpu.pci, gpu.slots[0].offers[0], made));
  EXPECT_EQ(tree_.Read("sys/class/mdev_bus/0000:3b:00.0/mdev_supported_types/nvidia-233/create"),
            made);
  ASSERT_TRUE(node.Remove(gpu, gpu.vgpus[0]));
  EXPECT_EQ(tree_.Read("sys/devices/0000:3b:00.0/" + uuid + "/remove"), "1");
}

TEST_F(VgpuChangeTest, UuidsAreRandom) {
  EXPECT_THAT(RandomUuid(),
              ::testing::MatchesRegex(
                  "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_NE(RandomUuid(), RandomUuid());
}

TEST_F(VgpuChangeTest, MakesWhatIsWantedOnFunctionsInTheirOrder) {
  AddH200(4);
  ASSERT_TRUE(ApplyAll({{"H200X-35C", 3}}));
  EXPECT_THAT(Types(), ElementsAre("1420", "1420", "1420", "0"));
  EXPECT_FALSE(JournalLies());
  // Again: nothing to do, nothing written.
  const auto again = ApplyAll({{"H200X-35C", 3}});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->empty());
}

TEST_F(VgpuChangeTest, OnlyFunctionsThatChangeAreWritten) {
  RecordProperty("holds", "virtualisation-and-olm.md #35");
  AddH200(4);
  SetTypes({"1420", "1414", "1420", "0"});
  // One of a virtual machine, which is not in the way.
  tree_.AddVfioUser(9, "20", "qemu -name a");
  ASSERT_TRUE(ApplyAll({{"H200X-35C", 1}, {"H200X-141C", 1}}));
  EXPECT_THAT(Types(), ElementsAre("1420", "1428", "0", "0"));
}

TEST_F(VgpuChangeTest, AFunctionThatAVirtualMachineHasIsNotTouched) {
  RecordProperty("holds", "virtualisation-and-olm.md #36");
  AddH200(2);
  SetTypes({"1420", "1414"});
  tree_.AddVfioUser(4242, "20", "/usr/bin/qemu -name guest=default_vm,debug-threads=on -smp 2");
  const auto applied = ApplyAll({{"H200X-141C", 1}});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().reason, "InUse");
  EXPECT_THAT(applied.error().message,
              AllOf(HasSubstr("H200X-35C at 0000:41:00.1"),
                    HasSubstr("qemu-kvm (process 4242, virtual machine default_vm)")));
  EXPECT_THAT(Types(), ElementsAre("1420", "1414"));
  tree_.RemoveProcess(4242);
  EXPECT_TRUE(ApplyAll({{"H200X-141C", 1}}));
}

TEST_F(VgpuChangeTest, ATypeThatNoFunctionOffersIsRefusedBeforeAnythingIsCleared) {
  RecordProperty("holds", "virtualisation-and-olm.md #33");
  AddH200(2);
  SetTypes({"1420", "1420"});
  EXPECT_EQ(ApplyAll({{"H100-10C", 1}}).error().reason, "NoSuchType");
  EXPECT_EQ(ApplyAll({{"H200X-35C", 3}}).error().reason, "DoesNotFit");
  EXPECT_THAT(Types(), Each("1420"));
  EXPECT_FALSE(JournalLies());
}

TEST_F(VgpuChangeTest, NamesOfAFullCardAreRemembered) {
  RecordProperty("holds", "virtualisation-and-olm.md #37");
  AddH200(2);
  ASSERT_TRUE(ApplyAll({{"H200X-35C", 2}}));
  // What the driver tells on a full card.
  for (int i = 0; i < 2; ++i) {
    tree_.Write(fmt::format("sys/bus/pci/devices/{}/nvidia/creatable_vgpu_types", Function(i)),
                "ID    : vGPU Name\n");
  }
  const auto again = ApplyAll({{"H200X-35C", 2}});
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_TRUE(again->empty());
  EXPECT_EQ(Node().Read()->at(0).vgpus.at(0).type, "H200X-35C");
}

TEST_F(VgpuChangeTest, WhatIsOfferedIsReadBeforeEachIsMade) {
  RecordProperty("holds", "virtualisation-and-olm.md #34");
  AddH200(4);
  // The second one has lost its room; there is no other for the fourth.
  tree_.Write("sys/bus/pci/devices/" + Function(1) + "/nvidia/creatable_vgpu_types",
              "ID    : vGPU Name\n1414 : NVIDIA H200X-1-18C\n");
  ASSERT_TRUE(ApplyAll({{"H200X-35C", 3}}));
  EXPECT_THAT(Types(), ElementsAre("1420", "0", "1420", "1420"));
}

TEST_F(VgpuChangeTest, AStepThatFailsTakesBackTheOthers) {
  AddH200(4);
  std::vector<std::string> steps;
  auto options = Options();
  options.progress = [&](const Progress& progress) { steps.emplace_back(ToString(progress.step)); };
  // The second one has no room for it, which only shows when its turn comes.
  tree_.Write("sys/bus/pci/devices/" + Function(1) + "/nvidia/creatable_vgpu_types", "\n");
  auto node = Node();
  SetTypes({"1414", "0", "0", "0"});
  const auto failed = Apply(node, nullptr, {EveryGpu({{"H200X-35C", 4}})}, options);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message,
              AllOf(HasSubstr("failed to create 1 H200X-35C vGPU devices on the GPU"),
                    HasSubstr("; the vGPUs before are back")));
  EXPECT_THAT(Types(), ElementsAre("1414", "0", "0", "0"));
  EXPECT_FALSE(JournalLies());
  EXPECT_THAT(steps,
              ElementsAre("removing", "creating", "rolling-back", "creating", "rolled-back"));
}

TEST_F(VgpuChangeTest, AWayBackThatFailsIsTriedAgainByTheNextRun) {
  AddH200(2);
  SetTypes({"1414", "0"});
  const auto list = "sys/bus/pci/devices/" + Function(0) + "/nvidia/creatable_vgpu_types";
  const auto other = "sys/bus/pci/devices/" + Function(1) + "/nvidia/creatable_vgpu_types";
  // Neither what is wanted nor what was there can be made once it is gone.
  tree_.Write(list, "ID    : vGPU Name\n1428 : NVIDIA H200X-141C\n");
  tree_.Write(other, "ID    : vGPU Name\n1414 : NVIDIA H200X-1-18C\n1420 : NVIDIA H200X-35C\n");
  const auto failed = ApplyAll({{"H200X-35C", 2}});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().reason, "RollbackFailed");
  EXPECT_EQ(failed.error().code, base::Code::kUnavailable) << "for daemons: to be tried again";
  EXPECT_TRUE(JournalLies());
  tree_.Write(list, kTypes);
  auto node = Node();
  const auto recovered = Recover(node, nullptr, Options());
  ASSERT_TRUE(recovered) << recovered.error().ToString();
  EXPECT_THAT(Types(), ElementsAre("1414", "0"));
  EXPECT_FALSE(JournalLies());
  EXPECT_TRUE(Recover(node, nullptr, Options()));
}

TEST_F(VgpuChangeTest, OneAtATime) {
  AddH200(1);
  auto options = Options();
  auto node = Node();
  std::string inner;
  options.progress = [&](const Progress&) {
    auto other = Node();
    inner = Apply(other, nullptr, {EveryGpu({})}, Options()).error().reason;
  };
  ASSERT_TRUE(Apply(node, nullptr, {EveryGpu({{"H200X-35C", 1}})}, options));
  EXPECT_EQ(inner, "ChangeInProgress");
}

TEST_F(VgpuChangeTest, AJournalThatIsNoneIsLeftOutOfAccount) {
  AddH200(1);
  tree_.Write("run/journal.json", "{\"version\": 7}");
  ASSERT_TRUE(ApplyAll({{"H200X-35C", 1}}));
  EXPECT_THAT(Types(), ElementsAre("1420"));
  EXPECT_FALSE(JournalLies());
}

TEST_F(VgpuChangeTest, ProcessesThatHideAreAnError) {
  AddH200(1);
  SetTypes({"1420"});
  NodeVgpus node({.root = host::Root(tree_.root()),
                  .processes = host::Root(tree_.root() / "nowhere"),
                  .known_types = tree_.root() / "run/types.json"});
  EXPECT_FALSE(Apply(node, nullptr, {EveryGpu({})}, Options()));
  EXPECT_THAT(Types(), ElementsAre("1420"));
}

TEST_F(VgpuChangeTest, FunctionsThatTheKernelGivesAreAsked) {
  tree_.AddGpu(kGpu, "2335");
  tree_.Write("sys/bus/pci/devices/" + kGpu + "/sriov_totalvfs", "32\n");
  tree_.Write("sys/bus/pci/devices/" + kGpu + "/sriov_numvfs", "0\n");
  // Plain files: the functions do not come, so the change fails and asks for none again.
  const auto applied = ApplyAll({{"H200X-35C", 1}});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().reason, "NoVgpus");
  EXPECT_EQ(tree_.Read("sys/bus/pci/devices/" + kGpu + "/sriov_numvfs"), "0");
}

TEST_F(VgpuChangeTest, WithoutNvidiasProgramTheKernelIsAsked) {
  tree_.AddGpu(kGpu, "2335");
  tree_.Write("sys/bus/pci/devices/" + kGpu + "/sriov_totalvfs", "32\n");
  tree_.Write("sys/bus/pci/devices/" + kGpu + "/sriov_numvfs", "0\n");
  auto node =
      NodeVgpus({.root = host::Root(tree_.root()), .driver_roots = {host::Root(tree_.root())}});
  const auto gpus = node.Read();
  ASSERT_TRUE(gpus) << gpus.error().ToString();
  ASSERT_TRUE(node.EnableFunctions(gpus->front()));
  EXPECT_EQ(tree_.Read("sys/bus/pci/devices/" + kGpu + "/sriov_numvfs"), "32");
}

TEST(VgpuJournalTest, IsReadAsItWasWritten) {
  const Vgpu vgpu{.slot = gpu::PciAddress::Parse("0000:41:00.1").value(),
                  .uuid = "u",
                  .type = "A100-5C",
                  .type_id = "474"};
  Journal journal;
  journal.gpus = {{gpu::PciAddress::Parse(kGpu).value(), "0x20F110DE", 16, {vgpu}}};
  journal.mig = mig::Checkpoint{{{"GPU-1", {.mig_enabled = true}}}};
  const auto read = ParseJournal(ToJsonText(journal));
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->mig, journal.mig);
  ASSERT_THAT(read->gpus, SizeIs(1));
  EXPECT_EQ(read->gpus[0].functions, 16U);
  EXPECT_TRUE(read->gpus[0].vgpus.at(0).IsSameAs(vgpu));
  EXPECT_FALSE(ParseJournal("[]"));
  EXPECT_FALSE(ParseJournal("{\"version\": 1}"));
}

// --- Properties ----------------------------------------------------------------------------------

Counts CountsOfTypes(const std::vector<std::string>& types) {
  Counts counts;
  for (const auto& type : types) {
    if (type == "1414") ++counts["H200X-1-18C"];
    if (type == "1420") ++counts["H200X-35C"];
    if (type == "1428") ++counts["H200X-141C"];
  }
  return counts;
}

std::vector<std::string> RandomTypes(std::mt19937& random, int functions) {
  static const std::vector<std::string> kIds = {"0", "0", "1420", "1428"};
  std::vector<std::string> types;
  for (int i = 0; i < functions; ++i) types.push_back(kIds[random() % kIds.size()]);
  return types;
}

// As many functions keep what they have as can: no plan writes more than it must.
int Kept(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  int kept = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != "0" && before[i] == after[i]) ++kept;
  }
  return kept;
}
int MostKept(const Counts& before, const Counts& after) {
  int most = 0;
  for (const auto& [type, count] : before) {
    if (const auto found = after.find(type); found != after.end()) {
      most += std::min(count, found->second);
    }
  }
  return most;
}

TEST_F(VgpuChangeTest, EveryPlanReachesItsTargetWithTheFewestWrites) {
  AddH200(6);
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
  for (int round = 0; round < 60; ++round) {
    const auto before = RandomTypes(random, 6);
    const auto wanted = CountsOfTypes(RandomTypes(random, 6));
    SetTypes(before);
    const auto applied = ApplyAll(wanted);
    ASSERT_TRUE(applied) << round << ": " << applied.error().ToString();
    EXPECT_EQ(CountsOfTypes(Types()), wanted) << round;
    EXPECT_EQ(Kept(before, Types()), MostKept(CountsOfTypes(before), wanted)) << round;
  }
}

// A process that is killed leaves the journal and some of its writes: all of them, one less, and so
// on to none.
TEST_F(VgpuChangeTest, WhateverWasCutOffEndsAsWantedOrAsBefore) {
  AddH200(5);
  std::mt19937 random(2);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
  for (int round = 0; round < 10; ++round) {
    const auto before = RandomTypes(random, 5);
    const auto wanted = CountsOfTypes(RandomTypes(random, 5));
    SetTypes(before);
    const auto gpus = Node().Read();
    ASSERT_TRUE(gpus);
    const auto& gpu = gpus->front();
    Journal journal;
    journal.gpus = {{gpu.pci, gpu.id.ToString(), gpu.functions, gpu.vgpus}};
    const auto plan = PlanConfig(*gpus, {EveryGpu(wanted)});
    ASSERT_TRUE(plan) << plan.error().ToString();
    if (plan->empty()) continue;
    std::vector<std::pair<std::string, std::string>> writes;  // function, type
    for (const auto& vgpu : plan->changes[0].removed)
      writes.emplace_back(vgpu.slot.SysfsName(), "0");
    ASSERT_TRUE(ApplyAll(wanted));
    const auto after = Types();
    for (int i = 0; i < functions_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (after[at] != before[at] && after[at] != "0") writes.emplace_back(Function(i), after[at]);
    }
    for (std::size_t done = 0; done <= writes.size(); ++done) {
      const auto cut_off = [&] {
        SetTypes(before);
        for (std::size_t i = 0; i < done; ++i)
          tree_.SetVendorType(writes[i].first, writes[i].second);
        tree_.Write("run/journal.json", ToJsonText(journal));
      };
      cut_off();
      const auto forward = ApplyAll(wanted);
      ASSERT_TRUE(forward) << round << ": " << forward.error().ToString();
      EXPECT_EQ(CountsOfTypes(Types()), wanted) << round << " after " << done;
      EXPECT_FALSE(JournalLies());
      cut_off();
      auto node = Node();
      ASSERT_TRUE(Recover(node, nullptr, Options())) << round;
      EXPECT_EQ(Types(), before) << round << " after " << done;
      cut_off();
      // The next one wants something impossible: back to what was before the one that died.
      EXPECT_FALSE(ApplyAll({{"H100-10C", 1}}));
      EXPECT_EQ(Types(), before) << round << " after " << done;
      EXPECT_FALSE(JournalLies());
    }
  }
}

}  // namespace
}  // namespace pitcrew::node::vgpu
