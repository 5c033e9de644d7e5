#include "node/device_plugin/health.h"

#include <gtest/gtest.h>

namespace pitcrew::node::device_plugin {
namespace {

using TimePoint = base::SteadyClock::time_point;

constexpr TimePoint kStart{};

OfferedDevice Gpu(const std::string& uuid) {
  OfferedDevice device;
  device.id = device.uuid = device.gpu_uuid = uuid;
  return device;
}

OfferedDevice Mig(const std::string& gpu, unsigned gpu_instance, unsigned compute_instance) {
  auto device = Gpu(gpu);
  device.id = device.uuid = "MIG-" + gpu;
  device.gpu_instance = gpu_instance;
  device.compute_instance = compute_instance;
  return device;
}

nvml::Event Xid(std::string uuid, std::uint64_t xid) {
  return {.device_uuid = std::move(uuid), .type = nvml::EventType::kXid, .data = xid};
}

HealthState State() {
  HealthState state({});
  state.Watch({"GPU-a", "GPU-b"});
  return state;
}

nvml::Condition Asks(nvml::RecoveryAction action) {
  nvml::Condition condition;
  condition.recovery_action = action;
  return condition;
}

const nvml::Condition kFine = Asks(nvml::RecoveryAction::kNone);
// A driver that does not tell what a GPU needs.
const nvml::Condition kSaysNothing;
const base::Error kLost = base::Unavailable("GpuIsLost", "fallen off");
const base::Error kUnknown = base::Internal("NvmlUnknownError", "?");

TEST(Health, AnXidMarksItsGpuOnly) {
  RecordProperty("holds", "device-plugin.md #45");
  auto state = State();
  EXPECT_TRUE(state.OnEvent(Xid("GPU-a", 79), kStart));
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-b")));
  EXPECT_NE(state.ReasonOf("GPU-a").find("79"), std::string::npos);
  EXPECT_FALSE(state.OnEvent(Xid("GPU-a", 79), kStart)) << "the same again is no change";
}

TEST(Health, ApplicationErrorsChangeNothing) {
  RecordProperty("holds", "device-plugin.md #45");
  auto state = State();
  EXPECT_FALSE(state.OnEvent(Xid("GPU-a", 31), kStart));
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-a")));
}

TEST(Health, OtherEventsAndUnknownGpusAreIgnored) {  // device-plugin.md section 14
  auto state = State();
  EXPECT_FALSE(state.OnEvent(
      {.device_uuid = "GPU-a", .type = nvml::EventType::kDoubleBitEcc, .data = 79}, kStart));
  EXPECT_FALSE(state.OnEvent(Xid("GPU-z", 79), kStart));
  EXPECT_TRUE(state.Unfit().empty());
}

TEST(Health, EveryReplicaAndMigDeviceOfAGpuIsHit) {  // device-plugin.md section 22 number 5
  auto state = State();
  state.OnEvent(Xid("GPU-a", 48), kStart);
  auto replica = Gpu("GPU-a");
  replica.id = "GPU-a::3";
  EXPECT_FALSE(state.IsHealthy(replica));
  EXPECT_FALSE(state.IsHealthy(Mig("GPU-a", 1, 0)));
  EXPECT_FALSE(state.IsHealthy(Mig("GPU-a", 2, 0)));
}

TEST(Health, AnEventOfAMigDeviceHitsThatOneOnly) {  // device-plugin.md section 14
  auto state = State();
  auto event = Xid("GPU-a", 48);
  event.gpu_instance_id = 1;
  event.compute_instance_id = 0;
  state.OnEvent(event, kStart);
  EXPECT_FALSE(state.IsHealthy(Mig("GPU-a", 1, 0)));
  EXPECT_TRUE(state.IsHealthy(Mig("GPU-a", 2, 0)));
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
}

TEST(Health, AnXidOfNobodyMarksAllUntilTheyAnswer) {  // device-plugin.md section 14
  auto state = State();
  EXPECT_TRUE(state.OnEvent(Xid("", 79), kStart));
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-b")));
  EXPECT_TRUE(state.OnAnswer("GPU-a", kFine, kStart));
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-a")));
}

TEST(Health, AGpuOffTheBusIsBackWhenItAnswers) {  // pain 8
  auto state = State();
  state.OnEvent(Xid("GPU-a", 79), kStart);
  EXPECT_TRUE(state.OnSilence("GPU-a", kLost, kStart));
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
  EXPECT_TRUE(state.OnAnswer("GPU-a", kFine, kStart));
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-a")));
  EXPECT_TRUE(state.Unfit().empty());
}

TEST(Health, AContainedErrorPassesAfterAQuietTime) {  // pain 8
  auto state = State();
  state.OnEvent(Xid("GPU-a", 94), kStart);
  EXPECT_FALSE(state.OnAnswer("GPU-a", kFine, kStart + kQuietPeriod / 2));
  state.OnEvent(Xid("GPU-a", 94), kStart + kQuietPeriod / 2);
  EXPECT_FALSE(state.OnAnswer("GPU-a", kFine, kStart + kQuietPeriod));
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
  EXPECT_TRUE(state.OnAnswer("GPU-a", kFine, kStart + 2 * kQuietPeriod));
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-a")));
}

TEST(Health, WhatNeedsAResetEndsWithASeenReset) {  // pain 8
  auto state = State();
  state.OnEvent(Xid("GPU-a", 48), kStart);
  state.OnCondition("GPU-a", Asks(nvml::RecoveryAction::kResetGpu), kStart);
  EXPECT_NE(state.ReasonOf("GPU-a").find("double-bit ECC error"), std::string::npos);
  EXPECT_NE(state.ReasonOf("GPU-a").find("reset the GPU"), std::string::npos);
  // Neither time, nor answers, nor a probe that failed are a reset.
  state.OnAnswer("GPU-a", Asks(nvml::RecoveryAction::kResetGpu), kStart + 100 * kQuietPeriod);
  state.OnSilence("GPU-a", kUnknown, kStart);
  state.OnAnswer("GPU-a", Asks(nvml::RecoveryAction::kResetGpu), kStart);
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
  EXPECT_TRUE(state.OnAnswer("GPU-a", kFine, kStart));
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-a")));
}

TEST(Health, AnAnswerOfADriverThatTellsNothingIsNoReset) {
  auto state = State();
  state.OnEvent(Xid("GPU-a", 48), kStart);
  state.OnSilence("GPU-a", kUnknown, kStart);
  state.OnAnswer("GPU-a", kSaysNothing, kStart + 100 * kQuietPeriod);
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
  // One that was off the bus cannot come back without one.
  state.OnSilence("GPU-a", kLost, kStart);
  state.OnAnswer("GPU-a", kSaysNothing, kStart);
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-a")));
}

TEST(Health, RowsThatWereRemappedTellOfAReset) {
  auto state = State();
  nvml::Condition pending;
  pending.remap_pending = true;
  nvml::Condition remapped;
  remapped.remap_pending = false;
  state.OnEvent(Xid("GPU-a", 95), kStart);
  state.OnCondition("GPU-a", pending, kStart);
  EXPECT_FALSE(state.OnAnswer("GPU-a", pending, kStart));
  EXPECT_TRUE(state.OnAnswer("GPU-a", remapped, kStart));
  EXPECT_TRUE(state.IsHealthy(Gpu("GPU-a")));
}

TEST(Health, WhatTheDriverAsksForCountsWithoutAnXid) {
  auto state = State();
  EXPECT_TRUE(state.OnAnswer("GPU-a", Asks(nvml::RecoveryAction::kDrainAndReset), kStart));
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-a")));
  EXPECT_TRUE(state.OnAnswer("GPU-a", kFine, kStart));
  nvml::Condition worn_out;
  worn_out.remap_failed = true;
  EXPECT_TRUE(state.OnAnswer("GPU-b", worn_out, kStart));
  EXPECT_FALSE(state.OnAnswer("GPU-b", worn_out, kStart)) << "the same again is no change";
  EXPECT_FALSE(state.IsHealthy(Gpu("GPU-b")));
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
