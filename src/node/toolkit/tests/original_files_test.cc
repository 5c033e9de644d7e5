#include "node/toolkit/original_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "node/toolkit/configure_engine.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;

OriginalFile Original(std::string ours, const std::string& original) {
  return {"/f", true, 0640, 1, 2, {FindWayBack(std::move(ours), original)}};
}

TEST(OriginalFilesTest, TheWayBackIsExact) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},         {"ours", ""},
      {"", "original"}, {"same", "same"},
      {"aXb", "aYYb"},  {"import\nabc", "abc"},
      {"abab", "ab"},   {"ab", "abab"},
      {"aaaa", "aaa"},  {std::string("a\0b", 3), std::string("\xff\0c", 3)}};
  for (const auto& [ours, original] : cases) {
    const auto back = GoBack(Original(ours, original), ours);
    ASSERT_TRUE(back) << ours;
    EXPECT_EQ(back->file.content, original) << ours;
    EXPECT_EQ(back->mode, 0640U);
    EXPECT_FALSE(GoBack(Original(ours, original), ours + "#")) << "somebody has changed it";
  }
}

// A configuration can have passwords.
TEST(OriginalFilesTest, OnlyWhatIsTakenOutIsKept) {
  EXPECT_EQ(FindWayBack("imports = []\npassword = 1\n", "password = 1\n").taken, "");
  EXPECT_EQ(FindWayBack("a\nimports = [1, 2]\np\n", "a\nimports = [1]\np\n").taken, "");
}

class LeavingTest : public ::testing::Test {
 protected:
  LeavingTest() {
    options_.kind = EngineKind::kContainerd;
    options_.config = folder_.path() / "etc/config.toml";
    options_.drop_in = folder_.path() / "etc/conf.d/99-nvidia.toml";
    options_.socket = folder_.path() / "none.sock";
    options_.restart = RestartMode::kNone;
    options_.host_root = folder_.path() / "host";
    options_.config_sources = {"file"};
    options_.originals = folder_.path() / "toolkit/.config/engine-before.json";
    folder_.Write("state/empty", "");
  }
  [[nodiscard]] base::Status Configure() const {
    TRY_ASSIGN(const auto source, ReadEngineConfig(options_));
    return ConfigureEngine(options_, source, "/t", folder_.path() / "state", {});
  }
  void Configured() const {
    const auto done = Configure();
    ASSERT_TRUE(done) << done.error().message;
  }
  void Restored() const {
    const auto done = RestoreEngine(options_, "/t", folder_.path() / "state");
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_FALSE(fs::exists(options_.originals));
  }
  [[nodiscard]] std::string Text() const {
    return base::ReadFile(options_.config).value_or("(none)");
  }

  test_support::TemporaryFolder folder_;
  EngineOptions options_;
};

TEST_F(LeavingTest, FilesAreAgainWhatTheyWere) {
  RecordProperty("holds", "container-toolkit.md #40");
  const std::string cases[] = {
      "# mine\nversion = 2\n",
      "version = 2\nimports = [ \"/a/*.toml\" ,  # two\n \"/b.toml\" ]\n",
      "# version 1, which is written as a whole\n[plugins.cri]\n  sandbox_image = \"p\"  # q\n",
      "imports = [\"" + (folder_.path() / "etc/conf.d").string() + "/*.toml\"]\nversion = 2",
  };
  for (const auto& text : cases) {
    SCOPED_TRACE(text);
    folder_.Write("etc/config.toml", text);
    ASSERT_EQ(::chmod(options_.config.c_str(), 0640), 0);
    Configured();
    // A toolkit of another version writes other runtimes.
    options_.annotation_prefixes = {"x/"};
    Configured();
    options_.annotation_prefixes.clear();
    Configured();
    Restored();
    EXPECT_EQ(Text(), text);
    struct stat status{};
    ASSERT_EQ(::stat(options_.config.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0640U);
    EXPECT_FALSE(fs::exists(options_.drop_in));
  }
}

TEST_F(LeavingTest, AFileThatWasNotThereIsGone) {
  Configured();
  EXPECT_TRUE(fs::exists(options_.config));
  Restored();
  EXPECT_FALSE(fs::exists(options_.config));
}

TEST_F(LeavingTest, WhatSomebodyHasChangedMeanwhileStays) {
  folder_.Write("etc/config.toml", "version = 2\n");
  Configured();
  const std::string theirs = Text() + "oom_score = 5\n";
  folder_.Write("etc/config.toml", theirs);
  Configured();
  Restored();
  EXPECT_EQ(Text(), theirs);
  EXPECT_FALSE(fs::exists(options_.drop_in));
}

// Docker's default runtime too, which cleaning alone sets to runc.
TEST_F(LeavingTest, DockersFileIsAgainWhatItWas) {
  const std::string text = "{\n\t\"default-runtime\": \"crun\",\n\t\"features\": {}\n}\n";
  folder_.Write("etc/daemon.json", text);
  options_.kind = EngineKind::kDocker;
  options_.config = folder_.path() / "etc/daemon.json";
  options_.drop_in.clear();
  options_.enable_cdi = true;
  Configured();
  EXPECT_NE(Text(), text);
  Restored();
  EXPECT_EQ(Text(), text);
}

// CRI-O neither enters nor stops a container whose runtime it does not know any more.
TEST_F(LeavingTest, CriosRuntimesStayWhenItsDefaultGoes) {
  RecordProperty("holds", "container-toolkit.md #45");
  options_.kind = EngineKind::kCrio;
  options_.config = folder_.path() / "etc/crio.conf";
  options_.set_as_default = true;
  const auto has = [&](const std::string& part) {
    return base::ReadFile(options_.drop_in).value_or("").find(part) != std::string::npos;
  };
  Configured();
  EXPECT_TRUE(has("default_runtime = \"nvidia\""));
  Restored();
  EXPECT_FALSE(has("default_runtime"));
  for (const auto* name : {"nvidia", "nvidia-cdi", "nvidia-legacy"}) {
    EXPECT_TRUE(has(fmt::format("[crio.runtime.runtimes.{}]", name))) << name;
  }
  // A site's own file says which runtimes there are.
  const std::string text = "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/own\"\n";
  folder_.Write("etc/conf.d/99-nvidia.toml", text);
  Configured();
  Restored();
  EXPECT_EQ(base::ReadFile(options_.drop_in).value_or("(none)"), text);
}

// NVIDIA's runtime of the node's own image is not ours, whatever its name.
TEST_F(LeavingTest, TheNodesOwnRuntimeIsAnOriginal) {
  RecordProperty("holds", "container-toolkit.md #40");
  const std::string text =
      "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
      "default_runtime_name = \"nvidia\" # of the image\n"
      "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia.options]\n"
      "BinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
  options_.own_program = "/t/nvidia-container-runtime";
  options_.set_as_default = false;
  folder_.Write("etc/config.toml", text);
  Configured();
  EXPECT_NE(base::ReadFile(options_.drop_in)->find("default_runtime_name = \"nvidia\""),
            std::string::npos);
  Configured();
  Restored();
  EXPECT_EQ(Text(), text);
  const std::string docker =
      "{\"default-runtime\": \"nvidia\",\n \"runtimes\": {\"nvidia\": {\"path\": "
      "\"/usr/bin/nvidia-container-runtime\"}}}\n";
  options_.kind = EngineKind::kDocker;
  options_.config = folder_.Write("etc/daemon.json", docker);
  options_.drop_in.clear();
  Configured();
  EXPECT_NE(Text(), docker);
  Restored();
  EXPECT_EQ(Text(), docker);
}

// The runtimes of a toolkit that came before this one are no original.
TEST_F(LeavingTest, AnotherToolkitsFilesAreCleanedOnly) {
  folder_.Write("etc/config.toml", "version = 2\n");
  auto older = options_;
  older.originals.clear();
  ASSERT_TRUE(ConfigureEngine(older, *ReadEngineConfig(older), "/t", folder_.path() / "state", {}));
  Configured();
  Restored();
  EXPECT_FALSE(fs::exists(options_.drop_in));
}

TEST_F(LeavingTest, ARecordThatCannotBeReadIsNoObstacle) {
  folder_.Write("etc/config.toml", "# a\nversion = 2\noom_score = 1\n");
  Configured();
  folder_.Write("toolkit/.config/engine-before.json", "{");
  Restored();
  EXPECT_NE(Text().find("# a"), std::string::npos);
  EXPECT_FALSE(fs::exists(options_.drop_in));
}

}  // namespace
}  // namespace pitcrew::node::toolkit
