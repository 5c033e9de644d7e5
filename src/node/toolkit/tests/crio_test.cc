// CRI-O's configuration: the hook's file, and what is left of one mode in the other.
#include "node/toolkit/crio.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "codec/toml.h"
#include "node/toolkit/configure_engine.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using codec::Json;

constexpr const char* kProgram = "/opt/t/toolkit/nvidia-container-runtime-hook";

class CrioTest : public ::testing::Test {
 protected:
  CrioTest() {
    options_.kind = EngineKind::kCrio;
    options_.config = folder_.path() / "etc/crio.conf";
    options_.drop_in = folder_.path() / "etc/crio.conf.d/99-nvidia.conf";
    options_.socket = folder_.path() / "none.sock";
    options_.host_root = folder_.path();
    options_.restart = RestartMode::kNone;
    options_.set_as_default = true;
    options_.hook.file = folder_.path() / "hooks.d/oci-nvidia-hook.json";
    options_.hook.program = kProgram;
    fs::create_directories(folder_.path() / "state");
  }
  [[nodiscard]] base::Status Configure() const {
    return ConfigureEngine(options_, Json::object(), "/opt/t/toolkit", State(), {});
  }
  [[nodiscard]] base::Status Restore() const {
    return RestoreEngine(options_, "/opt/t/toolkit", State());
  }
  [[nodiscard]] fs::path State() const { return folder_.path() / "state"; }
  [[nodiscard]] std::string Text(const fs::path& path) const {
    return base::ReadFile(path).value_or("(none)");
  }

  test_support::TemporaryFolder folder_;
  EngineOptions options_;
};

// container-toolkit.md 2.4, 4.12.
TEST_F(CrioTest, TheHooksFileIsAsTheEngineReadsIt) {
  const std::string text = OciHookText(kProgram);
  const auto hook = codec::ParseJson(text);
  ASSERT_TRUE(hook) << hook.error().message;
  EXPECT_EQ(*hook,
            *codec::ParseJson(
                R"({"version":"1.0.0","hook":{"path":"/opt/t/toolkit/nvidia-container-runtime-hook",
                    "args":["nvidia-container-runtime-hook","prestart"],
                    "env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/t/toolkit"]},
                    "when":{"always":true,"commands":[".*"]},"stages":["prestart"]})"));
  EXPECT_TRUE(
      text.starts_with("{\n  \"version\": \"1.0.0\",\n  \"hook\": {\n    \"path\": \"/opt"));
  EXPECT_TRUE(text.ends_with("}\n"));
  // A folder that PATH has already does not stand in it twice.
  EXPECT_EQ(codec::ParseJson(OciHookText("/usr/bin/hook"))->at("hook").at("env").at(0),
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
}

TEST_F(CrioTest, TheHookIsWrittenOverAnotherAndRemovedOnLeaving) {
  RecordProperty("holds", "container-toolkit.md #46");
  options_.hook.enabled = true;
  folder_.Write("hooks.d/oci-nvidia-hook.json", "{\"hook\": {\"path\": \"/usr/bin/other\"}}");
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Text(options_.hook.file), OciHookText(kProgram));
  // What it would inject, the default runtime does.
  EXPECT_NE(Text(options_.drop_in).find("default_runtime = \"nvidia\""), std::string::npos);
  EXPECT_FALSE(fs::exists(State() / "engine-change.json"));
  ASSERT_TRUE(Restore());
  EXPECT_FALSE(fs::exists(options_.hook.file));
  EXPECT_EQ(Text(options_.drop_in).find("default_runtime"), std::string::npos);
  // A second time there is nothing to remove.
  EXPECT_TRUE(Restore());
}

// A toolkit whose successor has the other mode leaves its files to it.
TEST_F(CrioTest, OneModeTakesTheOtherOnesFilesAway) {
  options_.hook.enabled = true;
  ASSERT_TRUE(Configure());
  options_.hook.enabled = false;
  ASSERT_TRUE(Configure());
  EXPECT_FALSE(fs::exists(options_.hook.file));
  EXPECT_NE(Text(options_.drop_in).find("default_runtime = \"nvidia\""), std::string::npos);
  options_.hook.enabled = true;
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Text(options_.hook.file), OciHookText(kProgram));
  // In both modes, where anybody sets it.
  EXPECT_NE(Text(options_.drop_in).find("default_runtime = \"nvidia\""), std::string::npos);
  options_.set_as_default = false;
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Text(options_.drop_in).find("default_runtime"), std::string::npos);
}

// A package's hook of the same name runs another program.
TEST_F(CrioTest, AnotherOnesHookStays) {
  for (const auto* text :
       {"{\"hook\": {\"path\": \"/usr/bin/nvidia-container-runtime-hook\"}}", "{", "[]", ""}) {
    folder_.Write("hooks.d/oci-nvidia-hook.json", text);
    ASSERT_TRUE(Configure());
    ASSERT_TRUE(Restore());
    EXPECT_EQ(Text(options_.hook.file), text);
  }
}

// Where the engine looks for hooks is the node's path, seen here below another root.
TEST_F(CrioTest, AHookInAFolderThatNobodyReadsIsAnError) {
  options_.hook.file = folder_.Write("mounted/oci-nvidia-hook.json", "{}");
  folder_.Write("usr/share/hooks.d/empty", "");
  const auto dump = [](const std::string& folders) {
    return *codec::ParseToml("[crio.runtime]\nhooks_dir = " + folders + "\n");
  };
  const auto refused = CheckHookIsRead(options_, dump("[\"/usr/share/hooks.d\", \"/nowhere\"]"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "HookNotRead");
  EXPECT_NE(refused.error().message.find("/usr/share/hooks.d, /nowhere"), std::string::npos);
  fs::create_hard_link(options_.hook.file,
                       folder_.path() / "usr/share/hooks.d/oci-nvidia-hook.json");
  EXPECT_TRUE(CheckHookIsRead(options_, dump("[\"/nowhere\", \"/usr/share/hooks.d\"]")));
  // What is not told is not known to be wrong.
  EXPECT_TRUE(CheckHookIsRead(options_, Json::object()));
  EXPECT_TRUE(CheckHookIsRead(options_, dump("[]")));
}

TEST_F(CrioTest, AHookThatIsNotReadIsTakenBack) {
  if (::geteuid() != 0) GTEST_SKIP() << "a program in another root needs root";
  options_.hook.enabled = true;
  options_.host_root = "/";
  options_.executable = folder_.Write("crio",
                                      "#!/bin/sh\necho '[crio.runtime]'\n"
                                      "echo 'hooks_dir = [\"/nowhere\"]'\n");
  fs::permissions(options_.executable, fs::perms::owner_all);
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "HookNotRead");
  EXPECT_FALSE(fs::exists(options_.hook.file));
}

// As its packages lay it out; the root file that the operator names is none that CRI-O reads.
TEST_F(CrioTest, ItsFilesAreReadAsItReadsThem) {
  RecordProperty("holds", "runtimes-and-distributions.md #21");
  options_.config = folder_.path() / "etc/config.toml";
  options_.config_sources = {"file"};
  folder_.Write("etc/crio.conf",
                "[crio.runtime]\ndefault_runtime = \"runc\"\n"
                "[crio.runtime.runtimes.crun]\nruntime_path = \"/old\"\nruntime_root = \"/o\"\n");
  folder_.Write("etc/crio.conf.d/10-crio",
                "[crio.runtime]\ndefault_runtime = \"crun\"\n"
                "[crio.runtime.runtimes.crun]\nruntime_path = \"/usr/libexec/crio/crun\"\n"
                "monitor_path = \"/usr/libexec/crio/conmon\"\n");
  folder_.Write("etc/crio.conf.d/20/deeper.conf",
                "[crio.runtime.runtimes.runc]\nruntime_path = \"/usr/libexec/crio/runc\"\n");
  const auto read = ReadEngineConfig(options_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at("crio").at("runtime"),
            (Json{{"default_runtime", "crun"},
                  {"runtimes",
                   {{"crun",
                     {{"runtime_path", "/usr/libexec/crio/crun"},
                      {"monitor_path", "/usr/libexec/crio/conmon"}}},
                    {"runc", {{"runtime_path", "/usr/libexec/crio/runc"}}}}}}));
  EXPECT_EQ(LowLevelRuntimes(options_.kind, *read).front(), "/usr/libexec/crio/crun");
  // One that cannot be read is not an empty one.
  folder_.Write("etc/crio.conf.d/30", "[");
  EXPECT_FALSE(ReadCrioFiles(options_));
}

// CRI-O in a restart, with a default runtime that it has of itself and no file names.
TEST_F(CrioTest, WithoutItsAnswerOursKeepWhatTheyHave) {
  options_.executable = "/no/such/crio";
  options_.own_program = "/opt/t/toolkit/nvidia-container-runtime";
  options_.earlier_low_level = "/usr/libexec/crio/crun";
  for (const bool is_default : {false, true}) {
    options_.set_as_default = is_default;
    const Json dump = *codec::ParseToml(
        "[crio.runtime]\ndefault_runtime = \"crun\"\n"
        "[crio.runtime.runtimes.crun]\nruntime_path = \"/usr/libexec/crio/crun\"\n"
        "runtime_root = \"/run/crun\"\nmonitor_path = \"/usr/libexec/crio/conmon\"\n");
    ASSERT_TRUE(ConfigureEngine(options_, dump, "/opt/t/toolkit", State(), {}));
    const auto text = Text(options_.drop_in);
    EXPECT_NE(text.find("monitor_path = \"/usr/libexec/crio/conmon\""), std::string::npos);
    const auto unanswered = ReadEngineConfig(options_);
    ASSERT_TRUE(unanswered) << unanswered.error().message;
    ASSERT_TRUE(ConfigureEngine(options_, *unanswered, "/opt/t/toolkit", State(), {}));
    EXPECT_EQ(Text(options_.drop_in), text);
    EXPECT_EQ(LowLevelRuntimes(options_.kind, *unanswered, options_.earlier_low_level).front(),
              "/usr/libexec/crio/crun");
    // Not even a file of it can be read.
    ASSERT_TRUE(ConfigureEngine(options_, Json::object(), "/opt/t/toolkit", State(), {}));
    EXPECT_EQ(Text(options_.drop_in), text);
  }
}

}  // namespace
}  // namespace pitcrew::node::toolkit
