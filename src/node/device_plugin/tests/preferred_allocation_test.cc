#include "node/device_plugin/preferred_allocation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "node/device_plugin/partition.h"
#include "support_inventory.h"

namespace pitcrew::node::device_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<OfferedDevice> Gpus(int count) {
  std::vector<OfferedDevice> devices;
  for (int i = 0; i < count; ++i) {
    OfferedDevice device;
    device.id = device.uuid = device.gpu_uuid = device.index = std::to_string(i);
    devices.push_back(device);
  }
  return devices;
}

std::vector<OfferedDevice> Replicas(int gpus, int replicas) {
  std::vector<OfferedDevice> devices;
  for (const auto& gpu : Gpus(gpus)) {
    for (int n = 0; n < replicas; ++n) {
      auto device = gpu;
      device.id = fmt::format("{}::{}", gpu.uuid, n);
      devices.push_back(device);
    }
  }
  return devices;
}

// Every ordered pair of `count` GPUs.
template <class Describe>
LinkScores Links(unsigned count, Describe describe) {
  gpu::Topology topology;
  for (unsigned a = 0; a < count; ++a) {
    for (unsigned b = 0; b < count; ++b) {
      if (a != b) topology.connections.push_back(describe(a, b));
    }
  }
  return LinkScores(topology);
}

LinkScores TwoSwitches() {
  return Links(8, [](unsigned a, unsigned b) {
    const bool together = a / 4 == b / 4;
    return gpu::Connection{
        .a = a,
        .b = b,
        .level = together ? gpu::TopologyLevel::kSingle : gpu::TopologyLevel::kSystem,
        .nvlinks = 0};
  });
}

std::vector<std::string> Aligned(const LinkScores& scores, std::vector<std::string> available,
                                 std::vector<std::string> required, int size) {
  const auto chosen =
      Prefer(Gpus(8),
             {.available = std::move(available), .must_include = std::move(required), .size = size},
             scores, SharedAllocation::kDistributed);
  EXPECT_TRUE(chosen.has_value()) << chosen.error().ToString();
  return chosen.value_or(std::vector<std::string>());
}

TEST(AlignedAllocation, TwoPcieSwitches) {
  RecordProperty("holds", "device-plugin.md #38");
  const auto scores = TwoSwitches();
  const auto all = Ids(Gpus(8));
  for (int size = 1; size <= 8; ++size) {
    const std::vector<std::string> first(all.begin(), all.begin() + size);
    EXPECT_EQ(Aligned(scores, all, {}, size), first) << size;
  }
  EXPECT_THAT(Aligned(scores, all, {"5"}, 2), ElementsAre("4", "5"));
  EXPECT_THAT(Aligned(scores, all, {"5", "0"}, 3), ElementsAre("0", "1", "5"));
  EXPECT_THAT(Aligned(scores, all, {"5"}, 1), ElementsAre("5"));
  EXPECT_THAT(Aligned(scores, all, {}, 9), IsEmpty());
  EXPECT_THAT(Aligned(scores, all, {}, 0), IsEmpty());
  EXPECT_THAT(Aligned(scores, all, {"1", "2", "3"}, 2), IsEmpty());
}

TEST(AlignedAllocation, NvlinksAcross) {
  RecordProperty("holds", "device-plugin.md #39");
  const auto scores = Links(8, [](unsigned a, unsigned b) {
    return gpu::Connection{
        .a = a, .b = b, .level = gpu::TopologyLevel::kSystem, .nvlinks = a + b == 7 ? 2U : 0U};
  });
  EXPECT_THAT(Aligned(scores, Ids(Gpus(8)), {}, 2), ElementsAre("0", "7"));
  EXPECT_THAT(Aligned(scores, {"2", "3", "4", "5", "6", "7"}, {}, 2), ElementsAre("2", "5"));
}

TEST(AlignedAllocation, TheSmallerRestIsNeverTheAnswer) {
  RecordProperty("holds", "device-plugin.md #40");
  const auto scores = Links(7, [](unsigned a, unsigned b) {
    gpu::Connection connection{.a = a, .b = b, .level = gpu::TopologyLevel::kSystem, .nvlinks = 0};
    if (a < 3 && b < 3) connection.nvlinks = 12;
    if (a >= 3 && b >= 3) connection.level = gpu::TopologyLevel::kInternal;
    return connection;
  });
  EXPECT_THAT(Aligned(scores, {"0", "1", "2", "3", "4", "5", "6"}, {}, 4),
              ElementsAre("3", "4", "5", "6"));
}

// Eight GPUs with a bridge between each two: sets of three and one smaller rest, although four
// pairs would have more bridges in all.
TEST(AlignedAllocation, ThereIsOneSmallerRestOnly) {
  const auto scores = Links(8, [](unsigned a, unsigned b) {
    return gpu::Connection{
        .a = a, .b = b, .level = gpu::TopologyLevel::kSystem, .nvlinks = a / 2 == b / 2 ? 12U : 0U};
  });
  EXPECT_THAT(Aligned(scores, Ids(Gpus(8)), {}, 3), ElementsAre("0", "1", "2"));
}

TEST(SpreadAllocation, UnknownDevicesArePassedOver) {  // device-plugin.md section 15.2
  const auto devices = Replicas(2, 2);
  const auto chosen =
      Prefer(devices, {.available = {"0::0", "gone", "1::0"}, .must_include = {}, .size = 2},
             LinkScores(), SharedAllocation::kDistributed);
  ASSERT_TRUE(chosen.has_value()) << chosen.error().ToString();
  EXPECT_THAT(*chosen, UnorderedElementsAre("0::0", "1::0"));
  const auto too_few =
      Prefer(devices, {.available = {"0::0", "gone"}, .must_include = {}, .size = 2}, LinkScores(),
             SharedAllocation::kDistributed);
  ASSERT_FALSE(too_few.has_value());
  EXPECT_EQ(too_few.error().reason, "TooFewDevices");
}

TEST(AlignedAllocation, UnknownDevicesAreAnError) {  // device-plugin.md section 15.3
  const auto chosen = Prefer(Gpus(2), {.available = {"0", "x"}, .must_include = {}, .size = 1},
                             LinkScores(), SharedAllocation::kPacked);
  ASSERT_FALSE(chosen.has_value());
  EXPECT_EQ(chosen.error().reason, "UnknownDevice");
}

TEST(AlignedAllocation, WholeGpusIgnoreThePolicy) {
  RecordProperty("holds", "device-plugin.md #37");
  const auto scores = TwoSwitches();
  for (const auto policy : {SharedAllocation::kDistributed, SharedAllocation::kPacked}) {
    EXPECT_THAT(*Prefer(Gpus(8), {.available = {"1", "4", "5"}, .must_include = {}, .size = 2},
                        scores, policy),
                ElementsAre("4", "5"));
  }
}

TEST(AlignedAllocation, SixteenGpusTakeEverySize) {
  PartitionProblem problem{.size = 0, .scores = {}, .required = {3}};
  problem.scores.assign(16, std::vector<int>(16, 10));
  for (std::size_t size = 1; size <= 16; ++size) {
    problem.size = size;
    const auto set = BestSet(problem);
    EXPECT_THAT(set, SizeIs(size));
    EXPECT_TRUE(std::ranges::is_sorted(set));
    EXPECT_NE(std::ranges::find(set, 3U), set.end());
  }
}

TEST(AlignedAllocation, MoreGpusThanAreWeighedStillGetASet) {
  PartitionProblem problem{.size = 5, .scores = {}, .required = {20}};
  problem.scores.assign(32, std::vector<int>(32, 10));
  problem.scores[20][31] = problem.scores[31][20] = 50;
  const auto set = BestSet(problem);
  EXPECT_THAT(set, ElementsAre(0U, 1U, 2U, 20U, 31U)) << "of equals the first";
}

// How many of the chosen replicas each GPU has, most first.
std::vector<int> Loads(int gpus, int replicas, int size, SharedAllocation policy) {
  const auto devices = Replicas(gpus, replicas);
  const auto chosen =
      Prefer(devices, {.available = Ids(devices), .must_include = {}, .size = size}, {}, policy);
  EXPECT_TRUE(chosen.has_value());
  std::map<std::string, int> counts;
  for (const auto& id : chosen.value_or(std::vector<std::string>())) {
    ++counts[id.substr(0, id.find("::"))];
  }
  std::vector<int> loads;
  for (const auto& [gpu, count] : counts) loads.push_back(count);
  std::ranges::sort(loads, std::greater());
  return loads;
}

TEST(SharedAllocationPolicy, OnlyAllocatedCountsMatter) {
  RecordProperty("holds", "device-plugin.md #36");
  // GPU 0 has eight replicas, of which two are taken; GPU 1 has two, of which one is taken.
  auto devices = Replicas(2, 8);
  devices.resize(10);
  const std::vector<std::string> available = {"0::2", "0::3", "0::4", "0::5",
                                              "0::6", "0::7", "1::1"};
  const rpc::PreferredRequest request{.available = available, .must_include = {}, .size = 1};
  EXPECT_THAT(*Prefer(devices, request, {}, SharedAllocation::kDistributed), ElementsAre("1::1"));
  EXPECT_THAT(*Prefer(devices, request, {}, SharedAllocation::kPacked), ElementsAre("0::2"));
}

TEST(SharedAllocationPolicy, Distributed) {
  RecordProperty("holds", "device-plugin.md #34");
  EXPECT_THAT(Loads(2, 4, 2, SharedAllocation::kDistributed), ElementsAre(1, 1));
  EXPECT_THAT(Loads(3, 2, 3, SharedAllocation::kDistributed), ElementsAre(1, 1, 1));
  EXPECT_THAT(Loads(2, 4, 4, SharedAllocation::kDistributed), ElementsAre(2, 2));
  const auto devices = Replicas(1, 2);
  const auto chosen = Prefer(devices, {.available = Ids(devices), .must_include = {}, .size = 5},
                             {}, SharedAllocation::kDistributed);
  ASSERT_FALSE(chosen.has_value());
  EXPECT_EQ(chosen.error().reason, "TooFewDevices");
}

TEST(SharedAllocationPolicy, Packed) {
  RecordProperty("holds", "device-plugin.md #35");
  EXPECT_THAT(Loads(2, 4, 2, SharedAllocation::kPacked), ElementsAre(2));
  EXPECT_THAT(Loads(2, 4, 4, SharedAllocation::kPacked), ElementsAre(4));
  EXPECT_THAT(Loads(2, 4, 5, SharedAllocation::kPacked), ElementsAre(4, 1));
  EXPECT_THAT(Loads(3, 2, 3, SharedAllocation::kPacked), ElementsAre(2, 1));
}

TEST(SharedAllocationPolicy, TakenReplicasCount) {
  RecordProperty("holds", "device-plugin.md #33");
  const auto chosen =
      Prefer(Replicas(2, 2), {.available = {"0::0", "0::1", "1::1"}, .must_include = {}, .size = 2},
             {}, SharedAllocation::kDistributed);
  ASSERT_TRUE(chosen.has_value());
  EXPECT_THAT(*chosen, UnorderedElementsAre(::testing::StartsWith("0::"), "1::1"));
}

TEST(SharedAllocationPolicy, RequiredComeFirst) {  // device-plugin.md section 15.2
  const auto devices = Replicas(2, 2);
  EXPECT_THAT(*Prefer(devices, {.available = Ids(devices), .must_include = {"1::1"}, .size = 2}, {},
                      SharedAllocation::kDistributed),
              ElementsAre("1::1", "0::0"));
}

TEST(SharedAllocationPolicy, MigDevicesAreNeverAligned) {
  RecordProperty("holds", "device-plugin.md #37");
  auto devices = Gpus(2);
  for (auto& device : devices) device.gpu_instance = device.compute_instance = 0;
  EXPECT_FALSE(Prefer(devices, {.available = {"0"}, .must_include = {}, .size = 2}, {},
                      SharedAllocation::kDistributed)
                   .has_value());
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
