// The program itself, in front of a low-level runtime that does nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {
namespace {

class RuntimeProgram : public ::testing::Test {
 protected:
  void Configure(const std::string& more, const std::string& low_level = "/bin/true") const {
    folder_.Write("config.toml", "[nvidia-container-runtime]\nmode = \"cdi\"\nruntimes = [\"" +
                                     low_level + "\"]\ndebug = \"" +
                                     (folder_.path() / "log").string() + "\"\n" + more);
  }
  // A low-level runtime that writes down what it is called with.
  [[nodiscard]] std::string Recorder(const std::string& name) const {
    folder_.Write(name, "#!/bin/sh\necho \"$0 $*\" >> " + Calls() + "\n");
    const auto path = folder_.path() / name;
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    return path.string();
  }
  [[nodiscard]] std::string Calls() const { return (folder_.path() / "calls").string(); }
  // The recorder of that path has seen these words, and nobody anything else.
  void ExpectReached(const std::string& recorder) const {
    for (const std::string command : {"kill", "delete", "state"}) {
      std::filesystem::remove(Calls());
      EXPECT_EQ(Run({command.c_str(), "id"}), 0);
      EXPECT_EQ(base::ReadFile(Calls()).value_or(""), recorder + " " + command + " id\n");
    }
  }
  // Exit status of the program in the bundle's folder, which has the first of $PATH in it.
  // What it says goes to the file "said"; the file "state", where there is one, is its input.
  [[nodiscard]] int Run(std::vector<const char*> words,
                        const std::filesystem::path& program = PITCREW_SHIM) const {
    const auto name = program == PITCREW_SHIM ? "nvidia-container-runtime" : program.string();
    words.insert(words.begin(), name.c_str());
    words.push_back(nullptr);
    const auto config = "NVIDIA_CTK_CONFIG_FILE_PATH=" + (folder_.path() / "config.toml").string();
    const auto path = "PATH=" + (folder_.path() / "bin").string() + ":/usr/bin:/bin";
    const char* environment[] = {config.c_str(), path.c_str(), nullptr};
    const pid_t child = ::fork();
    if (child == 0) {
      if (::chdir(folder_.path().c_str()) != 0) ::_exit(126);
      ::dup2(::open("said", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      if (const int state = ::open("state", O_RDONLY); state >= 0) ::dup2(state, STDIN_FILENO);
      ::execve(program.c_str(), const_cast<char**>(words.data()), const_cast<char**>(environment));
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

// The engine keeps what the hook says, with a pod's hundred thousand names in it.
TEST_F(RuntimeProgram, ThePrestartHookNamesSomeOfTheDevices) {
  std::string value;
  for (int i = 0; i < 100'000; ++i) value += std::to_string(i) + ",";
  Configure("");
  folder_.Write("config.json",
                R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=)" + value + R"("]}})");
  folder_.Write("state", R"({"bundle":")" + folder_.path().string() + "\"}");
  const auto hook = folder_.path() / "nvidia-container-runtime-hook";
  std::filesystem::create_symlink(PITCREW_SHIM, hook);
  EXPECT_EQ(Run({"prestart"}, hook), 1);
  const auto said = base::ReadFile(folder_.path() / "said").value_or("");
  EXPECT_NE(said.find("and 99984 more"), std::string::npos) << said.substr(0, 500);
  EXPECT_LT(said.size(), 2000U);
}

// A container that runs can be stopped whatever the file says, by who started it; none is created.
TEST_F(RuntimeProgram, ARefusedFileStopsCreateAlone) {
  const auto other = Recorder("bin/runc");
  const auto own = Recorder("opt/engine/runc");
  Configure("[nvidia-container-cli]\nldconfig = \"/sbin/ldconfig\"\n", own);
  folder_.Write("config.json", "{}");
  EXPECT_EQ(Run({"create", "id"}), 1);
  EXPECT_FALSE(std::filesystem::exists(Calls()));
  ExpectReached(own);
}

TEST_F(RuntimeProgram, AFileThatIsNoTomlStillNamesTheLowLevelRuntime) {
  const auto other = Recorder("bin/runc");
  const auto own = Recorder("opt/engine/runc");
  folder_.Write("config.json", "{}");
  const std::string named = "runtimes = [\n  \"" + own + "\",  # the engine's\n]\n";
  for (const std::string& text :
       {"[nvidia-container-runtime]\n" + named + "mode = = \"auto\"\n[features\n",
        "root = [\n[nvidia-container-runtime.modes.cdi]\nruntimes = [\"" + other +
            "\"]\n[ nvidia-container-runtime ] # ours\nlog-level =\n  " + named}) {
    folder_.Write("config.toml", text);
    EXPECT_EQ(Run({"create", "id"}), 1);
    EXPECT_FALSE(std::filesystem::exists(Calls()));
    ExpectReached(own);
    std::filesystem::remove(Calls());
  }
}

TEST_F(RuntimeProgram, WhereTheFileTellsNothingItIsTheUsualLowLevelRuntime) {
  const auto usual = Recorder("bin/runc");
  for (const std::string text : {"\x01\x02", "[nvidia-container-runtime]\nruntimes = 5\n",
                                 "[nvidia-container-runtime]\nruntimes = [\"/opt/x"}) {
    folder_.Write("config.toml", text);
    ExpectReached(usual);
  }
}

}  // namespace
}  // namespace pitcrew::shim
