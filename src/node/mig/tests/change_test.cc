// Changes that go through, that fail, and that are cut off.
#include "node/mig/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/journal_file.h"
#include "node/mig/journal.h"
#include "node/mig/plan.h"
#include "simulation/state/incidents.h"
#include "support_simulated.h"

namespace pitcrew::node::mig {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const ProfileCounts kBalanced = {{"1g.5gb", 2}, {"2g.10gb", 1}, {"3g.20gb", 1}};
const ProfileCounts kSmall = {{"1g.5gb", 7}};
const ProfileCounts kOff = {{"off", 1}};

class ChangeTest : public SimulatedMig {
 protected:
  void SetUp() override {
    options_.progress = [this](const Progress& progress) {
      steps_.push_back(std::to_string(progress.position) + " " +
                       std::string(ToString(progress.step)));
    };
  }
  // The simulation lets the n-th change of this process from now fail; it counts while it is
  // loaded.
  void Fail(const std::string& fault) {
    gpus_->Close();
    ::setenv("PITCREW_SIMULATION_MIG_FAULT", fault.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("PITCREW_SIMULATION_MIG_FAULT"); }
  [[nodiscard]] bool JournalLies() const { return WasCutOff(journal()).value(); }

  std::vector<std::string> steps_;
};

TEST_F(ChangeTest, GpusThatAreAsWantedAreNotTouched) {
  Start(
      "gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 7}}}, {profile: A100-40}]");
  const auto before = Serials().at(0);
  const auto outcome = ApplyToAll(kSmall);
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_THAT(outcome->plan.changes, ::testing::SizeIs(1));
  EXPECT_THAT(Counts(), Each(kSmall));
  EXPECT_EQ(Serials().at(0), before);
  EXPECT_THAT(steps_, ElementsAre("1 changing-mode", "1 creating", "1 done"));
  EXPECT_FALSE(JournalLies());
  steps_.clear();
  EXPECT_THAT(ApplyToAll(kSmall)->plan.changes, IsEmpty());
  EXPECT_THAT(steps_, IsEmpty());
}

TEST_F(ChangeTest, WhatCannotBeIsRefusedUntouched) {
  Start("gpus: [{profile: A100-40, count: 2, mig: {enabled: true, devices: {3g.20gb: 2}}}]");
  const auto before = Serials();
  EXPECT_EQ(ApplyToAll({{"1g.5gb", 8}}).error().reason, "DoesNotFit");
  EXPECT_EQ(ApplyToAll({{"1g.12gb", 1}}).error().reason, "NoSuchProfile");
  EXPECT_EQ(Serials(), before);
  EXPECT_THAT(steps_, IsEmpty());
}

TEST_F(ChangeTest, AGpuInUseIsNotTouchedAndNamed) {
  Start("gpus: [{profile: A100-40, count: 2, mig: {enabled: true, devices: {3g.20gb: 2}}}]");
  const auto before = Serials();
  ASSERT_TRUE(node_->file().Update([](simulation::NodeState& node) {
    return simulation::AddProcess(node.gpus[1], 4711, "/usr/bin/python3", 1 << 20, false,
                                  node.gpus[1].instances[0].id, 0);
  }));
  const auto applied = ApplyToAll(kSmall);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().reason, "InUse");
  EXPECT_THAT(applied.error().message, HasSubstr("GPU 1 (NVIDIA A100-SXM4-40GB"));
  EXPECT_THAT(applied.error().message, HasSubstr("used by python3 (4711)"));
  EXPECT_EQ(Serials(), before);
  EXPECT_FALSE(JournalLies());
}

TEST_F(ChangeTest, AFailureAtAnyStepGoesBack) {
  const std::vector<std::tuple<ProfileCounts, ProfileCounts, int>> transitions = {
      {kOff, kBalanced, 2}, {kSmall, kBalanced, 1}, {kBalanced, kOff, 1}};
  for (const auto& [from, to, gpus] : transitions) {
    bool failed = true;
    int steps = 0;
    for (int at = 1; failed; ++at) {
      ::unsetenv("PITCREW_SIMULATION_MIG_FAULT");
      Start("gpus: [{profile: A100-40, count: " + std::to_string(gpus) + "}]");
      ASSERT_TRUE(from == kOff ? ApplyToAll({}, false) : ApplyToAll(from));
      Fail("fail:" + std::to_string(at));
      const auto applied = to == kOff ? ApplyToAll({}, false) : ApplyToAll(to);
      failed = !applied;
      EXPECT_FALSE(JournalLies());
      if (!failed) {
        EXPECT_THAT(Counts(), Each(to));
        break;
      }
      ++steps;
      EXPECT_THAT(applied.error().message, HasSubstr("the MIG geometry before is back"));
      EXPECT_THAT(Counts(), Each(from)) << "step " << at;
    }
    EXPECT_GE(steps, 4);
  }
}

TEST_F(ChangeTest, WhereTheWayBackFailsTooTheNextRunGoesBack) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 7}}}]");
  Fail("fail-from:3");
  const auto applied = ApplyToAll(kBalanced);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().reason, "RollbackFailed");
  EXPECT_EQ(applied.error().code, base::Code::kUnavailable) << "for daemons: to be tried again";
  EXPECT_TRUE(JournalLies());
  EXPECT_THAT(Counts(), Not(Each(kSmall)));
  ::unsetenv("PITCREW_SIMULATION_MIG_FAULT");
  // Something impossible is asked for: what was before comes back all the same.
  const auto impossible = ApplyToAll({{"1g.5gb", 8}});
  EXPECT_EQ(impossible.error().reason, "DoesNotFit");
  EXPECT_THAT(Counts(), Each(kSmall));
  EXPECT_FALSE(JournalLies());
}

TEST_F(ChangeTest, AfterACutTheWayForwardKeepsTheFirstWayBack) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 7}}}]");
  Fail("fail-from:3");
  ASSERT_FALSE(ApplyToAll(kBalanced));
  // Forward, to something else, which fails at its first step.
  Fail("fail:1");
  ASSERT_FALSE(ApplyToAll({{"7g.40gb", 1}}));
  EXPECT_THAT(Counts(), Each(kSmall)) << "not the half-way state";
  ::unsetenv("PITCREW_SIMULATION_MIG_FAULT");
  ASSERT_TRUE(ApplyToAll({{"7g.40gb", 1}}));
  EXPECT_FALSE(JournalLies());
}

TEST_F(ChangeTest, RecoverGoesBackAndNothingToRecoverIsFine) {
  Start("gpus: [{profile: A100-40}]");
  EXPECT_TRUE(Recover(*gpus_, options_));
  Fail("fail-from:4");
  ASSERT_FALSE(ApplyToAll(kBalanced));
  ::unsetenv("PITCREW_SIMULATION_MIG_FAULT");
  const auto recovered = Recover(*gpus_, options_);
  ASSERT_TRUE(recovered) << recovered.error().ToString();
  EXPECT_THAT(Counts(), Each(kOff));
  EXPECT_FALSE(JournalLies());
}

TEST_F(ChangeTest, OneAtATime) {
  Start("gpus: [{profile: A100-40}]");
  const auto lock = base::JournalFile(journal(), "MIG geometry").Lock();
  ASSERT_TRUE(lock) << lock.error().ToString();
  EXPECT_EQ(ApplyToAll(kBalanced).error().reason, "ChangeInProgress");
  EXPECT_EQ(Recover(*gpus_, options_).error().reason, "ChangeInProgress");
  EXPECT_THAT(Counts(), Each(kOff));
}

TEST_F(ChangeTest, AHookThatFailsStopsBeforeTheChange) {
  Start("gpus: [{profile: A100-40}]");
  const base::Error no = base::Internal("HookFailed", "no");
  options_.before_modes = [&]() -> base::Status { return base::Fail(no); };
  EXPECT_EQ(ApplyToAll(kBalanced).error(), no);
  EXPECT_THAT(Counts(), Each(kOff));
  options_.before_modes = nullptr;
  options_.before_instances = [&]() -> base::Status { return base::Fail(no); };
  EXPECT_THAT(ApplyToAll(kBalanced).error().message, HasSubstr("the MIG geometry before is back"));
  EXPECT_THAT(Counts(), Each(kOff));
}

TEST_F(ChangeTest, OnlyTheModeWithoutAResetWaits) {
  Start("gpus: [{profile: A100-40}]");
  ASSERT_TRUE(node_->file().Update([](simulation::NodeState& node) {
    return simulation::AddProcess(node.gpus[0], 4711, "dcgm", 0, false);
  }));
  options_.mode_only = true;
  options_.skip_reset = true;
  const auto applied = ApplyToAll(kBalanced);
  ASSERT_TRUE(applied) << applied.error().ToString();
  EXPECT_TRUE(applied->needs_reset);
  EXPECT_THAT(steps_, ElementsAre("0 changing-mode", "0 waits-for-reset"));
  EXPECT_EQ(*Read().at(0).mode.value(), (gpu::MigMode{.current = false, .pending = true}));
  options_.mode_only = false;
  const auto whole = ApplyToAll(kBalanced);
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.error().message,
              HasSubstr("unable to apply MIG config with MIG mode disabled"));
}

// Who does not want GPUs to be reset on the way forward wants back what was before all the same.
TEST_F(ChangeTest, TheWayBackResetsWhereTheWayForwardMayNot) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {1g.5gb: 7}}}]");
  Fail("fail-from:3");
  ASSERT_EQ(ApplyToAll(kBalanced).error().reason, "RollbackFailed");
  ::unsetenv("PITCREW_SIMULATION_MIG_FAULT");
  // A mode that waits for a reset, and no program that resets.
  ASSERT_TRUE(node_->file().Update([](simulation::NodeState& node) {
    node.gpus[0].mig_current = node.gpus[0].mig_pending = 0;
    return simulation::AddProcess(node.gpus[0], 4711, "dcgm", 0, false);
  }));
  options_.skip_reset = true;
  const auto recovered = Recover(*gpus_, options_);
  ASSERT_FALSE(recovered);
  EXPECT_THAT(recovered.error().message, HasSubstr("error resetting GPUs"));
  EXPECT_TRUE(JournalLies());
}

TEST_F(ChangeTest, AJournalThatIsNoneIsLeftOutOfAccount) {
  Start("gpus: [{profile: A100-40}]");
  for (const auto* text : {"", "{", "[]", "{\"version\":2}", "{\"version\":1,\"before\":[{}]}"}) {
    ASSERT_TRUE(base::WriteFileAtomically(journal(), text));
    const auto applied = ApplyToAll(kBalanced);
    ASSERT_TRUE(applied) << applied.error().ToString();
  }
  EXPECT_THAT(Counts(), Each(kBalanced));
}

TEST(JournalTest, IsReadAsItWasWritten) {
  const Journal journal = {
      {.pci = {.domain = 0, .bus = 0x17}, .uuid = "GPU-1", .before = {.mig_enabled = false}},
      {.pci = {.domain = 1, .bus = 0x65},
       .uuid = "",
       .before = {.mig_enabled = true,
                  .instances = {{.profile = 9,
                                 .placement = {{6, 2}},
                                 .compute = {{.profile = 0, .placement = {{0, 1}}},
                                             {.profile = 7, .placement = {}}}},
                                {.profile = 0, .placement = {}, .compute = {}}}}}};
  EXPECT_EQ(*ParseJournal(ToJsonText(journal)), journal);
  EXPECT_TRUE(journal[0].IsOf({.domain = 0, .bus = 0x17}, "GPU-1"));
  EXPECT_FALSE(journal[0].IsOf({.domain = 0, .bus = 0x17}, "GPU-2")) << "it was replaced";
  EXPECT_TRUE(journal[1].IsOf({.domain = 1, .bus = 0x65}, "GPU-3")) << "seen without a driver";
}

}  // namespace
}  // namespace pitcrew::node::mig
