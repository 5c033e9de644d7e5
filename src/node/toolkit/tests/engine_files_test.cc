// Files of an engine as their owners keep them, and a toolkit that is killed at every step.
#include "node/toolkit/engine_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/toolkit/configure_engine.h"
#include "tests/support/kill_at_change.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSite =
    "# of the site\nversion = 2\n"
    "[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"r.example.com\".auth]\n"
    "password = \"secret\"\n";

class EngineFilesTest : public ::testing::Test {
 protected:
  EngineFilesTest() : config_(folder_.path() / "etc/config.toml") {
    options_.kind = EngineKind::kContainerd;
    options_.config = config_;
    options_.drop_in = folder_.path() / "etc/conf.d/99-nvidia.toml";
    options_.socket = folder_.path() / "none.sock";
    options_.restart = RestartMode::kNone;
    options_.host_root = folder_.path() / "host";
    options_.config_sources = {"file"};
    folder_.Write("etc/config.toml", kSite);
    folder_.Write("state/empty", "");
  }
  static struct stat Look(const fs::path& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status;
  }
  static mode_t Mode(const fs::path& path) { return Look(path).st_mode & 07777; }
  [[nodiscard]] fs::path State() const { return folder_.path() / "state"; }
  [[nodiscard]] base::Status Configure() const {
    TRY_ASSIGN(const auto source, ReadEngineConfig(options_));
    return ConfigureEngine(options_, source, "/t", State(), {});
  }
  [[nodiscard]] base::Status Restore() const { return RestoreEngine(options_, "/t", State()); }
  [[nodiscard]] std::string Text(const fs::path& path) const {
    return base::ReadFile(path).value_or("(none)");
  }

  test_support::TemporaryFolder folder_;
  fs::path config_;
  EngineOptions options_;
};

TEST_F(EngineFilesTest, ModesAndOwnersStay) {
  RecordProperty("holds", "runtimes-and-distributions.md #17");
  ASSERT_EQ(::chmod(config_.c_str(), 0640), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(config_.c_str(), 12, 34), 0);
  }
  const auto before = Look(config_);
  ASSERT_TRUE(Configure());
  EXPECT_NE(Text(config_), kSite);
  EXPECT_EQ(Mode(config_), 0640u);
  EXPECT_EQ(Look(config_).st_uid, before.st_uid);
  EXPECT_EQ(Look(config_).st_gid, before.st_gid);
}

// The owner and the group count each for itself.
TEST_F(EngineFilesTest, AnOwnerOrAGroupAloneStaysToo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  for (const auto& [owner, group] : {std::pair{12U, 0U}, std::pair{0U, 34U}}) {
    folder_.Write("etc/config.toml", kSite);
    ASSERT_EQ(::chown(config_.c_str(), owner, group), 0);
    ASSERT_TRUE(Configure());
    ASSERT_NE(Text(config_), kSite);
    EXPECT_EQ(Look(config_).st_uid, owner);
    EXPECT_EQ(Look(config_).st_gid, group);
    ASSERT_TRUE(Restore());
  }
}

// An engine before 2.0 forces the copy; nobody else gets to read it. One that an older toolkit left
// open is closed though its content is right.
TEST_F(EngineFilesTest, CopiedCredentialsAreForTheOwnerOnly) {
  RecordProperty("holds", "runtimes-and-distributions.md #18");
  ASSERT_EQ(::chmod(config_.c_str(), 0600), 0);
  ASSERT_TRUE(Configure());
  ASSERT_NE(Text(options_.drop_in).find("secret"), std::string::npos);
  EXPECT_EQ(Mode(options_.drop_in), 0600u);
  ASSERT_EQ(::chmod(options_.drop_in.c_str(), 0644), 0);
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Mode(options_.drop_in), 0600u);
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file() || Text(entry.path()).find("secret") == std::string::npos)
      continue;
    EXPECT_EQ(Mode(entry.path()) & 077, 0u) << entry.path();
  }
}

// Headers can be credentials, too; the rest of a site's settings is no secret.
TEST_F(EngineFilesTest, OnlyCredentialsCloseTheCopy) {
  const std::string registry = "[plugins.\"io.containerd.grpc.v1.cri\".registry";
  for (const auto& [table, mode] :
       {std::pair(registry + ".headers]\nAuthorization = [\"Bearer x\"]\n", 0600U),
        std::pair(registry + ".auths.\"https://r.example.com\"]\npassword = \"x\"\n", 0600U),
        std::pair(registry + ".headers]\n", 0644U),
        std::pair(registry + ".configs.\"r.example.com\".auth]\n", 0644U),
        std::pair(registry + ".configs.\"r.example.com\".tls]\nca_file = \"x\"\n", 0644U)}) {
    std::error_code ignored;
    fs::remove(options_.drop_in, ignored);
    folder_.Write("etc/config.toml", "version = 2\n" + table);
    ASSERT_EQ(::chmod(config_.c_str(), 0644), 0);
    ASSERT_TRUE(Configure());
    EXPECT_EQ(Mode(options_.drop_in), mode) << table;
    ASSERT_TRUE(Restore());
  }
}

// What nobody else could read in the root file, nobody else can read in a copy of its table.
TEST_F(EngineFilesTest, ACopyIsNoMoreOpenThanTheRootFile) {
  folder_.Write("etc/config.toml",
                "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"p\"\n");
  ASSERT_EQ(::chmod(config_.c_str(), 0600), 0);
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Mode(options_.drop_in), 0600U);
  ASSERT_TRUE(Restore());
  ASSERT_EQ(::chmod(config_.c_str(), 0640), 0);
  ASSERT_TRUE(Configure());
  EXPECT_EQ(Mode(options_.drop_in), 0640U);
}

// The engine's own words have its imported files in them, which may be for their owner only.
TEST_F(EngineFilesTest, TheRootFileGetsNothingOfADump) {
  const std::string cri = "[plugins.\"io.containerd.grpc.v1.cri\"";
  const codec::Json dump = *ParseEngineConfig(
      EngineKind::kContainerd,
      "version = 2\n" + cri +
          ".registry.configs.\"i.example.com\".auth]\npassword = \"imported\"\n" + cri +
          ".containerd]\ndefault_runtime_name = \"runc\"\n" + cri +
          ".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n" + cri +
          ".containerd.runtimes.runc.options]\nSystemdCgroup = true\n",
      "dump");
  options_.drop_in.clear();
  ASSERT_EQ(::chmod(config_.c_str(), 0640), 0);
  ASSERT_TRUE(ConfigureEngine(options_, dump, "/t", State(), {}));
  EXPECT_EQ(Text(config_).find("imported"), std::string::npos);
  EXPECT_NE(Text(config_).find("secret"), std::string::npos) << "its own";
  EXPECT_NE(Text(config_).find("SystemdCgroup = true"), std::string::npos);
  EXPECT_EQ(Mode(config_), 0640U);
  // One whose tables of runtimes the engine does not read at all.
  folder_.Write("etc/config.toml", "[plugins.cri]\n");
  codec::Json newer = dump;
  newer["version"] = 3;
  const auto refused = ConfigureEngine(options_, newer, "/t", State(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "DropInNeeded");
  EXPECT_EQ(Text(config_), "[plugins.cri]\n");
}

TEST_F(EngineFilesTest, LinksStayLinks) {
  RecordProperty("holds", "runtimes-and-distributions.md #17");
  fs::rename(config_, folder_.path() / "etc/real.toml");
  fs::create_symlink("real.toml", config_);
  ASSERT_TRUE(Configure());
  EXPECT_EQ(fs::read_symlink(config_), "real.toml");
  EXPECT_NE(Text(folder_.path() / "etc/real.toml").find("imports"), std::string::npos);
  EXPECT_NE(Text(folder_.path() / "etc/real.toml").find("# of the site"), std::string::npos);
}

// Absolute targets are the node's, which this process sees below another root.
TEST_F(EngineFilesTest, AbsoluteLinksAreFollowedInTheNodesRoot) {
  const auto real = folder_.Write("host/usr/share/engine.toml", kSite);
  fs::remove(config_);
  fs::create_symlink("/usr/share/engine.toml", config_);
  ASSERT_TRUE(Configure());
  EXPECT_EQ(fs::read_symlink(config_), "/usr/share/engine.toml");
  EXPECT_NE(Text(real).find("imports"), std::string::npos);
  ASSERT_TRUE(Restore());
  EXPECT_FALSE(fs::exists(options_.drop_in));
}

// What cannot be seen is not taken for a missing file, over which a new one would be written.
TEST_F(EngineFilesTest, ALinkOutOfSightIsAnError) {
  for (const auto* target : {"/nowhere/engine.toml", "../../elsewhere/engine.toml"}) {
    fs::remove(config_);
    fs::create_symlink(target, config_);
    const auto configured = ConfigureEngine(options_, codec::Json::object(), "/t", State(), {});
    ASSERT_FALSE(configured) << target;
    EXPECT_EQ(configured.error().reason, "LinkOutOfSight");
    EXPECT_TRUE(fs::is_symlink(config_));
    EXPECT_FALSE(fs::exists(options_.drop_in));
  }
}

// Whatever the step: the next toolkit ends configured, and then the engine's files are the same as
// without the kill.
TEST_F(EngineFilesTest, KilledAtAnyStepItEndsConfigured) {
  ASSERT_TRUE(Configure());
  const auto wanted = Text(options_.drop_in);
  const auto root = Text(config_);
  int steps = 1;
  for (bool killed = true; killed; ++steps) {
    ASSERT_TRUE(Restore());
    folder_.Write("etc/config.toml", kSite);
    killed = test_support::KillAtChange(steps, [&] { (void)Configure(); });
    // Only the journal tells the next one that the engine has not read these files yet.
    const bool changed = fs::exists(options_.drop_in) || Text(config_) != kSite;
    if (killed && changed) {
      EXPECT_TRUE(fs::exists(State() / "engine-change.json")) << "step " << steps;
    }
    const auto again = Configure();
    ASSERT_TRUE(again) << "step " << steps << ": " << again.error().message;
    EXPECT_EQ(Text(options_.drop_in), wanted) << "step " << steps;
    EXPECT_EQ(Text(config_), root) << "step " << steps;
    EXPECT_FALSE(fs::exists(State() / "engine-change.json")) << "step " << steps;
  }
  EXPECT_GT(steps, 8) << "the change has fewer steps than it writes files";
}

// The same on the way out.
TEST_F(EngineFilesTest, KilledWhileItLeavesItCanBeRestoredOrConfigured) {
  ASSERT_TRUE(Configure());
  const auto wanted = Text(options_.drop_in);
  int steps = 1;
  for (bool killed = true; killed; ++steps) {
    ASSERT_TRUE(Configure());
    killed = test_support::KillAtChange(steps, [&] { (void)Restore(); });
    ASSERT_TRUE(steps % 2 == 0 ? Restore() : Configure()) << "step " << steps;
    EXPECT_EQ(Text(options_.drop_in), steps % 2 == 0 ? "(none)" : wanted) << "step " << steps;
    EXPECT_FALSE(fs::exists(State() / "engine-change.json")) << "step " << steps;
  }
  EXPECT_GT(steps, 5);
}

// It may have the only copy of what is to be put back.
TEST_F(EngineFilesTest, AJournalThatCannotBeReadStopsTheChange) {
  folder_.Write("state/engine-change.json", "{");
  EXPECT_FALSE(Configure());
  EXPECT_EQ(Text(config_), kSite);
  folder_.Write("state/engine-change.json", "{\"before\": 3, \"restarting\": true}");
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "InvalidEngineChange");
  EXPECT_EQ(Text(config_), kSite);
}

}  // namespace
}  // namespace pitcrew::node::toolkit
