// Modes of confidential computing through the simulated sysfs: what a whole node has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/file.h"
#include "node/cc_mode/change.h"
#include "node/cc_mode/node.h"
#include "simulation/testing/simulated_sysfs.h"

namespace pitcrew::node::cc_mode {
namespace {

using simulation::SimulatedSysfs;
using namespace std::chrono_literals;

constexpr const char* kDescription = R"(
kernel: {confidential: tdx}
gpus:
  - {profile: H100-80, pci: "0000:1b:00.0"}
  - {profile: B200, pci: "0000:43:00.0"}
  - {profile: RTX-PRO-6000, pci: "0000:52:00.0"}
)";

class SimulatedRegisters : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "the simulated registers are of amd64";
#endif
    if (!SimulatedSysfs::IsPossible()) GTEST_SKIP() << "needs root and /dev/fuse";
  }

  [[nodiscard]] static Settings SettingsOf(const SimulatedSysfs& machine) {
    return {.root = host::Root(machine.root()),
            .processes = host::Root("/"),
            .journal = machine.root() / "journal.json",
            .patience = 2s};
  }

  // In a process of its own: who is followed has a tracer, which not every sanitizer likes.
  static bool Become(const SimulatedSysfs& machine, Mode mode) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto done = Apply(SettingsOf(machine), mode);
      if (!done) std::fprintf(stderr, "%s\n", done.error().ToString().c_str());
      ::_exit(done ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  static std::string Modes(const SimulatedSysfs& machine) {
    return base::ReadFile(machine.sys() / "simulation/modes").value_or("");
  }
};

TEST_F(SimulatedRegisters, ModesOfEachChip) {
  RecordProperty("holds", "virtualisation-and-olm.md #62");
  const SimulatedSysfs machine(kDescription, false);
  EXPECT_TRUE(IsHostCapable(host::Root(machine.root())));
  for (const char* mode : {"on", "devtools", "off"}) {
    EXPECT_TRUE(Become(machine, *ParseMode(mode))) << mode;
    const std::string word = std::string(" ") + mode + "\n";
    EXPECT_EQ(Modes(machine),
              "0000:1b:00.0" + word + "0000:43:00.0" + word + "0000:52:00.0" + word);
  }
}

TEST_F(SimulatedRegisters, WhereOneDoesNotResetAllGoBack) {
  RecordProperty("holds", "virtualisation-and-olm.md #63");
  const SimulatedSysfs machine(kDescription, false);
  ASSERT_TRUE(Become(machine, Mode::kOn));
  const std::string before = Modes(machine);
  machine.Command("fault 0000:43:00.0 reset EIO");
  EXPECT_FALSE(Become(machine, Mode::kOff));
  machine.Command("fault 0000:43:00.0 reset none");
  // What could not be put back at once, the next one does first.
  EXPECT_TRUE(Become(machine, Mode::kOn));
  EXPECT_EQ(Modes(machine), before);
}

}  // namespace
}  // namespace pitcrew::node::cc_mode
