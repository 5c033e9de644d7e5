// kill -9 at every step that changes something, for every engine: the next toolkit ends configured,
// or the old files are whole, with their modes and owners and with nothing beside them. And another
// writer at every step: what it wrote is never lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine.h"
#include "tests/support/kill_at_change.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Engine {
  const char* name;
  EngineKind kind;
  std::map<std::string, std::string> site;  // files below etc
  std::string config;
  std::string drop_in;
  bool hook = false;
  Placement placement = Placement::kRootFile;
};

const Engine kEngines[] = {
    {"containerd",
     EngineKind::kContainerd,
     {{"config.toml",
       "# of the site\nversion = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
       "  sandbox_image = \"r.example.com/pause:1\"\n"}},
     "config.toml",
     "conf.d/99-nvidia.toml"},
    {"containerd_over_an_older_toolkits",
     EngineKind::kContainerd,
     {{"config.toml", "version = 2\nimports = [\"/x/*.toml\"]\n"},
      {"conf.d/99-nvidia.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"}},
     "config.toml",
     "conf.d/99-nvidia.toml"},
    {"crio",
     EngineKind::kCrio,
     {{"crio.conf", "[crio.runtime]\ndefault_runtime = \"crun\"\n"},
      {"crio.conf.d/99-nvidia.conf", "[crio.runtime.runtimes.other]\nruntime_path = \"/o\"\n"}},
     "crio.conf",
     "crio.conf.d/99-nvidia.conf"},
    {"crio_hook",
     EngineKind::kCrio,
     {{"crio.conf", "[crio.runtime]\n"},
      {"crio.conf.d/99-nvidia.conf", "[crio.runtime]\ndefault_runtime = \"nvidia\"\n"}},
     "crio.conf",
     "crio.conf.d/99-nvidia.conf",
     true},
    {"docker",
     EngineKind::kDocker,
     {{"daemon.json",
       "{\"features\": {\"buildkit\": true}, \"runtimes\": {\"r\": {\"path\": \"/r\"}}}"}},
     "daemon.json",
     ""},
    {"k3s_template",
     EngineKind::kContainerd,
     {{"config.toml", "version = 3\n"}, {"config-v3.toml.tmpl", "# of the site\n{{ x }}\n"}},
     "config.toml",
     "config-v3.toml.tmpl",
     false,
     Placement::kTemplate}};

// Name, content, mode, owner, group.
using Tree = std::map<std::string, std::tuple<std::string, mode_t, uid_t, gid_t>>;

class KilledEngine : public ::testing::TestWithParam<Engine> {
 protected:
  KilledEngine() {
    const Engine& engine = GetParam();
    options_.kind = engine.kind;
    options_.config = Etc() / engine.config;
    if (!engine.drop_in.empty()) options_.drop_in = Etc() / engine.drop_in;
    options_.socket = folder_.path() / "none.sock";
    options_.host_root = folder_.path() / "host";
    options_.restart = RestartMode::kNone;
    options_.config_sources = {"file"};
    options_.set_as_default = true;
    options_.enable_cdi = true;
    if (engine.placement != Placement::kRootFile) {
      options_.distribution = {Distribution::kK3s, engine.placement, "k3s.service"};
      options_.set_as_default = false;
    }
    if (engine.kind == EngineKind::kCrio) {
      options_.hook = {engine.hook, Etc() / "hooks.d/oci-nvidia-hook.json",
                       "/t/nvidia-container-runtime-hook"};
    }
    refused_ = options_;
    refused_.restart = RestartMode::kSystemd;  // of which there is none: every restart fails
    Reset();
  }

  [[nodiscard]] fs::path Etc() const { return folder_.path() / "etc"; }
  [[nodiscard]] fs::path State() const { return folder_.path() / "state"; }
  // The site's files, with modes and owners of their own, and nothing else.
  void Reset() const {
    fs::remove_all(Etc());
    fs::remove_all(State());
    fs::create_directories(State());
    fs::create_directories(Etc() / "hooks.d");
    for (const auto& [name, text] : GetParam().site) {
      const auto path = folder_.Write(fs::path("etc") / name, text);
      if (::geteuid() == 0) {
        ASSERT_EQ(::chown(path.c_str(), 12, 34), 0);
      }
      ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
    }
  }
  [[nodiscard]] Tree Look() const {
    Tree tree;
    for (const auto& entry : fs::recursive_directory_iterator(Etc())) {
      if (entry.is_directory()) continue;
      struct stat status{};
      EXPECT_EQ(::lstat(entry.path().c_str(), &status), 0);
      tree[fs::relative(entry.path(), Etc()).string()] = {
          base::ReadFile(entry.path()).value_or("?"), status.st_mode, status.st_uid, status.st_gid};
    }
    return tree;
  }
  [[nodiscard]] base::Status Configure(const EngineOptions& options) const {
    TRY_ASSIGN(const auto source, ReadEngineConfig(options));
    return ConfigureEngine(options, source, "/t", State(), {});
  }
  [[nodiscard]] base::Status Configure() const { return Configure(options_); }
  [[nodiscard]] base::Status Restore() const { return RestoreEngine(options_, "/t", State()); }
  [[nodiscard]] bool IsStateEmpty() const { return fs::is_empty(State()); }

  test_support::TemporaryFolder folder_;
  EngineOptions options_;
  EngineOptions refused_;
};

TEST_P(KilledEngine, WhileConfiguringTheNextOneEndsConfiguredOrRestored) {
  const Tree site = Look();
  ASSERT_TRUE(Configure());
  const Tree configured = Look();
  ASSERT_NE(configured, site);
  ASSERT_TRUE(Restore());
  const Tree restored = Look();
  // What an older toolkit left is taken away also where this one had not begun.
  Reset();
  ASSERT_TRUE(Restore());
  const Tree not_begun = Look();
  int steps = 1;
  for (bool killed = true; killed; ++steps) {
    Reset();
    killed = test_support::KillAtChange(steps, [&] { (void)Configure(); });
    const bool changed = Look() != site;
    if (killed && changed) {
      EXPECT_TRUE(fs::exists(State() / "engine-change.json")) << "step " << steps;
    }
    const auto again = Configure();
    ASSERT_TRUE(again) << "step " << steps << ": " << again.error().message;
    EXPECT_EQ(Look(), configured) << "step " << steps;
    EXPECT_TRUE(IsStateEmpty()) << "step " << steps;

    Reset();
    (void)test_support::KillAtChange(steps, [&] { (void)Configure(); });
    ASSERT_TRUE(Restore()) << "step " << steps;
    EXPECT_THAT(Look(), AnyOf(not_begun, restored)) << "step " << steps;
    EXPECT_TRUE(IsStateEmpty()) << "step " << steps;
  }
  EXPECT_GT(steps, 8) << "a change has more steps than that";
}

TEST_P(KilledEngine, WhileLeavingTheNextOneEndsRestoredOrConfigured) {
  ASSERT_TRUE(Configure());
  const Tree configured = Look();
  ASSERT_TRUE(Restore());
  const Tree restored = Look();
  // A file that was away comes back as a new one.
  ASSERT_TRUE(Configure());
  const Tree configured_anew = Look();
  int steps = 1;
  for (bool killed = true; killed; ++steps) {
    for (const bool configures : {false, true}) {
      Reset();
      ASSERT_TRUE(Configure());
      killed = test_support::KillAtChange(steps, [&] { (void)Restore(); });
      ASSERT_TRUE(configures ? Configure() : Restore()) << "step " << steps;
      const Tree now = Look();
      if (configures) {
        EXPECT_THAT(now, AnyOf(configured, configured_anew)) << "step " << steps;
      } else {
        EXPECT_EQ(now, restored) << "step " << steps;
      }
      EXPECT_TRUE(IsStateEmpty()) << "step " << steps;
    }
  }
  EXPECT_GT(steps, 3);
}

// The engine does not come up with the new files, and the toolkit is killed while it writes them or
// puts the old ones back.
TEST_P(KilledEngine, WhileRollingBackTheOldStateIsWhole) {
  const Tree site = Look();
  int steps = 1;
  for (bool killed = true; killed; ++steps) {
    Reset();
    killed = test_support::KillAtChange(steps, [&] { (void)Configure(refused_); });
    ASSERT_FALSE(Configure(refused_)) << "step " << steps;
    EXPECT_EQ(Look(), site) << "step " << steps;
    ASSERT_TRUE(Configure()) << "step " << steps;
    EXPECT_NE(Look(), site) << "step " << steps;
    EXPECT_TRUE(IsStateEmpty()) << "step " << steps;
  }
  EXPECT_GT(steps, 8);
}

// Engines whose root file the toolkit writes itself.
class WrittenRootFile : public KilledEngine {};

// Somebody's editor or Ansible renames a file of its own over the root file at any moment.
TEST_P(WrittenRootFile, AnotherWriterAtAnyStepLosesNothing) {
  const bool docker = GetParam().kind == EngineKind::kDocker;
  const std::string theirs = docker ? "{\"theirs\": true}" : "# theirs\nversion = 2\n";
  const auto write = [&] {
    const auto path = folder_.Write("their.new", theirs);
    fs::rename(path, options_.config);
  };
  const auto text = [&] { return base::ReadFile(options_.config).value_or("(none)"); };
  Reset();
  write();
  ASSERT_TRUE(Configure());
  const std::string wanted = text();
  int steps = 1;
  for (bool stopped = true; stopped; ++steps) {
    Reset();
    stopped = test_support::InterruptAtChange(steps, [&] { (void)Configure(); }, write);
    if (!stopped) break;
    EXPECT_THAT(text(), HasSubstr("theirs")) << "step " << steps;
    ASSERT_TRUE(Configure()) << "step " << steps;
    EXPECT_EQ(text(), wanted) << "step " << steps;
    EXPECT_TRUE(IsStateEmpty()) << "step " << steps;

    Reset();
    ASSERT_TRUE(Configure());
    (void)test_support::InterruptAtChange(steps, [&] { (void)Restore(); }, write);
    if (text().find("theirs") == std::string::npos) {
      EXPECT_FALSE(test_support::InterruptAtChange(steps, [&] { (void)Restore(); }, [] {}));
    }
  }
  EXPECT_GT(steps, 8);
}

// What does not parse is somebody's work in progress: nothing is written over it.
TEST_P(WrittenRootFile, AFileThatDoesNotParseStays) {
  const Tree before = [&] {
    folder_.Write(fs::path("etc") / GetParam().config, "{ \"a\" = [1,\n");
    return Look();
  }();
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_THAT(configured.error().message, HasSubstr(GetParam().config));
  EXPECT_EQ(Look(), before);
  EXPECT_FALSE(Restore());
  EXPECT_EQ(Look(), before);
  EXPECT_TRUE(IsStateEmpty());
}

std::vector<Engine> WithRootFile() {
  std::vector<Engine> engines;
  for (const auto& engine : kEngines) {
    if (engine.kind != EngineKind::kCrio && engine.placement == Placement::kRootFile) {
      engines.push_back(engine);
    }
  }
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines, WrittenRootFile, ::testing::ValuesIn(WithRootFile()),
                         [](const auto& engine) { return std::string(engine.param.name); });

INSTANTIATE_TEST_SUITE_P(Engines, KilledEngine, ::testing::ValuesIn(kEngines),
                         [](const auto& engine) { return std::string(engine.param.name); });

}  // namespace
}  // namespace pitcrew::node::toolkit
