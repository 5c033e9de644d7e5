#include "node/vgpu/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/vgpu/mig_geometry.h"

namespace pitcrew::node::vgpu {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

gpu::PciAddress At(const std::string& text) { return gpu::PciAddress::Parse(text).value(); }

// A board before Ampere: mediated devices of the GPU itself.
Gpu T4(int position = 0) {
  Gpu gpu{.position = position, .pci = At("0000:3b:00.0"), .id = {0x1EB810DE, 0x12A210DE}};
  gpu.framework = Framework::kMdev;
  gpu.types = {{"T4-16Q", 1}, {"T4-4Q", 4}, {"T4-8Q", 2}};
  gpu.slots = {
      {gpu.pci,
       {{"T4-16Q", "nvidia-234", 1}, {"T4-4Q", "nvidia-232", 4}, {"T4-8Q", "nvidia-233", 2}}}};
  return gpu;
}

// An A16 with virtual functions, each with room for one.
Gpu A16(unsigned functions = 16) {
  Gpu gpu{.position = 0, .pci = At("0000:41:00.0"), .id = {0x25B610DE, 0x14A910DE}};
  gpu.framework = Framework::kMdev;
  gpu.functions = gpu.most_functions = functions;
  gpu.types = {{"A16-1Q", 16}, {"A16-8Q", 2}};
  for (unsigned i = 0; i < functions; ++i) {
    gpu.slots.push_back(
        {{0, 0x41, static_cast<std::uint8_t>(i / 8 + 1), static_cast<std::uint8_t>(i % 8)},
         {{"A16-1Q", "nvidia-700", 1}, {"A16-8Q", "nvidia-703", 1}}});
  }
  return gpu;
}

Gpu With(Gpu gpu, std::vector<std::pair<std::size_t, std::string>> vgpus) {
  for (auto& [slot, type] : vgpus) {
    Vgpu vgpu{.slot = gpu.slots.at(slot).address,
              .uuid = "uuid-" + std::to_string(gpu.vgpus.size()),
              .type = type};
    gpu.vgpus.push_back(std::move(vgpu));
  }
  return gpu;
}
Gpu Held(Gpu gpu, std::size_t vgpu, std::string by) {
  gpu.vgpus.at(vgpu).holders = base::Observed<std::vector<std::string>>::Present({std::move(by)});
  return gpu;
}

ConfigEntry All(Counts counts) { return {.vgpu_devices = std::move(counts)}; }
ConfigEntry For(std::string filter, Counts counts) {
  return {.device_filter = {std::move(filter)}, .vgpu_devices = std::move(counts)};
}

std::vector<std::string> Uuids(const std::vector<Vgpu>& vgpus) {
  std::vector<std::string> uuids;
  for (const auto& vgpu : vgpus) uuids.push_back(vgpu.uuid);
  return uuids;
}

TEST(VgpuPlanTest, NothingForAGpuThatIsAsWanted) {
  const auto plan = PlanConfig({With(T4(), {{0, "T4-8Q"}, {0, "T4-8Q"}})}, {All({{"T4-8Q", 2}})});
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_TRUE(plan->empty());
}

TEST(VgpuPlanTest, OnlyWhatDiffers) {
  const auto gpu = With(A16(), {{0, "A16-1Q"}, {1, "A16-1Q"}, {2, "A16-8Q"}});
  const auto plan = PlanConfig({gpu}, {All({{"A16-1Q", 3}})});
  ASSERT_TRUE(plan) << plan.error().ToString();
  ASSERT_THAT(plan->changes, SizeIs(1));
  EXPECT_THAT(Uuids(plan->changes[0].removed), ElementsAre("uuid-2"));
  EXPECT_THAT(plan->changes[0].created, ElementsAre(Pair("A16-1Q", 1)));
}

TEST(VgpuPlanTest, VgpusOfVirtualMachinesStayWhereTheyCan) {
  const auto gpu = Held(With(A16(), {{0, "A16-1Q"}, {1, "A16-1Q"}, {2, "A16-1Q"}}), 2, "qemu (9)");
  const auto plan = PlanConfig({gpu}, {All({{"A16-1Q", 1}})});
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_THAT(Uuids(plan->changes.at(0).removed), ElementsAre("uuid-0", "uuid-1"));
}

TEST(VgpuPlanTest, AHeldVgpuIsNeverRemoved) {
  RecordProperty("holds", "virtualisation-and-olm.md #36");
  const auto gpu = Held(With(A16(), {{0, "A16-1Q"}, {1, "A16-8Q"}}), 1,
                        "qemu-kvm (process 7, virtual machine a)");
  const auto plan = PlanConfig({gpu}, {All({{"A16-1Q", 4}})});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().reason, "InUse");
  EXPECT_THAT(plan.error().message,
              AllOf(HasSubstr("A16-8Q at 0000:41:01.1"), HasSubstr("virtual machine a")));
}

TEST(VgpuPlanTest, WhoHoldsAVgpuMustBeKnown) {
  auto gpu = With(A16(), {{0, "A16-8Q"}});
  gpu.vgpus[0].holders = base::Observed<std::vector<std::string>>::Unknown(
      base::Error{base::Code::kDenied, "ProcessesHidden", "no"});
  EXPECT_EQ(PlanConfig({gpu}, {All({})}).error().reason, "ProcessesHidden");
  EXPECT_TRUE(PlanConfig({gpu}, {All({{"A16-8Q", 1}})}));
}

TEST(VgpuPlanTest, TypesThatTheGpuLacksAreRefusedInUpstreamsWords) {
  const auto plan = PlanConfig({With(T4(), {{0, "T4-8Q"}})}, {All({{"A100-5C", 1}})});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().reason, "NoSuchType");
  EXPECT_THAT(plan.error().message,
              AllOf(StartsWith("vGPU type A100-5C is not supported on GPU (index=0, "
                               "address=0000:3b:00.0)"),
                    HasSubstr("it has T4-16Q (up to 1), T4-4Q (up to 4), T4-8Q (up to 2)")));
}

TEST(VgpuPlanTest, ATypeWithAnAttributeIsMadeUnderItsPlainName) {
  RecordProperty("holds", "vgpu-device-manager.md #16");
  Gpu gpu = A16();
  gpu.types = {{"DC-1-24Q", {}}};
  for (auto& slot : gpu.slots) slot.offers = {{"DC-1-24Q", "nvidia-1", 1}};
  const NamedConfig config = {All({{"DC-1-24QGFX", 2}})};
  const auto plan = PlanConfig({gpu}, config);
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_THAT(plan->changes.at(0).created, ElementsAre(Pair("DC-1-24Q", 2)));
  // Upstream makes all of them anew at each start: section 9, weakness 1.
  const auto made = With(gpu, {{0, "DC-1-24Q"}, {1, "DC-1-24Q"}});
  EXPECT_TRUE(AssertConfig({made}, config));
  EXPECT_TRUE(PlanConfig({made}, config)->empty());
}

TEST(VgpuPlanTest, MoreThanFitAreRefusedBeforeAnythingChanges) {
  RecordProperty("holds", "vgpu-device-manager.md #17");
  const auto fits = PlanConfig({A16()}, {All({{"A16-1Q", 16}})});
  ASSERT_TRUE(fits) << fits.error().ToString();
  const auto plan = PlanConfig({A16()}, {All({{"A16-1Q", 17}})});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().reason, "DoesNotFit");
  EXPECT_THAT(plan.error().message,
              AllOf(HasSubstr("failed to create 1 A16-1Q vGPU devices on the GPU. ensure '17' does "
                              "not exceed the maximum supported instances for 'A16-1Q'"),
                    HasSubstr("what fits is up to 16 x A16-1Q")));
}

TEST(VgpuPlanTest, WhatAGpuWithoutDescriptionsHasRoomForIsWhatItOffersWhileItIsEmpty) {
  Gpu gpu = T4();
  for (auto& type : gpu.types) type.most.reset();
  EXPECT_TRUE(PlanConfig({gpu}, {All({{"T4-4Q", 4}})}));
  EXPECT_EQ(PlanConfig({gpu}, {All({{"T4-4Q", 5}})}).error().reason, "DoesNotFit");
  // Half of it taken by others: nobody knows, so it is tried, and taken back when it fails.
  gpu = With(gpu, {{0, "T4-8Q"}});
  gpu.slots[0].offers = {{"T4-4Q", "nvidia-232", 2}, {"T4-8Q", "nvidia-233", 1}};
  EXPECT_TRUE(PlanConfig({gpu}, {All({{"T4-4Q", 4}})}));
  EXPECT_EQ(PlanConfig({gpu}, {All({{"T4-8Q", 3}})}).error().reason, "DoesNotFit");
}

TEST(VgpuPlanTest, SeveralSizesShareTheFrameBuffer) {
  EXPECT_TRUE(PlanConfig({T4()}, {All({{"T4-8Q", 1}, {"T4-4Q", 2}})}));
  const auto plan = PlanConfig({T4()}, {All({{"T4-8Q", 2}, {"T4-4Q", 1}})});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("20 GB of frame buffer together, and it has 16"));
}

TEST(VgpuPlanTest, NoMoreThanVirtualFunctions) {
  const auto plan = PlanConfig({A16(4)}, {All({{"A16-1Q", 4}, {"A16-8Q", 1}})});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message,
              HasSubstr("5 vGPUs are wanted, and it has 4 virtual functions"));
}

TEST(VgpuPlanTest, TheLastEntryDecidesAndTheOthersOfTheSameFilterStandIn) {
  // The default configuration has A16-8Q, then A2-8Q, for the id that both boards have.
  const NamedConfig config = {For("0x25B610DE", {{"A16-8Q", 2}}),
                              For("0x25B610DE", {{"A2-8Q", 2}})};
  const auto plan = PlanConfig({A16()}, config);
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_THAT(plan->changes.at(0).created, ElementsAre(Pair("A16-8Q", 2)));
  EXPECT_THAT(plan->remarks, ElementsAre(HasSubstr("because the GPU has no 2 x A2-8Q")));
  EXPECT_TRUE(AssertConfig({With(A16(), {{0, "A16-8Q"}, {1, "A16-8Q"}})}, config));
  // One that the GPU has overrides what stands before it, under whatever filter.
  const auto last = PlanConfig({A16()}, {All({{"A16-1Q", 1}}), For("0x25B610DE", {{"A16-8Q", 1}})});
  EXPECT_THAT(last->changes.at(0).created, ElementsAre(Pair("A16-8Q", 1)));
  // A general entry is no substitute for one that was meant for this board.
  EXPECT_EQ(PlanConfig({A16()}, {All({{"A16-1Q", 1}}), For("0x25B610DE", {{"A16-3Q", 1}})})
                .error()
                .reason,
            "NoSuchType");
}

TEST(VgpuPlanTest, GpusThatNoEntryIsForStay) {
  const NamedConfig config = {For("0x20F110DE", {{"A100-20C", 2}})};
  const auto plan = PlanConfig({With(T4(), {{0, "T4-8Q"}})}, config);
  EXPECT_TRUE(plan->empty());
  EXPECT_THAT(plan->remarks, ElementsAre(HasSubstr("no entry is for its device id 0x1EB810DE")));
  const auto asserted = AssertConfig({T4()}, config);
  ASSERT_FALSE(asserted);
  EXPECT_THAT(asserted.error().message,
              HasSubstr("not all GPUs match the specified config: no entry is for GPU 0"));
}

TEST(VgpuPlanTest, AGpuThatNoEntryIsForDoesNotEndThePlan) {
  Gpu a16 = A16();
  const auto plan = PlanConfig({T4(0), a16}, {For("0x25B610DE", {{"A16-8Q", 2}})});
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_THAT(plan->changes, SizeIs(1));
  EXPECT_EQ(plan->changes.front().pci, a16.pci);
}

TEST(VgpuPlanTest, EveryGpusProblemInOneMessage) {
  Gpu other = T4(1);
  other.pci = At("0000:5e:00.0");
  const auto plan = PlanConfig({T4(0), other}, {All({{"A2-8Q", 1}})});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, AllOf(HasSubstr("0000:3b:00.0"), HasSubstr("0000:5e:00.0")));
}

TEST(VgpuPlanTest, AGpuThatOffersNoneNeedsNothingToHaveNone) {
  Gpu bare{.position = 0, .pci = At("0000:3b:00.0"), .id = {0x1EB810DE, 0}};
  EXPECT_TRUE(PlanConfig({bare}, {All({})})->empty());
  EXPECT_TRUE(AssertConfig({bare}, {All({})}));
  const auto plan = PlanConfig({bare}, {All({{"T4-8Q", 1}})});
  EXPECT_EQ(plan.error().reason, "NoVgpus");
  EXPECT_THAT(plan.error().message, StartsWith("no parent devices found for GPU at index '0'"));
}

TEST(VgpuPlanTest, VirtualFunctionsAreEnabledFirst) {
  Gpu gpu{.position = 0, .pci = At("0000:41:00.0"), .id = {0x233510DE, 0}};
  gpu.most_functions = 32;
  EXPECT_TRUE(PlanConfig({gpu}, {All({})})->empty());
  const auto plan = PlanConfig({gpu}, {All({{"H200X-35C", 4}})});
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_TRUE(plan->changes.at(0).enables_functions);
  EXPECT_THAT(plan->changes.at(0).created, ElementsAre(Pair("H200X-35C", 4)));
}

TEST(VgpuPlanTest, AGpuThatIsDividedAnewLosesAllAndMustNotBeHeld) {
  auto gpu = With(A16(), {{0, "A16-8Q"}});
  const NamedConfig config = {All({{"A100-1-5C", 2}})};
  const auto plan = PlanConfig({gpu}, config, {gpu.pci});
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_THAT(plan->changes.at(0).removed, SizeIs(1));
  EXPECT_THAT(plan->changes.at(0).created, ElementsAre(Pair("A100-1-5C", 2)));
  EXPECT_EQ(PlanConfig({Held(gpu, 0, "qemu (1)")}, config, {gpu.pci}).error().reason, "InUse");
}

TEST(VgpuPlanTest, ATypeThatNobodyCanNameIsNotGuessed) {
  Gpu gpu = A16(1);
  gpu.framework = Framework::kVendor;
  gpu.vgpus = {{.slot = gpu.slots[0].address, .uuid = "", .type = "", .type_id = "703"}};
  EXPECT_EQ(PlanConfig({gpu}, {All({{"A16-8Q", 1}})}).error().reason, "TypeUnknown");
  EXPECT_THAT(PlanConfig({gpu}, {All({})})->changes.at(0).removed, SizeIs(1));
}

// --- MIG -----------------------------------------------------------------------------------------

// A board that does not tell its profiles, as while MIG is off with older drivers.
mig::Gpu MigBoard() {
  mig::Gpu gpu{.position = 0, .pci = At("0000:41:00.0")};
  gpu.mode = base::Observed<gpu::MigMode>::Present({false, false});
  return gpu;
}

TEST(VgpuMigTest, ProfilesOfTypes) {
  RecordProperty("holds", "vgpu-device-manager.md #8");
  EXPECT_THAT(MigDevicesFor({{"A100-1-5C", 4}}, MigBoard()).value(),
              ElementsAre(Pair("1g.5gb", 4)));
  EXPECT_THAT(MigDevicesFor({{"A100-1-5C", 2}, {"A100-2-10C", 1}}, MigBoard()).value(),
              ElementsAre(Pair("1g.5gb", 2), Pair("2g.10gb", 1)));
  // Upstream keeps one of the two counts: section 9, weakness 11.
  EXPECT_THAT(MigDevicesFor({{"A100-1-5C", 2}, {"A100-1-5Q", 1}}, MigBoard()).value(),
              ElementsAre(Pair("1g.5gb", 3)));
}

TEST(VgpuMigTest, AttributesOfTypes) {
  RecordProperty("holds", "vgpu-device-manager.md #9");
  const auto profile = [](const std::string& type) {
    return MigDevicesFor({{type, 1}}, MigBoard()).value().begin()->first;
  };
  EXPECT_EQ(profile("A100-1-5CME"), "1g.5gb+me");
  EXPECT_EQ(profile("A100-1-5CNOME"), "1g.5gb-me");
  EXPECT_EQ(profile("A100-1-5CMEALL"), "1g.5gb+me.all");
  EXPECT_EQ(profile("A100-1-5CGFX"), "1g.5gb+gfx");
}

TEST(VgpuMigTest, TimeSlicedOnesSwitchMigOff) {
  RecordProperty("holds", "vgpu-device-manager.md #10");
  Gpu gpu = A16();
  const auto derived = ToMigConfig({gpu}, {MigBoard()}, {All({{"A100-40C", 1}})});
  ASSERT_TRUE(derived) << derived.error().ToString();
  ASSERT_THAT(*derived, SizeIs(1));
  EXPECT_FALSE(derived->at(0).mig_enabled);
  EXPECT_THAT(derived->at(0).mig_devices, IsEmpty());
  EXPECT_THAT(MigDevicesFor({{"InvalidType", 1}}, MigBoard()).error().message,
              StartsWith("failed to parse vGPU type InvalidType:"));
  EXPECT_THAT(*ToMigConfig({gpu}, {MigBoard()}, {}), IsEmpty());
  EXPECT_FALSE(WantsMig({gpu}, {All({{"A100-40C", 1}})}));
  EXPECT_TRUE(WantsMig({gpu}, {All({{"A100-1-5C", 1}})}));
}

// The profiles that matter of an RTX PRO 6000: 1g.24gb four times, 2g.48gb twice.
mig::Gpu RtxPro6000() {
  mig::Gpu gpu = MigBoard();
  gpu.memory_bytes = 96ULL << 30;
  gpu.profiles = base::Observed<std::vector<mig::Profile>>::Present(
      {{.index = 0, .id = 19, .count = 4, .memory_mib = 24 << 10},
       {.index = 1, .id = 14, .count = 2, .memory_mib = 48 << 10}});
  return gpu;
}

TEST(VgpuMigTest, SmallOnesShareAGpuInstance) {
  const auto devices = [](Counts counts) { return MigDevicesFor(counts, RtxPro6000()).value(); };
  EXPECT_THAT(devices({{"DC-1-24Q", 4}}), ElementsAre(Pair("1g.24gb", 4)));
  EXPECT_THAT(devices({{"DC-1-2Q", 48}}), ElementsAre(Pair("1g.24gb", 4)));
  EXPECT_THAT(devices({{"DC-1-3Q", 9}}), ElementsAre(Pair("1g.24gb", 2)));
  EXPECT_THAT(devices({{"DC-2-12Q", 8}}), ElementsAre(Pair("2g.48gb", 2)));
  // No profile has room for it: named as upstream does, and refused when the geometry is planned.
  EXPECT_THAT(devices({{"DC-1-32Q", 1}}), ElementsAre(Pair("1g.32gb", 1)));
}

TEST(VgpuMigTest, BoardsWithoutMigArePassedOver) {
  mig::Gpu plain = MigBoard();
  plain.mode = base::Observed<gpu::MigMode>::Missing();
  EXPECT_THAT(*ToMigConfig({A16()}, {plain}, {All({{"A16-8Q", 1}})}), IsEmpty());
  EXPECT_EQ(ToMigConfig({A16()}, {plain}, {All({{"A16-1-8Q", 1}})}).error().reason,
            "NotMigCapable");
}

}  // namespace
}  // namespace pitcrew::node::vgpu
