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

// The file of an engine that others write too.
class SharedFile : public KilledEngine {
 protected:
  SharedFile() {
    options_.originals = folder_.path() / "toolkit/engine-before.json";
    refused_.originals = options_.originals;
  }
  // CRI-O's root file, and the one that k3s makes, are only read.
  [[nodiscard]] const fs::path& File() const {
    const bool is_read_only = options_.kind == EngineKind::kCrio ||
                              options_.distribution.placement == Placement::kTemplate;
    return is_read_only ? options_.drop_in : options_.config;
  }
  [[nodiscard]] std::string Theirs() const {
    return options_.kind == EngineKind::kDocker ? "{\"theirs\": true}" : "# theirs\nversion = 2\n";
  }
  // Somebody's editor or Ansible renames a file of its own over it.
  void Write() const { fs::rename(folder_.Write("their.new", Theirs()), File()); }
  [[nodiscard]] std::string Text() const { return base::ReadFile(File()).value_or("(none)"); }
  void ResetAll() const {
    Reset();
    fs::remove_all(folder_.path() / "toolkit");
  }
  // Nothing of theirs is lost: it is what is left when the toolkit leaves.
  void ExpectTheirs(const std::string& when) const {
    ASSERT_TRUE(Configure()) << when;
    EXPECT_TRUE(IsStateEmpty()) << when;
    ASSERT_TRUE(Restore()) << when;
    EXPECT_EQ(Text(), Theirs()) << when;
    EXPECT_TRUE(IsStateEmpty()) << when;
  }

  static constexpr int kMostSteps = 100;
};

TEST_P(SharedFile, AnotherWriterAtAnyStepLosesNothing) {
  ResetAll();
  Write();
  ASSERT_TRUE(Configure());
  const std::string wanted = Text();
  int written = 0;
  for (const bool leaves : {false, true}) {
    for (int step = 1; step <= kMostSteps; ++step) {
      ResetAll();
      if (leaves) {
        ASSERT_TRUE(Configure());
      }
      const auto work = [&] { (void)(leaves ? Restore() : Configure()); };
      if (!test_support::InterruptAtChange(step, work, [&] { Write(); })) break;
      ++written;
      const auto when = "step " + std::to_string(step) + (leaves ? " of leaving" : "");
      if (leaves) {
        EXPECT_EQ(Text(), Theirs()) << when;
      } else if (options_.kind != EngineKind::kCrio) {  // whose drop-in is written as a whole
        EXPECT_THAT(Text(), HasSubstr("theirs")) << when;
      }
      ASSERT_TRUE(Configure()) << when;
      EXPECT_EQ(Text(), wanted) << when;
      ExpectTheirs(when);
    }
  }
  EXPECT_GT(written, 16);
}

// And the toolkit is killed in that moment.
TEST_P(SharedFile, AnotherWriterAndAKillLoseNothing) {
  int killed = 0;
  for (const bool leaves : {false, true}) {
    for (int step = 1; step <= kMostSteps; ++step) {
      ResetAll();
      if (leaves) {
        ASSERT_TRUE(Configure());
      }
      const auto work = [&] { (void)(leaves ? Restore() : Configure()); };
      if (!test_support::KillAfterInterrupt(step, 1, work, [&] { Write(); })) break;
      ++killed;
      ExpectTheirs("step " + std::to_string(step) + (leaves ? " of leaving" : ""));
    }
  }
  EXPECT_GT(killed, 16);
}

// A person changes a file while it is half done, and what comes after that fails: theirs is what is
// put back, not what was there before both.
TEST_P(SharedFile, ARollBackAfterAKillKeepsWhatSomebodyChangedBetween) {
  int killed = 0;
  for (int step = 1; step <= kMostSteps; ++step) {
    ResetAll();
    if (!test_support::KillAtChange(step, [&] { (void)Configure(); })) break;
    ++killed;
    Write();
    ASSERT_FALSE(Configure(refused_)) << "step " << step;
    EXPECT_EQ(Text(), Theirs()) << "step " << step;
    ExpectTheirs("step " + std::to_string(step));
  }
  EXPECT_GT(killed, 8);
}

// What does not parse is somebody's work in progress: nothing is written over it. A template is no
// TOML.
TEST_P(SharedFile, AFileThatDoesNotParseStays) {
  if (options_.distribution.placement == Placement::kTemplate) return;
  folder_.Write(fs::relative(File(), folder_.path()), "{ \"a\" = [1,\n");
  const Tree before = Look();
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_THAT(configured.error().message, HasSubstr(File().filename().string()));
  EXPECT_EQ(Look(), before);
  EXPECT_FALSE(Restore());
  EXPECT_EQ(Look(), before);
  EXPECT_TRUE(IsStateEmpty());
}

// One for each way in which a file is written.
std::vector<Engine> WrittenInTheirOwnWays() {
  std::vector<Engine> engines;
  for (const auto& engine : kEngines) {
    const bool is_alike =
        engine.hook || engine.name == std::string("containerd_over_an_older_toolkits");
    if (!is_alike) engines.push_back(engine);
  }
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines, SharedFile, ::testing::ValuesIn(WrittenInTheirOwnWays()),
                         [](const auto& engine) { return std::string(engine.param.name); });

INSTANTIATE_TEST_SUITE_P(Engines, KilledEngine, ::testing::ValuesIn(kEngines),
                         [](const auto& engine) { return std::string(engine.param.name); });

}  // namespace
}  // namespace pitcrew::node::toolkit
