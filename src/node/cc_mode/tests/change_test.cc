// Modes of confidential computing on registers that behave as the document says.
#include "node/cc_mode/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>

#include "base/file_descriptor.h"
#include "base/journal_file.h"
#include "tests/support/security_processor.h"
#include "tests/support/vgpu_tree.h"

namespace pitcrew::node::cc_mode {
namespace {

using test_support::SecurityProcessor;
using test_support::VgpuTree;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;
using Kind = SecurityProcessor::Kind;

class CcMode : public ::testing::Test {
 protected:
  SecurityProcessor& Add(const std::string& address, Kind kind = Kind::kHopper) {
    devices_.push_back(std::make_unique<SecurityProcessor>(tree_.root(), address, kind));
    return *devices_.back();
  }
  [[nodiscard]] Settings settings() const {
    return {.root = host::Root(tree_.root()),
            .processes = host::Root(tree_.root()),
            .journal = tree_.root() / "run/journal.json",
            .patience = 100ms};
  }
  [[nodiscard]] bool HasJournal() const { return std::filesystem::exists(settings().journal); }
  base::Status Become(Mode mode) {
    const auto done = Apply(settings(), mode);
    return done ? base::Status() : base::Status(base::Fail(done.error()));
  }

  const VgpuTree tree_;
  std::vector<std::unique_ptr<SecurityProcessor>> devices_;
};

struct Settled {
  Mode mode;
  unsigned confidential, devtools, decoupler, ppcie;
};
constexpr Settled kHopperModes[] = {{Mode::kOff, 0, 0, 0, 0},
                                    {Mode::kOn, 1, 0, 2, 0},
                                    {Mode::kDevtools, 1, 1, 0, 0},
                                    {Mode::kPpcie, 0, 0, 2, 1}};

TEST_F(CcMode, EachTransitionOfHopper) {
  RecordProperty("holds", "virtualisation-and-olm.md #62");
  auto& gpu = Add("0000:41:00.0");
  for (const auto& from : kHopperModes) {
    for (const auto& to : kHopperModes) {
      const auto name = std::string(ToString(from.mode)) + " to " + std::string(ToString(to.mode));
      ASSERT_TRUE(Become(from.mode)) << name;
      gpu.Set(2, 1);
      const int resets = gpu.resets();
      const auto done = Become(to.mode);
      ASSERT_TRUE(done) << name << ": " << done.error().ToString();
      EXPECT_EQ(gpu.mode(), ToString(to.mode)) << name;
      EXPECT_EQ(gpu.setting(8), to.confidential) << name;
      EXPECT_EQ(gpu.setting(6), to.devtools) << name;
      EXPECT_EQ(gpu.setting(10), to.decoupler) << name;
      EXPECT_EQ(gpu.setting(45), to.ppcie) << name;
      if (from.mode == to.mode) {
        EXPECT_EQ(gpu.resets(), resets) << name << ": nothing had to change";
      } else if (to.mode != Mode::kOff) {
        EXPECT_EQ(gpu.setting(2), 0U) << name;
      }
    }
  }
  EXPECT_FALSE(HasJournal());
}

TEST_F(CcMode, EachTransitionOfBlackwell) {
  RecordProperty("holds", "virtualisation-and-olm.md #62");
  auto& first = Add("0000:41:00.0", Kind::kBlackwell100);
  auto& second = Add("0000:42:00.0", Kind::kBlackwell202);
  for (const Mode from : {Mode::kOff, Mode::kOn, Mode::kDevtools}) {
    for (const Mode to : {Mode::kOff, Mode::kOn, Mode::kDevtools}) {
      ASSERT_TRUE(Become(from));
      const auto done = Become(to);
      ASSERT_TRUE(done) << done.error().ToString();
      EXPECT_EQ(first.mode(), ToString(to));
      EXPECT_EQ(second.mode(), ToString(to));
      EXPECT_EQ(first.setting(10), 0U) << "the decoupler is Hopper's";
    }
  }
  EXPECT_THAT(Become(Mode::kPpcie).error().message,
              AllOf(HasSubstr("0000:41:00.0 has no mode ppcie"), HasSubstr("0000:42:00.0")));
}

TEST_F(CcMode, ProtectedPcieTakesTheSwitchesToo) {
  RecordProperty("holds", "virtualisation-and-olm.md #62");
  auto& gpu = Add("0000:41:00.0");
  auto& other = Add("0000:42:00.0");
  auto& nvswitch = Add("0000:05:00.0", Kind::kSwitch);
  ASSERT_TRUE(Become(Mode::kOn));
  EXPECT_EQ(nvswitch.resets(), 0) << "it has no mode of its own";
  const auto done = Become(Mode::kPpcie);
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_EQ(gpu.mode(), "ppcie");
  EXPECT_EQ(other.mode(), "ppcie");
  EXPECT_EQ(nvswitch.mode(), "ppcie");
  EXPECT_EQ(nvswitch.setting(10), 0U) << "a switch has no decoupler";
  ASSERT_TRUE(Become(Mode::kOn));
  EXPECT_EQ(gpu.mode(), "on");
  EXPECT_EQ(nvswitch.mode(), "off");
}

TEST_F(CcMode, WhatAGpuCannotIsNamedAndNothingIsTouched) {
  auto& gpu = Add("0000:41:00.0");
  tree_.AddGpu("0000:42:00.0", "20b5");  // an A100
  const auto refused = Become(Mode::kOn);
  EXPECT_EQ(refused.error().reason, "NotCapable");
  EXPECT_THAT(refused.error().message, HasSubstr("0000:42:00.0 [10de:20b5] has no mode"));
  EXPECT_EQ(gpu.resets(), 0);
  EXPECT_TRUE(Become(Mode::kOff)) << "which is what an A100 is in";
  EXPECT_EQ(ParseMode("maybe").error().message,
            "there is no mode \"maybe\" of confidential computing; there are on, off, devtools, "
            "ppcie");
}

TEST_F(CcMode, AWriteThatFailsResetsNobodyAndTheOthersGoBack) {
  RecordProperty("holds", "virtualisation-and-olm.md #63");
  auto& first = Add("0000:41:00.0");
  auto& second = Add("0000:42:00.0");
  second.faults().refuses = 8;
  const auto failed = Become(Mode::kOn);
  EXPECT_THAT(failed.error().message,
              AllOf(HasSubstr("the modes before are back"), HasSubstr("0000:42:00.0"),
                    HasSubstr("set setting 8 of the GPU to 1")));
  EXPECT_EQ(first.resets(), 0);
  EXPECT_EQ(second.resets(), 0);
  EXPECT_EQ(first.setting(8), 0U) << "its next reset must not surprise anybody";
  EXPECT_EQ(first.setting(10), 0U);
  EXPECT_FALSE(HasJournal());
}

TEST_F(CcMode, FirmwareThatTakesNothingFromTheHostIsNamed) {
  auto& gpu = Add("0000:41:00.0");
  gpu.faults().locked = true;
  const auto failed = Become(Mode::kDevtools);
  EXPECT_EQ(failed.error().reason, "SettingLocked");
  EXPECT_THAT(failed.error().message, HasSubstr("its setting 7 is 0"));
}

TEST_F(CcMode, FirmwareFromBeforeProtectedPcieIsTaken) {
  auto& gpu = Add("0000:41:00.0");
  gpu.faults().no_ppcie = true;
  ASSERT_TRUE(Become(Mode::kOn));
  EXPECT_EQ(gpu.mode(), "on");
  EXPECT_FALSE(Become(Mode::kPpcie));
  EXPECT_EQ(gpu.mode(), "on");
}

TEST_F(CcMode, AModeThatIsNotTakenIsTakenBack) {
  RecordProperty("holds", "virtualisation-and-olm.md #63");
  auto& first = Add("0000:41:00.0");
  auto& second = Add("0000:42:00.0");
  second.faults().stays = true;
  const auto failed = Become(Mode::kOn);
  EXPECT_EQ(failed.error().reason, "ModeNotTaken");
  EXPECT_THAT(failed.error().message, HasSubstr("0000:42:00.0 is in mode off after its reset"));
  EXPECT_EQ(first.mode(), "off");
  EXPECT_EQ(first.setting(8), 0U);
  EXPECT_EQ(second.setting(8), 0U);
  EXPECT_FALSE(HasJournal());
}

TEST_F(CcMode, AWayBackThatFailsIsKeptForLater) {
  auto& first = Add("0000:41:00.0");
  auto& second = Add("0000:42:00.0");
  second.faults().never_starts = true;
  const auto failed = Become(Mode::kOn);
  EXPECT_EQ(failed.error().reason, "RollbackFailed");
  EXPECT_EQ(failed.error().code, base::Code::kUnavailable) << "which is tried again";
  EXPECT_THAT(failed.error().message,
              AllOf(HasSubstr("has not started within"),
                    HasSubstr("going back to the modes before failed too")));
  EXPECT_EQ(first.mode(), "off") << "what can go back does";
  EXPECT_TRUE(HasJournal());
  second.faults().never_starts = false;
  std::ofstream(second.folder() / "reset") << "1";  // as a person does
  const auto recovered = Recover(settings());
  ASSERT_TRUE(recovered) << recovered.error().ToString();
  EXPECT_EQ(second.mode(), "off");
  EXPECT_FALSE(HasJournal());
}

// A setting that only a person unlocks is final; a device that is neither is not.
TEST_F(CcMode, AWayBackThatFailsMayPassWhateverTheChangeFailedOf) {
  auto& gpu = Add("0000:41:00.0");
  gpu.Set(8, 1);
  gpu.faults().locked = true;
  tree_.Write("run/journal.json",
              R"({"version":1,"before":[{"pci":"0000:41:00.0","mode":"off","switch":false}]})");
  const auto failed = Become(Mode::kOn);
  EXPECT_EQ(failed.error().reason, "RollbackFailed");
  EXPECT_EQ(failed.error().code, base::Code::kUnavailable);
  EXPECT_THAT(failed.error().message, HasSubstr("takes no change of setting"));
  EXPECT_TRUE(HasJournal());
  gpu.faults().locked = false;
  ASSERT_TRUE(Recover(settings()));
  EXPECT_EQ(gpu.setting(8), 0U);
  EXPECT_FALSE(HasJournal());
}

TEST_F(CcMode, AMachineThatHasTheGpuIsNamed) {
  RecordProperty("holds", "virtualisation-and-olm.md #65");
  auto& gpu = Add("0000:41:00.0");
  std::filesystem::create_directory_symlink("../../../../kernel/iommu_groups/21",
                                            gpu.folder() / "iommu_group");
  tree_.AddVfioUser(4242, "21", "qemu-kvm -name guest=sandbox-1,debug-threads=on");
  const auto refused = Become(Mode::kOn);
  EXPECT_EQ(refused.error().reason, "InUse");
  EXPECT_THAT(
      refused.error().message,
      HasSubstr("0000:41:00.0 is held by qemu-kvm (process 4242, virtual machine sandbox-1)"));
  EXPECT_EQ(gpu.setting(8), 0U);
  tree_.RemoveProcess(4242);
  EXPECT_TRUE(Become(Mode::kOn));
}

TEST_F(CcMode, ADriverThatHasTheGpuIsNamed) {
  auto& gpu = Add("0000:41:00.0");
  gpu.BindTo("nvidia");
  const auto refused = Become(Mode::kOn);
  EXPECT_EQ(refused.error().reason, "DriverBound");
  EXPECT_THAT(refused.error().message, HasSubstr("0000:41:00.0 has the driver nvidia"));
  gpu.BindTo("");
  EXPECT_TRUE(Become(Mode::kOn)) << "no driver is as good as VFIO's";
}

TEST_F(CcMode, HalfOfSomebodysChangeIsPutRight) {
  auto& gpu = Add("0000:41:00.0");
  gpu.Set(6, 1);
  gpu.TakeEffect();
  ASSERT_EQ(gpu.mode(), "invalid");
  ASSERT_TRUE(Become(Mode::kOff));
  EXPECT_EQ(gpu.mode(), "off");
}

TEST_F(CcMode, ADeviceSleepsAgainAfterwards) {
  const auto& gpu = Add("0000:41:00.0");
  ASSERT_TRUE(Become(Mode::kOn));
  EXPECT_EQ(tree_.Read("sys/bus/pci/devices/0000:41:00.0/power/control"), "auto");
  std::string config(6, '\0');
  std::ifstream(gpu.folder() / "config", std::ios::binary).read(config.data(), 6);
  EXPECT_EQ(config[4], 2) << "its memory answers";
}

// A process that is killed at an access of a register leaves a node that the next one puts right,
// whatever is wanted then. Every seventh access comes to each place of a message sooner or later.
TEST_F(CcMode, KilledInTheMiddle) {
  RecordProperty("holds", "virtualisation-and-olm.md #67");
  auto& gpu = Add("0000:41:00.0");
  int died = 0;
  for (int at = 1;; at += 7) {
    SCOPED_TRACE(at);
    ASSERT_TRUE(Become(Mode::kOff));
    gpu.faults().dies_after_accesses = gpu.accesses() + at;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(Become(Mode::kOn) ? 0 : 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    gpu.faults().dies_after_accesses = 0;
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ++died;
    if (at % 3 == 0) {
      ASSERT_TRUE(Recover(settings()));
      ASSERT_EQ(gpu.mode(), "off");
      ASSERT_EQ(gpu.setting(8), 0U);
    }
    const Mode wanted = at % 3 == 1 ? Mode::kOn : Mode::kDevtools;
    const auto done = Become(wanted);
    ASSERT_TRUE(done) << done.error().ToString();
    ASSERT_EQ(gpu.mode(), ToString(wanted));
    ASSERT_EQ(gpu.setting(6), wanted == Mode::kDevtools ? 1U : 0U);
    ASSERT_FALSE(HasJournal());
  }
  EXPECT_GT(died, 15);
}

TEST_F(CcMode, AStopEndsTheWaitForAGpuThatDoesNotStart) {
  auto& gpu = Add("0000:41:00.0");
  gpu.faults().never_starts = true;
  std::ofstream(gpu.folder() / "reset") << "1";
  const base::FileDescriptor stop(::eventfd(1, EFD_CLOEXEC));
  auto with_stop = settings();
  with_stop.stop_fd = stop.get();
  EXPECT_EQ(PlanNode(settings(), Mode::kOn).error().reason, "GpuNotBooted");
  with_stop.patience = 24h;
  EXPECT_EQ(PlanNode(with_stop, Mode::kOn).error().code, base::Code::kCancelled);
  gpu.faults().never_starts = false;
  std::ofstream(gpu.folder() / "reset") << "1";
  ASSERT_TRUE(PlanNode(settings(), Mode::kOn));
  EXPECT_TRUE(Apply(with_stop, Mode::kOn)) << "a change does not hear it";
}

TEST_F(CcMode, NoGpu) { EXPECT_EQ(Become(Mode::kOff).error().reason, "NoGpus"); }

TEST_F(CcMode, Hosts) {
  EXPECT_FALSE(IsHostCapable(host::Root(tree_.root())));
  tree_.Write("sys/module/kvm_intel/parameters/tdx", "N\n");
  EXPECT_FALSE(IsHostCapable(host::Root(tree_.root())));
  tree_.Write("sys/module/kvm_amd/parameters/sev_snp", "Y\n");
  EXPECT_TRUE(IsHostCapable(host::Root(tree_.root())));
}

}  // namespace
}  // namespace pitcrew::node::cc_mode
