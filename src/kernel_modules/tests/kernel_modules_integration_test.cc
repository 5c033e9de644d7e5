// Modules of a node's tree, indexed by the real depmod. The files are no modules that any kernel
// would take, so nothing is ever loaded.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/process.h"
#include "kernel_modules/kernel_modules.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::kernel_modules {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRelease = "6.1.0-pitcrew";

class ModulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = root_.path() / "lib/modules" / kRelease;
    std::filesystem::create_directories(folder / "kernel");
    std::filesystem::copy_file(PITCREW_TEST_MODULE_FIRST, File("pitcrew_first"));
    std::filesystem::copy_file(PITCREW_TEST_MODULE_SECOND, File("pitcrew_second"));
    root_.Write(folder / "modules.order", "");
    root_.Write(folder / "modules.builtin", "kernel/pitcrew_builtin.ko\n");
  }
  void Index() {
    host::ProgramRun run;
    run.program = "/usr/sbin/depmod";
    run.arguments = {"-b", root_.path().string(), kRelease};
    const auto done = host::ReadProgramOutput(run);
    ASSERT_TRUE(done) << done.error().message;
  }
  [[nodiscard]] base::Result<Modules> Open() const {
    return Modules::Open(host::Root(root_.path()), kRelease);
  }
  [[nodiscard]] std::filesystem::path File(const std::string& name) const {
    return root_.path() / "lib/modules" / kRelease / "kernel" / (name + ".ko");
  }

  test_support::TemporaryFolder root_;
};

// The kernel is asked, and refuses: the error names the dependency, not what was asked for.
TEST_F(ModulesTest, DependenciesComeFirstWithTheOptionsOfTheNode) {
  root_.Write("etc/modprobe.d/pitcrew.conf",
              "options pitcrew_first depth=2 mode=plain\noptions pitcrew_second mode=fast\n");
  Index();
  const auto loaded = Open()->Load("pitcrew-second");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().reason, "ModuleNotLoaded");
  EXPECT_THAT(loaded.error().message,
              HasSubstr(fmt::format("pitcrew_first ({}) with depth=2 mode=plain:",
                                    File("pitcrew_first").string())));
}

TEST_F(ModulesTest, AnAliasStandsForItsModule) {
  Index();
  const auto loaded = Open()->Load("pitcrew:d1");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().reason, "ModuleNotLoaded");
  EXPECT_THAT(loaded.error().message,
              HasSubstr(fmt::format("pitcrew_first ({}):", File("pitcrew_first").string())));
}

TEST_F(ModulesTest, WhatIsBuiltInIsThereAlready) {
  Index();
  const auto loaded = Open()->Load("pitcrew_builtin");
  EXPECT_TRUE(loaded) << loaded.error().message;
}

TEST_F(ModulesTest, AMissingModuleIsNamedWithItsFolder) {
  Index();
  const auto loaded = Open()->Load("pitcrew_third");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, base::Code::kNotFound);
  EXPECT_EQ(loaded.error().reason, "NoSuchModule");
  EXPECT_THAT(loaded.error().message, HasSubstr("pitcrew_third"));
  EXPECT_THAT(loaded.error().message, HasSubstr(kRelease));
}

TEST_F(ModulesTest, ShellCommandsOfTheConfigurationAreNotRun) {
  root_.Write("etc/modprobe.d/pitcrew.conf",
              "install pitcrew_first touch " + (root_.path() / "run").string() + "\n");
  Index();
  const auto loaded = Open()->Load("pitcrew_second");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().reason, "ModuleHasInstallCommand");
  EXPECT_THAT(loaded.error().message, HasSubstr("touch"));
  EXPECT_FALSE(std::filesystem::exists(root_.path() / "run"));
}

TEST_F(ModulesTest, ABlacklistHoldsForAliasesAndNotForNames) {
  root_.Write("etc/modprobe.d/pitcrew.conf", "blacklist pitcrew_first\n");
  Index();
  const auto by_alias = Open()->Load("pitcrew:d1");
  ASSERT_FALSE(by_alias);
  EXPECT_EQ(by_alias.error().reason, "ModuleBlacklisted");
  EXPECT_EQ(Open()->Load("pitcrew_first").error().reason, "ModuleNotLoaded") << "asked the kernel";
}

TEST_F(ModulesTest, AKernelWithoutAnIndexIsToldWithItsFolder) {
  const auto opened = Open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, base::Code::kNotFound);
  EXPECT_EQ(opened.error().reason, "NoKernelModules");
  EXPECT_THAT(opened.error().message, HasSubstr(kRelease));
}

}  // namespace
}  // namespace pitcrew::kernel_modules
