// The toolkit and a real containerd, in its own folders, under a supervisor as small as a node's
// init.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "codec/toml.h"
#include "host/process.h"
#include "io/file_watcher.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/engine_files.h"
#include "node/toolkit/engine_process.h"
#include "rpc/container_runtime.h"
#include "rpc/testing/fake_container_runtime.h"
#include "tests/support/patience.h"
#include "tests/support/without_pidfd.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::Contains;

// containerd 2 from $PATH or from the cache that the local cluster builds its programs into.
fs::path FindContainerd() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("PATH")) {
    for (const auto& folder : base::Split(path, ':')) folders.emplace_back(folder);
  }
  fs::path cache;
  if (const char* given = std::getenv("PITCREW_CACHE")) {
    cache = given;
  } else if (const char* home = std::getenv("HOME")) {
    cache = fs::path(home) / ".cache/pitcrew";
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(cache / "programs", ignored)) {
    if (entry.path().filename().string().starts_with("containerd-v2"))
      folders.push_back(entry.path());
  }
  for (const auto& folder : folders) {
    host::ProgramRun run;
    run.program = (folder / "containerd").string();
    run.arguments = {"--version"};
    run.deadline = base::SteadyClock::now() + test_support::kPatience;
    const auto version = host::ReadProgramOutput(run);
    if (version && version->find(" v2.") != std::string::npos) return run.program;
  }
  return {};
}

// Starts a program, and again whenever it ends, until it is stopped.
class Supervisor {
 public:
  Supervisor(std::vector<std::string> words, fs::path log, fs::path poison)
      : words_(std::move(words)), log_(std::move(log)), poison_(std::move(poison)) {
    Start();
    thread_ = std::thread([this] { Watch(); });
  }
  ~Supervisor() {
    stopping_ = true;
    ::kill(child_, SIGTERM);
    thread_.join();
  }
  [[nodiscard]] int starts() const { return starts_; }

 private:
  void Start() {
    // A file whose presence keeps the program from coming up: a configuration that it cannot bear.
    const bool poisoned = !poison_.empty() && fs::exists(poison_);
    // As a program that fails early; the supervisor itself never waits.
    std::vector<std::string> words = {"/bin/sh", "-c", "sleep 0.05; exit 1"};
    if (!poisoned) words = words_;
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    // Not fork: this process has other threads, whose locks a copy of it would wait for.
    pid_t child = -1;
    EXPECT_EQ(::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    child_ = child;
    ++starts_;
  }
  void Watch() {
    while (true) {
      int status = 0;
      if (::waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
      if (stopping_) return;
      Start();
      if (stopping_) ::kill(child_, SIGTERM);
    }
  }

  std::vector<std::string> words_;
  fs::path log_;
  fs::path poison_;
  std::atomic<pid_t> child_ = 0;
  std::atomic<int> starts_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

class Containerd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "containerd needs root";
    program_ = FindContainerd();
    if (program_.empty()) GTEST_SKIP() << "there is no containerd 2 in PATH or the cache";
    folder_ = fs::path(::testing::TempDir()) / ("pitcrew-containerd-" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "conf.d");
    ASSERT_TRUE(base::WriteFileAtomically(folder_ / "config.toml", Config()));
    options_.kind = EngineKind::kContainerd;
    options_.config = folder_ / "config.toml";
    options_.drop_in = folder_ / "conf.d/99-nvidia.toml";
    options_.socket = folder_ / "containerd.sock";
    options_.restart = RestartMode::kSignal;
    options_.host_root = "/";
    options_.enable_cdi = true;
    options_.set_as_default = false;
  }
  void TearDown() override {
    supervisor_.reset();
    if (folder_.empty()) return;
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::string Config() const {
    const std::string base = folder_.string();
    return "# this comment stays\nversion = 3\nroot = \"" + base + "/root\"\nstate = \"" + base +
           "/state\"\n\n[grpc]\n  address = \"" + base +
           "/containerd.sock\"\n\n[plugins.\"io.containerd.cri.v1.runtime\"]\n"
           "  restrict_oom_score_adj = true\n[plugins.\"io.containerd.cri.v1.runtime\".cni]\n  "
           "conf_dir "
           "= \"" +
           base + "/cni\"\n";
  }

  void Start(const fs::path& poison = {}) {
    supervisor_ = std::make_unique<Supervisor>(
        std::vector<std::string>{program_.string(), "--config", options_.config.string()},
        folder_ / "containerd.log", poison);
    const auto up = WaitForEngine(options_.kind, options_.socket, {},
                                  base::SteadyClock::now() + test_support::kPatience);
    ASSERT_TRUE(up) << up.error().message << "\n"
                    << base::ReadFile(folder_ / "containerd.log").value_or("");
  }

  // What the running containerd's own program makes of the files.
  [[nodiscard]] codec::Json Runtimes() const {
    const auto dump = DumpEngineConfig(options_);
    EXPECT_TRUE(dump) << dump.error().message;
    const auto config = codec::ParseToml(dump.value_or(""));
    const auto* runtimes =
        codec::Find(*config, {"plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes"});
    return runtimes != nullptr ? *runtimes : codec::Json();
  }
  [[nodiscard]] base::Status Configure() const {
    TRY_ASSIGN(const auto source, ReadEngineConfig(options_));
    return ConfigureEngine(options_, source, "/opt/t/toolkit", folder_, {});
  }
  // What the running containerd tells the kubelet.
  [[nodiscard]] std::vector<std::string> Handlers() const {
    const auto status = rpc::WaitForContainerRuntime(
        options_.socket, {}, base::SteadyClock::now() + test_support::kPatience);
    EXPECT_TRUE(status) << status.error().message;
    return status ? status->handlers : std::vector<std::string>();
  }
  [[nodiscard]] pid_t Pid() const {
    const auto engine = FindEngine(options_.socket);
    return engine ? engine->pid : -1;
  }

  fs::path program_;
  fs::path folder_;
  EngineOptions options_;
  std::unique_ptr<Supervisor> supervisor_;
};

// container-toolkit.md 4.14, 4.15, #29, #40; 13 rows 4, 5, 18.
TEST_F(Containerd, IsConfiguredRestartedOnceAndPutBack) {
  RecordProperty("holds", "container-toolkit.md #29, #40; runtimes-and-distributions.md #13, #15");
  Start();
  const pid_t first = Pid();
  const auto configured = Configure();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_EQ(supervisor_->starts(), 2);
  EXPECT_NE(Pid(), first);
  EXPECT_THAT(Handlers(), Contains("nvidia"));
  const auto runtimes = Runtimes();
  EXPECT_EQ(codec::FindString(runtimes, {"nvidia", "options", "BinaryName"}),
            "/opt/t/toolkit/nvidia-container-runtime");
  EXPECT_EQ(codec::FindString(runtimes, {"nvidia-cdi", "options", "BinaryName"}),
            "/opt/t/toolkit/nvidia-container-runtime.cdi");
  EXPECT_EQ(codec::FindString(runtimes, {"nvidia-legacy", "options", "BinaryName"}),
            "/opt/t/toolkit/nvidia-container-runtime.legacy");
  EXPECT_EQ(codec::FindString(runtimes, {"runc", "runtime_type"}), "io.containerd.runc.v2");
  const auto top_level = *base::ReadFile(options_.config);
  EXPECT_NE(top_level.find("# this comment stays"), std::string::npos);
  EXPECT_NE(top_level.find("imports = [\"" + folder_.string() + "/conf.d/*.toml\"]"),
            std::string::npos);

  // The container restarts: nothing changed, containerd keeps running.
  const pid_t second = Pid();
  ASSERT_TRUE(Configure());
  EXPECT_EQ(supervisor_->starts(), 2);
  EXPECT_EQ(Pid(), second);

  // A killed toolkit left files and a due restart behind.
  ASSERT_TRUE(WriteEngineChange(folder_, {.before = {}, .restarting = true}));
  ASSERT_TRUE(Configure());
  EXPECT_EQ(supervisor_->starts(), 3);

  const auto restored = RestoreEngine(options_, "/opt/t/toolkit", folder_);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(supervisor_->starts(), 4);
  EXPECT_FALSE(Runtimes().contains("nvidia"));
  EXPECT_FALSE(fs::exists(options_.drop_in));
}

// Kernels before 5.3 have no pidfd, and seccomp profiles of older container runtimes forbid it.
TEST_F(Containerd, IsRestartedWhereThereIsNoPidfd) {
  Start();
  const pid_t first = Pid();
  test_support::WithoutPidfd([&] {
    const auto engine = FindEngine(options_.socket);
    ASSERT_TRUE(engine) << engine.error().message;
    EXPECT_FALSE(engine->handle.valid());
    const auto configured = Configure();
    ASSERT_TRUE(configured) << configured.error().message;
  });
  EXPECT_EQ(supervisor_->starts(), 2);
  EXPECT_NE(Pid(), first);
}

// What was written is put back when the engine does not come back with it.
TEST_F(Containerd, OldFilesAreBackWhenItDoesNotComeUp) {
  RecordProperty("holds", "runtimes-and-distributions.md #15");
  Start(options_.drop_in);
  options_.restart_time = 3s;
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "EngineDidNotComeBack");
  EXPECT_FALSE(fs::exists(options_.drop_in));
  EXPECT_EQ(*base::ReadFile(options_.config), Config());
  EXPECT_TRUE(WaitForEngine(options_.kind, options_.socket, {},
                            base::SteadyClock::now() + test_support::kPatience));
}

// The toolkit was killed after it had written, and the engine does not come up with that: what was
// there before the first of the two is put back.
TEST_F(Containerd, WhatAKilledToolkitChangedIsPutBackToo) {
  Start();
  const SavedFile config{{options_.config, Config()}, 0600, ::geteuid(), ::getegid()};
  ASSERT_TRUE(
      WriteEngineChange(folder_, {.before = {config, {.file = {options_.drop_in, std::nullopt}}}}));
  ASSERT_TRUE(base::WriteFileAtomically(options_.drop_in, "version = 9\n"));
  ASSERT_TRUE(base::WriteFileAtomically(options_.config, Config() + "# changed\n"));
  options_.executable = "/bin/false";  // as a containerd that refuses the configuration
  const pid_t before = Pid();
  const auto configured = ConfigureEngine(options_, codec::Json::object({{"version", 3}}),
                                          "/opt/t/toolkit", folder_, {});
  ASSERT_FALSE(configured);
  EXPECT_EQ(*base::ReadFile(options_.config), Config());
  EXPECT_FALSE(fs::exists(options_.drop_in));
  EXPECT_EQ(Pid(), before);
  EXPECT_FALSE(fs::exists(folder_ / "engine-change.json"));
}

// A root file of version 2, as kubeadm and others of the time of containerd 1.7 wrote it, under
// containerd 2: its settings go on to hold, and no drop-in is above it.
TEST_F(Containerd, ARootOfVersion2KeepsItsSettings) {
  RecordProperty("holds", "runtimes-and-distributions.md #2, #11, #12, #19");
  const std::string base = folder_.string();
  const std::string cri = "plugins.\"io.containerd.grpc.v1.cri\"";
  ASSERT_TRUE(base::WriteFileAtomically(
      options_.config,
      "version = 2\nroot = \"" + base + "/root\"\nstate = \"" + base +
          "/state\"\n[grpc]\n  address = \"" + base + "/containerd.sock\"\n[" + cri +
          "]\n  restrict_oom_score_adj = true\n  sandbox_image = \"r.example.com/pause:1\"\n[" +
          cri + ".cni]\n  conf_dir = \"" + base + "/cni\"\n[" + cri +
          ".registry]\n  config_path = \"/certs\"\n[" + cri +
          ".containerd.runtimes.runc]\n  runtime_type = \"io.containerd.runc.v2\"\n[" + cri +
          ".containerd.runtimes.runc.options]\n  SystemdCgroup = true\n"));
  Start();
  const auto settings = [&] {
    const auto config =
        codec::ParseToml(DumpEngineConfig(options_).value_or("")).value_or(codec::Json());
    const auto& plugins = config.at("plugins");
    const auto& images = plugins.at("io.containerd.cri.v1.images");
    return codec::Json::object({{"cni", plugins.at("io.containerd.cri.v1.runtime").at("cni")},
                                {"sandbox", images.at("pinned_images").at("sandbox")},
                                {"registry", images.at("registry").at("config_path")}});
  };
  const auto before = settings();
  ASSERT_EQ(before["sandbox"], "r.example.com/pause:1");
  const auto configured = Configure();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_EQ(settings(), before);
  EXPECT_THAT(Handlers(), Contains("nvidia"));
  const auto runtimes = Runtimes();
  EXPECT_EQ(codec::FindString(runtimes, {"nvidia", "runtime_type"}), "io.containerd.runc.v2");
  EXPECT_TRUE(runtimes.at("nvidia").at("options").at("SystemdCgroup").get<bool>());
  EXPECT_EQ(codec::ParseToml(*base::ReadFile(options_.drop_in))->at("version"), 2);
  ASSERT_TRUE(RestoreEngine(options_, "/opt/t/toolkit", folder_));
  EXPECT_FALSE(Runtimes().contains("nvidia"));
  EXPECT_EQ(settings(), before);
}

// As k0s does it: it follows the folder, and ends containerd by itself when a file appears there.
TEST_F(Containerd, ADistributionThatRestartsItByItselfIsWaitedFor) {
  RecordProperty("holds", "runtimes-and-distributions.md #34, #35");
  ASSERT_TRUE(base::WriteFileAtomically(
      options_.config, "imports = [\"" + folder_.string() + "/conf.d/*.toml\"]\n" + Config()));
  Start();
  options_.distribution = {Distribution::kK0s, Placement::kDropIn, {}};
  options_.restart = RestartMode::kByDistribution;
  options_.restart_time = test_support::kPatience;
  const pid_t before = Pid();
  std::thread k0s([&] {
    (void)io::WaitForFiles({options_.drop_in.parent_path()},
                           [&]() -> base::Result<bool> { return fs::exists(options_.drop_in); },
                           {});
    ::kill(before, SIGTERM);
  });
  const auto configured = Configure();
  k0s.join();
  ASSERT_TRUE(configured) << configured.error().message;
  EXPECT_EQ(supervisor_->starts(), 2);
  EXPECT_THAT(Handlers(), Contains("nvidia-legacy"));
  // A killed toolkit had written before k0s restarted it: there is nothing to wait for.
  ASSERT_TRUE(WriteEngineChange(folder_, {.before = {}, .restarting = false}));
  ASSERT_TRUE(Configure());
  EXPECT_EQ(supervisor_->starts(), 2);
}

// A configuration that containerd itself refuses is put back without any restart.
TEST_F(Containerd, ARefusedConfigurationCausesNoRestart) {
  RecordProperty("holds", "runtimes-and-distributions.md #14");
  Start();
  options_.drop_in = folder_ / "elsewhere/99-nvidia.toml";
  options_.drop_in_host_path = (folder_ / "not-there/99-nvidia.toml").string();
  const pid_t before = Pid();
  const auto configured = Configure();
  ASSERT_FALSE(configured);
  EXPECT_EQ(configured.error().reason, "EngineConfigNotEffective");
  EXPECT_EQ(Pid(), before);
  EXPECT_FALSE(fs::exists(options_.drop_in));
  EXPECT_EQ(*base::ReadFile(options_.config), Config());
}

// A restarted containerd greets before it takes pods. Who goes on then makes the kubelet fail, and
// the kubelet comes back only 10 seconds later.
TEST(WaitForEngine, GoesOnWhenContainerdTakesPods) {
  const auto folder =
      fs::path(::testing::TempDir()) / ("pitcrew-cri-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto socket = folder / "containerd.sock";
  const auto runtime = rpc::testing::FakeContainerRuntime::Start(socket, 3, {"nvidia"});
  ASSERT_TRUE(runtime);
  const auto up = WaitForEngine(EngineKind::kContainerd, socket, {},
                                base::SteadyClock::now() + test_support::kPatience);
  EXPECT_TRUE(up) << up.error().message;
  EXPECT_EQ(runtime->refused(), 3);
  EXPECT_EQ(runtime->answered(), 1);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pitcrew::node::toolkit
