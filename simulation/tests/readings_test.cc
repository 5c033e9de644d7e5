#include "simulation/state/readings.h"

#include <gtest/gtest.h>

#include "simulation/description/profiles.h"
#include "simulation/state/identity.h"
#include "simulation/state/incidents.h"
#include "simulation/state/links.h"
#include "simulation/testing/test_node.h"

namespace pitcrew::simulation {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Readings, AnIdleGpuIsIdle) {
  const GpuState gpu = *LoadProfile("H100-80", {});
  for (std::int64_t second = 0; second < 200; ++second) {
    const auto now = second * kSecond;
    EXPECT_EQ(GpuUtilization(gpu, now), 0u);
    EXPECT_EQ(SmClock(gpu, now), 345u);
    EXPECT_NEAR(Temperature(gpu, now), 27, 2);
    EXPECT_NEAR(PowerUsage(gpu, now), 70'000, 2'000);
  }
}

TEST(Readings, ABusyGpuIsHotterAndStaysWithinItsLimits) {
  GpuState gpu = *LoadProfile("L4", {});
  SetLoad(gpu, 100, 0);
  EXPECT_EQ(PerformanceState(gpu), 0u);
  bool moved = false;
  for (std::int64_t second = 0; second < 200; ++second) {
    const auto now = second * kSecond;
    EXPECT_GE(GpuUtilization(gpu, now), 90u);
    EXPECT_LE(GpuUtilization(gpu, now), 100u);
    EXPECT_GT(Temperature(gpu, now), 65u);
    EXPECT_LE(PowerUsage(gpu, now), 72'000u);
    EXPECT_LE(SmClock(gpu, now), 2040u);
    moved = moved || Temperature(gpu, now) != Temperature(gpu, 0);
  }
  EXPECT_TRUE(moved);
}

TEST(Readings, TheSameMomentReadsTheSame) {
  const GpuState gpu = *LoadProfile("T4", {});
  EXPECT_EQ(PowerUsage(gpu, 123 * kSecond), PowerUsage(gpu, 123 * kSecond));
}

TEST(Readings, EnergyNeverFalls) {
  GpuState gpu = *LoadProfile("A10", {});
  gpu.energy_since = 0;
  std::uint64_t last = 0;
  for (std::int64_t second = 1; second < 100; ++second) {
    if (second % 10 == 0) SetLoad(gpu, second % 20 == 0 ? 100 : 0, second * kSecond);
    const auto energy = Energy(gpu, second * kSecond);
    EXPECT_GT(energy, last);
    last = energy;
  }
}

TEST(Incidents, ALostGpuReportsXid79Once) {
  TestNode made("gpus: [{profile: T4}]");
  auto node = std::make_unique<NodeState>(*made.file().Snapshot());
  LoseGpu(*node, 0);
  LoseGpu(*node, 0);
  EXPECT_EQ(node->last_event, 1u);
  EXPECT_EQ(node->events[1].data, 79u);
  EXPECT_EQ(node->events[1].type, 8u);
  RestoreGpu(node->gpus[0]);
  EXPECT_EQ(node->gpus[0].lost, 0u);
}

TEST(Incidents, UncorrectedErrorsCountAndReport) {
  TestNode made("gpus: [{profile: T4}]");
  auto node = std::make_unique<NodeState>(*made.file().Snapshot());
  AddEccErrors(*node, 0, true, 3);
  EXPECT_EQ(node->gpus[0].ecc_uncorrected_volatile, 3u);
  EXPECT_EQ(node->gpus[0].ecc_uncorrected_aggregate, 3u);
  EXPECT_EQ(node->events[1].type, 2u);
  EXPECT_EQ(node->events[2].data, 48u);
}

TEST(Incidents, ProcessesFillTheMemory) {
  TestNode made("gpus: [{profile: T4}]");
  GpuState gpu = made.file().Snapshot()->gpus[0];
  EXPECT_TRUE(AddProcess(gpu, 7, "a", 100, false));
  EXPECT_TRUE(AddProcess(gpu, 7, "a", 300, false));
  EXPECT_EQ(ProcessMemory(gpu), 300u);
  for (std::uint32_t pid = 100; pid < 100 + kMaxProcesses - 1; ++pid) {
    EXPECT_TRUE(AddProcess(gpu, pid, "b", 1, false));
  }
  EXPECT_FALSE(AddProcess(gpu, 999, "c", 1, false));
  EXPECT_TRUE(RemoveProcess(gpu, 7));
  EXPECT_FALSE(RemoveProcess(gpu, 7));
}

// feature-discovery.md section 18 item 5: symmetric.
TEST(Links, DirectLinksCountTheSameInBothDirections) {
  TestNode made("gpus: [{profile: A100-40, count: 4, nvlink: {peers: direct, links: 12}}]");
  const auto node = made.file().Snapshot();
  unsigned counts[4][4] = {};
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t link = 0; link < 12; ++link) {
      const auto end = FarEnd(*node, a, link);
      ASSERT_EQ(end.kind, LinkEnd::Kind::kGpu);
      for (std::uint32_t b = 0; b < 4; ++b)
        counts[a][b] += end.address.bus == node->gpus[b].pci_bus;
    }
  }
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) EXPECT_EQ(counts[a][b], a == b ? 0u : 4u);
  }
}

TEST(Links, ASwitchIsNoGpu) {
  TestNode made("gpus: [{profile: H100-80, count: 2}]");
  const auto node = made.file().Snapshot();
  EXPECT_EQ(FarEnd(*node, 0, 0).kind, LinkEnd::Kind::kSwitch);
  EXPECT_EQ(FarEnd(*node, 0, 18).kind, LinkEnd::Kind::kNothing);
}

TEST(Links, CommonAncestors) {
  TestNode made(
      "gpus: [{profile: T4, count: 2, pcie_switch: 3, numa: 0}, {profile: T4, numa: 0}, "
      "{profile: T4, numa: 1}]");
  const auto node = made.file().Snapshot();
  EXPECT_EQ(CommonAncestor(*node, 0, 0), gpu::TopologyLevel::kInternal);
  EXPECT_EQ(CommonAncestor(*node, 0, 1), gpu::TopologyLevel::kSingle);
  EXPECT_EQ(CommonAncestor(*node, 1, 2), gpu::TopologyLevel::kNode);
  EXPECT_EQ(CommonAncestor(*node, 2, 3), gpu::TopologyLevel::kSystem);
  EXPECT_EQ(CommonAncestor(*node, 3, 2), gpu::TopologyLevel::kSystem);
}

TEST(Identity, LooksLikeAUuidAndASerial) {
  const std::string uuid = NamedUuid("node/gpu/0");
  ASSERT_EQ(uuid.size(), 36u);
  EXPECT_EQ(uuid[14], '5');
  EXPECT_EQ(NamedSerial("node/gpu/0").size(), 13u);
  EXPECT_NE(NamedUuid("node/gpu/1"), uuid);
}

}  // namespace
}  // namespace pitcrew::simulation
