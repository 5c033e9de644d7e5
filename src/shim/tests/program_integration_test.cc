// The program itself, in front of a low-level runtime that does nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strings.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {
namespace {

class RuntimeProgram : public ::testing::Test {
 protected:
  void Configure(const std::string& more) const {
    folder_.Write("config.toml",
                  "[nvidia-container-runtime]\nmode = \"cdi\"\nruntimes = "
                  "[\"/bin/true\"]\ndebug = \"" +
                      (folder_.path() / "log").string() + "\"\n" + more);
  }
  // Exit status of the program in the bundle's folder.
  [[nodiscard]] int Run(std::vector<const char*> words) const {
    words.insert(words.begin(), "nvidia-container-runtime");
    words.push_back(nullptr);
    const auto config = "NVIDIA_CTK_CONFIG_FILE_PATH=" + (folder_.path() / "config.toml").string();
    const char* environment[] = {config.c_str(), nullptr};
    const pid_t child = ::fork();
    if (child == 0) {
      if (::chdir(folder_.path().c_str()) != 0) ::_exit(126);
      ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
      ::execve(PITCREW_SHIM, const_cast<char**>(words.data()), const_cast<char**>(environment));
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] std::string Log() const {
    return base::ReadFile(folder_.path() / "log").value_or("");
  }

  const test_support::TemporaryFolder folder_;
};

TEST_F(RuntimeProgram, WithoutABundleItIsTheFolderAtHand) {
  RecordProperty("holds", "container-toolkit.md #105");
  Configure("");
  folder_.Write("config.json",
                R"({"hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-toolkit"}]}})");
  EXPECT_EQ(Run({"create", "id"}), 0);
  const auto text = base::ReadFile(folder_.path() / "config.json").value_or("");
  EXPECT_EQ(text.find("nvidia-container-toolkit"), std::string::npos) << text;
}

TEST_F(RuntimeProgram, WhatHasNoEffectStandsInTheLogOnceForACreate) {
  Configure("[nvidia-container-cli]\nldcache = \"/x\"\n");
  folder_.Write("config.json", "{}");
  EXPECT_EQ(Run({"create", "id"}), 0);
  EXPECT_EQ(base::Split(Log(), '\n').size(), 2U) << Log();
  EXPECT_NE(Log().find("nvidia-container-cli.ldcache"), std::string::npos);
  EXPECT_EQ(Run({"state", "id"}), 0);
  EXPECT_EQ(base::Split(Log(), '\n').size(), 2U) << Log();
}

// A container that runs can be stopped whatever the file says; none is created.
TEST_F(RuntimeProgram, ARefusedFileStopsCreateAlone) {
  Configure("[nvidia-container-cli]\nldconfig = \"/sbin/ldconfig\"\n");
  folder_.Write("config.json", "{}");
  EXPECT_EQ(Run({"create", "id"}), 1);
  for (const auto* command : {"kill", "delete", "state"}) EXPECT_NE(Run({command, "id"}), 126);
}

}  // namespace
}  // namespace pitcrew::shim
