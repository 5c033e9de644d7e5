// Faults of GPUs as the library's callers see them: what the device plugin's health
// (device-plugin.md section 14) and the exporter (metrics-exporter.md sections 8 and 11) read.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "simulation/state/incidents.h"
#include "simulation/state/mig.h"
#include "simulation/state/readings.h"
#include "simulation/tests/support_readings.h"

namespace pitcrew::simulation {
namespace {

using Faults = ReadingNvml;

TEST_F(Faults, RemappedRowsWaitForAReset) {
  Start("gpus: [{profile: H100-80}]");
  const Device gpu = Gpu(0);
  Change_([](NodeState& node) { AddRemappedRows(node, 0, {1, 2, true, false}); });
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failure = 9;
  EXPECT_EQ(
      Call("nvmlDeviceGetRemappedRows", gpu, &correctable, &uncorrectable, &pending, &failure),
      kSuccess);
  EXPECT_EQ(correctable, 1u);
  EXPECT_EQ(uncorrectable, 2u);
  EXPECT_EQ(pending, 1u);
  EXPECT_EQ(failure, 0u);
  EXPECT_EQ(Number(gpu, field::kRemappedPending), 1u);
  EXPECT_EQ(Number(gpu, field::kGetGpuRecoveryAction), kRecoveryGpuReset);
  // An H100 has 2560 banks (public listing).
  RowRemapperHistogram histogram{};
  EXPECT_EQ(Call("nvmlDeviceGetRowRemapperHistogram", gpu, &histogram), kSuccess);
  EXPECT_EQ(histogram.max + histogram.high + histogram.partial + histogram.low + histogram.none,
            2560u);
  Change_([](NodeState& node) { ResetGpu(node.gpus[0]); });
  EXPECT_EQ(Number(gpu, field::kRemappedPending), 0u);
  EXPECT_EQ(Number(gpu, field::kGetGpuRecoveryAction), kRecoveryNone);
  EXPECT_EQ(Number(gpu, field::kRemappedUncorrectable), 2u) << "rows stay remapped";
}

TEST_F(Faults, AFailedRemappingOutlivesAReset) {
  Start("gpus: [{profile: H100-80}]");
  Change_([](NodeState& node) {
    AddRemappedRows(node, 0, {0, 1, false, true});
    ResetGpu(node.gpus[0]);
  });
  EXPECT_EQ(Number(Gpu(0), field::kRemappedFailure), 1u);
  RowRemapperHistogram histogram{};
  EXPECT_EQ(Call("nvmlDeviceGetRowRemapperHistogram", Gpu(0), &histogram), kSuccess);
  EXPECT_EQ(histogram.none, 1u);
}

TEST_F(Faults, OlderBoardsRetirePages) {
  Start("gpus: [{profile: T4}]");
  Change_([](NodeState& node) { AddRemappedRows(node, 0, {2, 1, true, false}); });
  unsigned count = 0;
  EXPECT_EQ(Call("nvmlDeviceGetRetiredPages", Gpu(0), 0u, &count,
                 static_cast<unsigned long long*>(nullptr)),
            kSuccess);
  EXPECT_EQ(count, 2u);
  unsigned long long addresses[2] = {};
  EXPECT_EQ(Call("nvmlDeviceGetRetiredPages", Gpu(0), 0u, &count, addresses), kSuccess);
  EXPECT_NE(addresses[0], addresses[1]);
  EXPECT_EQ(Number(Gpu(0), field::kRetiredDbe), 1u);
  unsigned pending = 0;
  EXPECT_EQ(Call("nvmlDeviceGetRetiredPagesPendingStatus", Gpu(0), &pending), kSuccess);
  EXPECT_EQ(pending, 1u);
}

TEST_F(Faults, EccErrorsAreCountedInFields) {
  Start("gpus: [{profile: H100-80}]");
  const Device gpu = Gpu(0);
  Change_([](NodeState& node) {
    AddEccErrors(node, 0, true, 2);
    AddEccErrors(node, 0, false, 5);
  });
  EXPECT_EQ(Number(gpu, field::kEccDbeVolatileTotal), 2u);
  EXPECT_EQ(Number(gpu, field::kEccSbeAggregateTotal), 5u);
  // Seen of an H200: places are told by nvmlDeviceGetMemoryErrorCounter alone.
  EXPECT_EQ(FieldReturn(gpu, field::kEccDbeAggregateDevice), kNotSupported);
  EXPECT_EQ(FieldReturn(gpu, field::kEccDbeVolatileCbu), kNotSupported);
  constexpr unsigned kDeviceMemory = 2;
  unsigned long long count = 0;
  EXPECT_EQ(Call("nvmlDeviceGetMemoryErrorCounter", gpu, 1u, 1u, kDeviceMemory, &count), kSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(Number(gpu, field::kEccCurrent), 1u);
  Change_([](NodeState& node) { ResetGpu(node.gpus[0]); });
  EXPECT_EQ(Number(gpu, field::kEccDbeVolatileTotal), 0u);
  EXPECT_EQ(Number(gpu, field::kEccDbeAggregateTotal), 2u);
}

TEST_F(Faults, HeldDownClocksAreCountedAndFelt) {
  Start("gpus: [{profile: H100-80, load: 100}]");
  const Device gpu = Gpu(0);
  unsigned before = 0;
  EXPECT_EQ(Call("nvmlDeviceGetClock", gpu, kClockSm, 0u, &before), kSuccess);
  Change_([](NodeState& node) {
    SetThrottleReasons(node.gpus[0], kClocksHwThermalSlowdown, RealtimeNow());
  });
  LetPass(std::chrono::seconds(3));
  unsigned long long reasons = 0;
  EXPECT_EQ(Call("nvmlDeviceGetCurrentClocksEventReasons", gpu, &reasons), kSuccess);
  EXPECT_EQ(reasons, kClocksHwThermalSlowdown);
  unsigned after = 0;
  EXPECT_EQ(Call("nvmlDeviceGetClock", gpu, kClockSm, 0u, &after), kSuccess);
  EXPECT_LT(after, before * 6 / 10);
  unsigned celsius = 0;
  EXPECT_EQ(Call("nvmlDeviceGetTemperature", gpu, 0u, &celsius), kSuccess);
  EXPECT_GE(celsius, 89u) << "hot";
  EXPECT_GE(Number(gpu, field::kClocksEventReasonHwThermSlowdown), 3'000'000'000u);
  EXPECT_EQ(Number(gpu, field::kPerfPolicyPower), 0u);
  ViolationTime violation{};
  EXPECT_EQ(Call("nvmlDeviceGetViolationStatus", gpu, 1u, &violation), kSuccess);
  EXPECT_GE(violation.violation_time, 3'000'000'000u);
  Change_([](NodeState& node) { SetThrottleReasons(node.gpus[0], 0, RealtimeNow()); });
  const auto counted = Number(gpu, field::kPerfPolicyThermal);
  EXPECT_EQ(Number(gpu, field::kPerfPolicyThermal), counted) << "the time stands still";
}

TEST_F(Faults, LinksCountErrorsAndGoDown) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const Device gpu = Gpu(0);
  Change_([](NodeState& node) {
    AddLinkErrors(node, 0, 3, 0, 7);
    AddLinkErrors(node, 0, 3, 2, 4);
    SetLinkDown(node, 0, 3, true);
  });
  unsigned long long errors = 0;
  EXPECT_EQ(Call("nvmlDeviceGetNvLinkErrorCounter", gpu, 3u, 0u, &errors), kSuccess);
  EXPECT_EQ(errors, 7u);
  EXPECT_EQ(Number(gpu, field::kNvLinkErrorDlReplay, 3), 7u);
  EXPECT_EQ(Number(gpu, field::kNvLinkCrcFlitErrors + 3), 4u);
  EXPECT_EQ(Number(gpu, field::kNvLinkCrcFlitErrors + 6), 4u) << "the total";
  EXPECT_EQ(Number(gpu, field::kNvLinkGetState, 3), 0u);
  EXPECT_EQ(Number(gpu, field::kNvLinkGetState, 4), 1u);
  unsigned state = 9;
  EXPECT_EQ(Call("nvmlDeviceGetNvLinkState", gpu, 3u, &state), kSuccess);
  EXPECT_EQ(state, 0u);
  EXPECT_EQ(Call("nvmlDeviceResetNvLinkErrorCounters", gpu, 3u), kSuccess);
  EXPECT_EQ(Number(gpu, field::kNvLinkErrorDlReplay, 3), 0u);
}

// A hanging GPU holds up its own callers, and nobody else.
TEST_F(Faults, AHangingGpuHangsAlone) {
  Start("gpus: [{profile: T4, count: 2}]");
  const Device hanging = Gpu(0);
  const Device other = Gpu(1);
  Change_([](NodeState& node) { node.gpus[0].slow_milliseconds = kHangs; });
  Return result = kUnknown;
  unsigned celsius = 0;
  std::thread caller([&] { result = Call("nvmlDeviceGetTemperature", hanging, 0u, &celsius); });
  unsigned mine = 0;
  EXPECT_EQ(Call("nvmlDeviceGetTemperature", other, 0u, &mine), kSuccess);
  Change_([](NodeState& node) { RestoreGpu(node.gpus[0]); });
  caller.join();
  EXPECT_EQ(result, kSuccess);
}

TEST_F(Faults, ADriverHangsAsAWhole) {
  Start("gpus: [{profile: T4, count: 2}]");
  const Device gpu = Gpu(1);
  EventSet set = nullptr;
  ASSERT_EQ(Call("nvmlEventSetCreate", &set), kSuccess);
  Change_([](NodeState& node) { node.driver_hangs = 1; });
  std::atomic<int> returned = 0;
  const auto start = [&](auto call) {
    return std::thread([&returned, call] {
      call();
      ++returned;
    });
  };
  std::array<Return, 4> results{};
  results.fill(kUnknown);
  unsigned count = 0;
  unsigned celsius = 0;
  EventData data{};
  std::array callers = {
      start([&] { results[0] = Call("nvmlDeviceGetCount_v2", &count); }),
      start([&] { results[1] = Call("nvmlDeviceGetTemperature", gpu, 0u, &celsius); }),
      start([&] { results[2] = Call("nvmlEventSetWait_v2", set, &data, 1u); }),
      start([&] { results[3] = Call("nvmlInit_v2"); })};
  // Another change of the state wakes nobody for good.
  Change_([](NodeState& node) { node.gpus[0].load = 10; });
  EXPECT_EQ(returned, 0);
  Change_([](NodeState& node) { node.driver_hangs = 0; });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(results, (std::array<Return, 4>{kSuccess, kSuccess, kTimeout, kSuccess}));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(Call("nvmlShutdown"), kSuccess);
}

TEST_F(Faults, AFabricSaysHowItIs) {
  Start(
      "gpus: [{profile: B200, fabric: {cluster: 00000000-0000-0000-0000-0000000000aa, clique: 0}},"
      " {profile: H100-80}]");
  GpuFabricInfoV3 info{};
  info.v2.version = kGpuFabricInfoV3;
  ASSERT_EQ(Call("nvmlDeviceGetGpuFabricInfoV", Gpu(0), &info), kSuccess);
  EXPECT_EQ(info.health_summary, fabric_health::kHealthy);
  EXPECT_EQ(info.v2.health_mask, 0x1aau);
  Change_([](NodeState& node) { node.gpus[0].fabric_health = fabric_health::kUnhealthy; });
  ASSERT_EQ(Call("nvmlDeviceGetGpuFabricInfoV", Gpu(0), &info), kSuccess);
  EXPECT_EQ(info.health_summary, fabric_health::kUnhealthy);
  EXPECT_EQ(info.v2.health_mask, 0x19au);
  PlatformInfoV2 place{};
  EXPECT_EQ(Call("nvmlDeviceGetPlatformInfo", Gpu(0), &place), kArgumentVersionMismatch);
  place.version = kPlatformInfoV2;
  EXPECT_EQ(Call("nvmlDeviceGetPlatformInfo", Gpu(0), &place), kSuccess);
  EXPECT_EQ(place.module_id, 1);
  place.version = kPlatformInfoV2;
  EXPECT_EQ(Call("nvmlDeviceGetPlatformInfo", Gpu(1), &place), kNotSupported) << "in no rack";
}

TEST_F(Faults, AGpuCanBeLostFromTheStart) {
  Start("gpus: [{profile: T4}, {profile: T4, faults: {lost: true}}, {profile: T4}]");
  unsigned count = 0;
  EXPECT_EQ(Call("nvmlDeviceGetCount_v2", &count), kSuccess);
  EXPECT_EQ(count, 3u);
  Device device = nullptr;
  EXPECT_EQ(Call("nvmlDeviceGetHandleByIndex_v2", 1u, &device), kGpuIsLost);
  EXPECT_EQ(Call("nvmlDeviceGetHandleByIndex_v2", 2u, &device), kSuccess);
  Change_([](NodeState& node) { RestoreGpu(node.gpus[1]); });
  EXPECT_EQ(Call("nvmlDeviceGetHandleByIndex_v2", 1u, &device), kSuccess);
}

}  // namespace
}  // namespace pitcrew::simulation
