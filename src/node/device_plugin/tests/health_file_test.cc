#include "node/device_plugin/health_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::device_plugin {
namespace {

using ::testing::IsEmpty;

const DriverInstance kInstance{.boot_id = "boot", .module_id = 7};

class HealthFileTest : public ::testing::Test {
 protected:
  // GPU-a has reported this XID, and the driver says what follows from it.
  static std::map<std::string, GpuHealth> Known(std::uint64_t xid,
                                                std::optional<nvml::RecoveryAction> action) {
    HealthState state({});
    state.Watch({"GPU-a"});
    const auto now = base::SteadyClock::now();
    state.OnEvent({.device_uuid = "GPU-a", .type = nvml::EventType::kXid, .data = xid}, now);
    nvml::Condition condition;
    condition.recovery_action = action;
    state.OnCondition("GPU-a", condition, now);
    return state.known();
  }
  [[nodiscard]] std::string ReasonAfter(const DriverInstance& instance) const {
    HealthState state({});
    state.Restore(*HealthFile(path_, instance).Load());
    return state.ReasonOf("GPU-a");
  }

  test_support::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "health.json";
};

TEST_F(HealthFileTest, AnotherProcessKnowsTheSame) {
  HealthState before({});
  before.Restore(Known(48, nvml::RecoveryAction::kResetGpu));
  HealthFile file(path_, kInstance);
  ASSERT_TRUE(file.Save(before.known()));
  EXPECT_EQ(ReasonAfter(kInstance), before.ReasonOf("GPU-a"));
  EXPECT_NE(ReasonAfter(kInstance), "");
  // When the reset came in between, it is seen.
  HealthState after({});
  after.Restore(*HealthFile(path_, kInstance).Load());
  nvml::Condition fine;
  fine.recovery_action = nvml::RecoveryAction::kNone;
  EXPECT_TRUE(after.OnAnswer("GPU-a", fine, base::SteadyClock::now()));
  EXPECT_EQ(after.ReasonOf("GPU-a"), "");
  ASSERT_TRUE(file.Save(after.known()));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing is left to remember";
}

TEST_F(HealthFileTest, AnotherBootOrDriverHasResetTheGpus) {
  ASSERT_TRUE(HealthFile(path_, kInstance).Save(Known(48, nvml::RecoveryAction::kResetGpu)));
  EXPECT_EQ(ReasonAfter({.boot_id = "another", .module_id = 7}), "");
  EXPECT_EQ(ReasonAfter({.boot_id = "boot", .module_id = 8}), "");
}

TEST_F(HealthFileTest, WhatCannotBeSeenToEndIsForgotten) {
  ASSERT_TRUE(HealthFile(path_, kInstance).Save(Known(48, std::nullopt)));
  EXPECT_EQ(ReasonAfter(kInstance), "");
  ASSERT_TRUE(HealthFile(path_, kInstance).Save(Known(94, std::nullopt)));
  EXPECT_NE(ReasonAfter(kInstance), "") << "its quiet time is not over";
}

TEST_F(HealthFileTest, AMalformedFileIsAnError) {
  for (const auto* text :
       {"", "[]", "{}", R"({"version": 1, "bootId": "boot", "moduleId": 7})",
        R"({"version": 1, "bootId": "boot", "moduleId": 7, "gpus": {"a": 1}})"}) {
    ASSERT_TRUE(base::WriteFileAtomically(path_, text));
    EXPECT_FALSE(HealthFile(path_, kInstance).Load()) << text;
  }
  std::filesystem::remove(path_);
  EXPECT_THAT(*HealthFile(path_, kInstance).Load(), IsEmpty());
}

TEST_F(HealthFileTest, ADriverInstanceIsItsModule) {
  const auto sys = folder_.path() / "sys";
  const auto proc = folder_.path() / "proc";
  EXPECT_FALSE(DriverInstance::Read(proc, sys)) << "no boot id";
  ASSERT_TRUE(base::WriteFileAtomically(proc / "sys/kernel/random/boot_id", "1-2\n"));
  std::filesystem::create_directories(sys / "module/nvidia");
  std::filesystem::create_directories(sys / "module/later");
  const auto first = *DriverInstance::Read(proc, sys);
  EXPECT_EQ(first.boot_id, "1-2");
  EXPECT_EQ(first, *DriverInstance::Read(proc, sys));
  std::filesystem::rename(sys / "module/nvidia", sys / "module/gone");
  EXPECT_EQ(DriverInstance::Read(proc, sys)->module_id, 0U);
  std::filesystem::rename(sys / "module/later", sys / "module/nvidia");
  EXPECT_NE(first, *DriverInstance::Read(proc, sys));
  std::filesystem::remove(sys / "module/nvidia");
  std::filesystem::create_symlink("nvidia", sys / "module/nvidia");
  EXPECT_FALSE(DriverInstance::Read(proc, sys)) << "what cannot be looked at is not absent";
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
