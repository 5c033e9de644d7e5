// The MPS control daemon as a program, on simulated GPUs with the simulated driver's
// nvidia-cuda-mps-control.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/strings.h"
#include "host/children.h"
#include "host/process.h"
#include "io/file_watcher.h"
#include "node/mps_folder/mps_folder.h"
#include "node/mps_folder/service_watch.h"
#include "nvml/nvml.h"
#include "simulation/testing/process.h"
#include "tests/support/folders.h"
#include "tests/support/patience.h"
#include "tests/support/simulated_node.h"

namespace pitcrew::node::mps {
namespace {

using test_support::Program;
using test_support::SimulatedNode;
using ::testing::Each;

namespace fs = std::filesystem;

constexpr int kPatienceMilliseconds =
    std::chrono::duration_cast<std::chrono::milliseconds>(test_support::kPatience).count();
constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kPidFile = "nvidia-cuda-mps-control.pid";

// The end of a process that is no child of this one, as an event.
class Watched {
 public:
  explicit Watched(pid_t pid) : end_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  [[nodiscard]] bool EndsInTime() const {
    pollfd entry{end_.get(), POLLIN, 0};
    return !end_.valid() || ::poll(&entry, 1, kPatienceMilliseconds) == 1;
  }

 private:
  base::FileDescriptor end_;
};

class MpsControlDaemon : public ::testing::Test {
 protected:
  MpsControlDaemon() : node_("gpus: [{profile: A100-40, count: 2}]"), folder_(root() / "mps") {
    node_.InstallDriver();
    // The real program knows its driver from the kernel; the simulated one from this file.
    program_ = node_.folder().Write(
        "bin/nvidia-cuda-mps-control",
        "#!/bin/sh\nPITCREW_SIMULATION_STATE=" +
            (node_.driver_root() / "run/nvidia/simulation/state").string() + " exec " +
            test_support::BuildFolder().string() + "/bin/nvidia-cuda-mps-control \"$@\"\n");
    fs::permissions(program_, fs::perms::owner_all);
    fs::create_directories(folder_.path());
    auto watch = mps_folder::ServiceWatch::Create(folder_);
    EXPECT_TRUE(watch) << watch.error().ToString();
    watch_ = std::make_unique<mps_folder::ServiceWatch>(*std::move(watch));
    watch_->Follow({kGpu});
  }
  // What a program that was killed has left behind.
  ~MpsControlDaemon() override {
    const pid_t left = DaemonPid();
    const auto ours = "CUDA_MPS_PIPE_DIRECTORY=" + folder_.PipeFolder(kGpu).string();
    if (left > 1 && host::WasStartedWith(left, ours).value_or(false)) ::kill(left, SIGKILL);
  }
  [[nodiscard]] const fs::path& root() const { return node_.folder().path(); }

  void Share(int replicas) {
    node_.folder().Write("config.yaml",
                         "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: " +
                             std::to_string(replicas) + "}]}}");
  }
  std::unique_ptr<Program> Start(std::vector<std::string> words = {}) {
    words.insert(words.begin(), {folder_.path().string(), node_.driver_root().string()});
    return std::make_unique<Program>(
        "mps_program", std::move(words),
        std::vector<std::string>{"CONFIG_FILE=" + (root() / "config.yaml").string(),
                                 "PATH=" + program_.parent_path().string() + ":/usr/bin:/bin"});
  }
  bool Await(bool serves) {
    while (watch_->Serves(kGpu) != serves) {
      pollfd entry{watch_->fd(), POLLIN, 0};
      if (::poll(&entry, 1, kPatienceMilliseconds) != 1) return false;
      watch_->Take();
    }
    return true;
  }
  // Until another daemon than this one serves.
  bool AwaitOther(pid_t daemon) {
    while (true) {
      watch_->Take();
      const pid_t now = DaemonPid();
      if (watch_->Serves(kGpu) && now != 0 && now != daemon) return true;
      pollfd entry{watch_->fd(), POLLIN, 0};
      if (::poll(&entry, 1, kPatienceMilliseconds) != 1) return false;
    }
  }
  // Until the file is there, or is not.
  static bool AwaitFile(const fs::path& file, bool there) {
    const auto done = [&]() -> base::Result<bool> { return fs::exists(file) == there; };
    return io::WaitForFiles({file.parent_path()}, done, io::StopToken(),
                            base::Deadline::After(test_support::kPatience))
        .has_value();
  }
  std::string Ask(const std::string& command) {
    host::ProgramRun run;
    run.program = program_.string();
    run.environment = {{"CUDA_MPS_PIPE_DIRECTORY", folder_.PipeFolder(kGpu).string()}};
    run.input = command;
    const auto answer = host::ReadProgramOutput(run);
    EXPECT_TRUE(answer) << answer.error().ToString();
    return answer ? std::string(base::Trim(*answer)) : "";
  }
  pid_t DaemonPid() {
    const auto text = base::ReadFile(folder_.PipeFolder(kGpu) / kPidFile);
    // Empty for a moment, while it is written.
    return static_cast<pid_t>(base::ParseUnsigned(base::Trim(text.value_or(""))).value_or(0));
  }
  std::vector<unsigned> ComputeModes() {
    std::vector<unsigned> modes;
    const auto library = nvml::Library::Open({node_.driver_root()});
    EXPECT_TRUE(library) << library.error().ToString();
    const auto inventory = (*library)->ReadInventory();
    for (const auto& device : inventory->devices) {
      modes.push_back((*library)->ReadReadings(device.uuid)->compute_mode.value_or(99));
    }
    return modes;
  }

  SimulatedNode node_;
  const mps_folder::MpsFolder folder_;
  fs::path program_;
  std::unique_ptr<mps_folder::ServiceWatch> watch_;
};

TEST_F(MpsControlDaemon, ServesWithTheLimitsAndGivesTheGpusBack) {
  RecordProperty("holds", "device-plugin.md #48 and section 17.1");
  Share(4);
  const auto program = Start();
  ASSERT_TRUE(Await(true));
  EXPECT_EQ(Ask("get_default_active_thread_percentage"), "25.0");
  // 40,960 MiB by four.
  EXPECT_EQ(Ask("get_default_device_pinned_mem_limit 0"), "10240M");
  EXPECT_EQ(Ask("get_default_device_pinned_mem_limit 1"), "10240M");
  EXPECT_THAT(ComputeModes(), Each(3)) << "EXCLUSIVE_PROCESS";
  EXPECT_TRUE(AwaitFile(folder_.ReadyFile(), true));
  EXPECT_TRUE(fs::exists(folder_.LogFolder(kGpu) / "control.log"));
  const Watched daemon(DaemonPid());

  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0);
  EXPECT_TRUE(daemon.EndsInTime());
  EXPECT_THAT(ComputeModes(), Each(0)) << "DEFAULT";
  EXPECT_FALSE(fs::exists(folder_.ReadyFile()));
  EXPECT_FALSE(fs::exists(folder_.StartedFile(kGpu)));
  EXPECT_FALSE(fs::exists(folder_.LogFolder(kGpu)));
  EXPECT_TRUE(fs::exists(folder_.PipeFolder(kGpu)));
}

TEST_F(MpsControlDaemon, ADaemonThatDiesIsTakenOutAndStartedAgain) {
  Share(2);
  const auto program = Start();
  ASSERT_TRUE(Await(true));
  ASSERT_TRUE(AwaitFile(folder_.ReadyFile(), true));
  const pid_t first = DaemonPid();
  ASSERT_GT(first, 1);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(AwaitOther(first));
  EXPECT_EQ(Ask("get_default_active_thread_percentage"), "50.0");
  EXPECT_TRUE(AwaitFile(folder_.ReadyFile(), true));
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0);
}

TEST_F(MpsControlDaemon, AHangUpReadsTheConfigurationAgain) {
  RecordProperty("holds", "device-plugin.md section 17.1");
  const auto write = [&](int replicas) {
    return node_.folder().Write("b/config.yaml",
                                "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: " +
                                    std::to_string(replicas) + "}]}}");
  };
  // Two links away no event of a folder tells of the change.
  write(2);
  fs::create_directories(root() / "a");
  fs::create_symlink("../b/config.yaml", root() / "a/config.yaml");
  fs::create_symlink("a/config.yaml", root() / "config.yaml");
  const auto program = Start();
  ASSERT_TRUE(Await(true));
  const pid_t first = DaemonPid();
  write(8);
  program->Signal(SIGHUP);
  ASSERT_TRUE(AwaitOther(first));
  EXPECT_EQ(Ask("get_default_active_thread_percentage"), "12.0") << "100 / 8, a whole number";
}

TEST_F(MpsControlDaemon, AnEditedConfigurationIsNoticed) {
  Share(2);
  const auto program = Start();
  ASSERT_TRUE(Await(true));
  const pid_t first = DaemonPid();
  ASSERT_TRUE(base::WriteFileAtomically(root() / "config.yaml",
                                        "sharing: {mps: {resources: [{name: gpu, replicas: 5}]}}"));
  ASSERT_TRUE(AwaitOther(first));
  EXPECT_EQ(Ask("get_default_active_thread_percentage"), "20.0");
}

TEST_F(MpsControlDaemon, WhatDoesNotChangeRunsOn) {
  Share(2);
  const std::string program = test_support::BuildFolder() / "bin/mps_program";
  simulation::Process process({"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh", program,
                               folder_.path().string(), node_.driver_root().string()},
                              {{"CONFIG_FILE", (root() / "config.yaml").string()},
                               {"PATH", program_.parent_path().string() + ":/usr/bin:/bin"}});
  const auto await_line = [&](const std::string& text) {
    for (auto line = process.ReadLine(); !line.empty(); line = process.ReadLine()) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  };
  const auto write = [&](std::string_view text) {
    ASSERT_TRUE(base::WriteFileAtomically(root() / "config.yaml", text));
  };
  ASSERT_TRUE(await_line("clients are served"));
  const pid_t first = DaemonPid();
  write("version: v2\n");
  ASSERT_TRUE(await_line("the new configuration cannot be used"));
  write("sharing: {mps: {resources: [{name: gpu, replicas: 49}]}}");
  ASSERT_TRUE(await_line("maximum allowed replicas exceeded"));
  // Right again, and new only for others; a second reload begins when it has been taken.
  write("flags: {gfd: {oneshot: true}}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}");
  ASSERT_TRUE(await_line("sharing=mps"));
  process.Signal(SIGHUP);
  ASSERT_TRUE(await_line("reloading on SIGHUP"));
  EXPECT_EQ(DaemonPid(), first);
  EXPECT_EQ(::kill(first, 0), 0) << "it runs";
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait().status, 0);
}

TEST_F(MpsControlDaemon, WithoutMpsItWaitsAndIsReady) {
  node_.folder().Write("config.yaml", "version: v1\n");
  const auto program = Start();
  EXPECT_TRUE(AwaitFile(folder_.ReadyFile(), true));
  EXPECT_FALSE(fs::exists(folder_.ResourceFolder(kGpu)));
  EXPECT_THAT(ComputeModes(), Each(0));
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait(), 0);
}

TEST_F(MpsControlDaemon, EndsOnAConfigurationThatCannotBe) {
  RecordProperty("holds", "device-plugin.md #46 and #47");
  Share(49);
  EXPECT_EQ(Start()->Wait(), 1);
  Share(2);
  EXPECT_EQ(Start({"--mig-strategy=mixed"})->Wait(), 1);
  node_.folder().Write("config.yaml", "version: v2\n");
  EXPECT_EQ(Start()->Wait(), 1);
}

TEST_F(MpsControlDaemon, OnlyOneOfANodeRuns) {
  Share(2);
  const auto program = Start();
  ASSERT_TRUE(Await(true));
  EXPECT_EQ(Start()->Wait(), 1);
  EXPECT_TRUE(fs::exists(folder_.StartedFile(kGpu)));
}

TEST_F(MpsControlDaemon, OneThatIsKilledServesNothingUntilTheNext) {
  Share(2);
  auto program = Start();
  ASSERT_TRUE(Await(true));
  const Watched left(DaemonPid());
  program->Signal(SIGKILL);
  program->Wait();
  ASSERT_TRUE(Await(false)) << "though its file and its daemon are still there";
  // The next one tells that daemon to quit, and starts its own.
  program = Start();
  EXPECT_TRUE(left.EndsInTime());
  ASSERT_TRUE(Await(true));
  EXPECT_EQ(Ask("get_default_active_thread_percentage"), "50.0");
}

TEST_F(MpsControlDaemon, WithoutTheDriversProgramItTriesAgain) {
  Share(2);
  fs::rename(program_, root() / "moved");
  const auto program = Start();
  ASSERT_TRUE(AwaitFile(folder_.LogFolder(kGpu), true)) << "it has tried";
  EXPECT_FALSE(fs::exists(folder_.ReadyFile()));
  fs::rename(root() / "moved", program_);
  EXPECT_TRUE(Await(true));
}

}  // namespace
}  // namespace pitcrew::node::mps
