// The simulated MPS: the control daemon's commands, and what its clients may use
// (device-plugin.md section 17).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "simulation/mps/control.h"
#include "simulation/state/incidents.h"
#include "simulation/testing/process.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

TEST(MpsLimits, OfMemoryHaveUnits) {
  EXPECT_EQ(ParseMemoryLimit("512M"), 512ull << 20);
  EXPECT_EQ(ParseMemoryLimit("2G"), 2ull << 30);
  EXPECT_EQ(ParseMemoryLimit("100MB"), 100ull << 20);
  EXPECT_EQ(ParseMemoryLimit("4096"), 4096u);
  for (const char* wrong : {"", "M", "-1M", "1.5G", "1T", "99999999999999999999G"}) {
    EXPECT_EQ(ParseMemoryLimit(wrong), std::nullopt) << wrong;
  }
}

TEST(MpsLimits, TravelAsText) {
  const MpsLimits limits{12.5, {{"GPU-1", 1 << 20}, {"GPU-2", 2 << 20}}};
  EXPECT_EQ(MpsLimits::Parse(limits.ToText()), limits);
  for (const char* wrong : {"", "0", "101", "x", "50 GPU-1", "50 GPU-1=much"}) {
    EXPECT_EQ(MpsLimits::Parse(wrong), std::nullopt) << wrong;
  }
}

TEST(MpsControl, AnswersCommands) {
  MpsControl control({"GPU-a", "GPU-b"}, 77);
  EXPECT_EQ(control.Handle("get_server_list").text, "");
  EXPECT_EQ(control.Handle("get_default_active_thread_percentage").text, "100.0");
  EXPECT_EQ(control.Handle("set_default_active_thread_percentage 25").text, "25.0");
  EXPECT_EQ(control.Handle("get_default_active_thread_percentage").text, "25.0");
  EXPECT_TRUE(control.Handle("set_default_active_thread_percentage 0").failed);
  EXPECT_FALSE(control.Handle("set_default_device_pinned_mem_limit 1 20389M").failed);
  EXPECT_EQ(control.Handle("get_default_device_pinned_mem_limit 1").text, "20389M");
  EXPECT_TRUE(control.Handle("set_default_device_pinned_mem_limit 2 1M").failed);
  EXPECT_TRUE(control.Handle("set_default_device_pinned_mem_limit 0 plenty").failed);
  EXPECT_TRUE(control.Handle("sing").failed);
  const auto limits = control.Attach(4711);
  EXPECT_EQ(limits.active_thread_percentage, 25);
  EXPECT_EQ(limits.pinned_memory.at("GPU-b"), 20389ull << 20);
  EXPECT_EQ(control.Handle("get_server_list").text, "77");
  EXPECT_EQ(control.Handle("get_client_list").text, "4711");
  control.Detach(4711);
  EXPECT_FALSE(control.HasClients());
  EXPECT_TRUE(control.Handle("quit").quit);
}

// The program, and this process as its client.
class Mps : public ::testing::Test {
 protected:
  Mps() : folder_(MakeTemporaryFolder()) {
    ::setenv(kMpsPipeVariable, (folder_ / "pipe").c_str(), 1);
    ::setenv(kMpsLogVariable, (folder_ / "log").c_str(), 1);
  }
  ~Mps() override {
    if (daemon_) Send("quit -t 0");
    if (library_ != nullptr) ::dlclose(library_);
    ::unsetenv(kMpsPipeVariable);
    ::unsetenv(kMpsLogVariable);
    fs::remove_all(folder_);
  }
  void Start(const std::string& description) {
    node_ = std::make_unique<TestNode>(description);
    node_->Use();
  }
  void StartDaemon() {
    const auto outcome = RunProgram({kControl, "-d"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    daemon_ = true;
  }
  // As the plugin's daemon does: one program for each command, on its standard input.
  Outcome Send(const std::string& command) {
    return RunProgram({"/bin/sh", "-c", "echo '" + command + "' | " + kControl});
  }
  template <class... Arguments>
  int Cuda(const char* name, Arguments... arguments) {
    if (library_ == nullptr) {
      library_ = ::dlopen((test_support::BuildFolder().string() + "/lib/libcuda.so.1").c_str(),
                          RTLD_NOW | RTLD_LOCAL);
    }
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    if (function == nullptr) {
      ADD_FAILURE() << "no function " << name;
      return -1;
    }
    return function(arguments...);
  }
  int MakeContext() {
    EXPECT_EQ(Cuda("cuInit", 0u), 0);
    void* context = nullptr;
    return Cuda("cuCtxCreate_v2", &context, 0u, 0);
  }
  // Of the daemon, from its file.
  int Pid() { return std::stoi(base::ReadFile(PidFile()).value_or("0")); }
  fs::path PidFile() { return folder_ / "pipe/nvidia-cuda-mps-control.pid"; }

  static inline const std::string kControl =
      test_support::BuildFolder().string() + "/bin/nvidia-cuda-mps-control";
  fs::path folder_;
  bool daemon_ = false;
  void* library_ = nullptr;
  std::unique_ptr<TestNode> node_;
};

TEST_F(Mps, CommandsNeedADaemon) {
  EXPECT_EQ(Send("get_server_list").status, 1);
  StartDaemon();
  EXPECT_EQ(RunProgram({kControl, "-d"}).status, 1) << "one daemon for one pipe folder";
  const auto answer = Send("get_default_active_thread_percentage");
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.output, "100.0\n");
  EXPECT_EQ(Send("dance").status, 1);
  EXPECT_NE(
      base::ReadFile(folder_ / "log/control.log").value_or("").find("Starting control daemon"),
      std::string::npos);
  EXPECT_EQ(Send("quit").status, 0);
  daemon_ = false;
}

// device-plugin.md section 17.1: two replicas of one GPU, half of it each.
TEST_F(Mps, ClientsKeepToTheirLimits) {
  Start("gpus: [{profile: H100-80}]");
  StartDaemon();
  EXPECT_EQ(Send("set_default_device_pinned_mem_limit 0 40779M").status, 0);
  EXPECT_EQ(Send("set_default_active_thread_percentage 50").output, "50.0\n");
  ASSERT_EQ(MakeContext(), 0);
  EXPECT_EQ(Send("get_server_list").output, std::to_string(Pid()) + "\n");
  EXPECT_EQ(Send("get_client_list").output, std::to_string(::getpid()) + "\n");
  int multiprocessors = 0;
  EXPECT_EQ(Cuda("cuDeviceGetAttribute", &multiprocessors, 16, 0), 0);
  EXPECT_EQ(multiprocessors, 66);
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(Cuda("cuMemGetInfo_v2", &free, &total), 0);
  EXPECT_EQ(free, 40779ull << 20);
  unsigned long long pointer = 0;
  EXPECT_EQ(Cuda("cuMemAlloc_v2", &pointer, std::size_t{40780ull << 20}), 2) << "out of memory";
  EXPECT_EQ(Cuda("cuMemAlloc_v2", &pointer, std::size_t{1 << 20}), 0);
}

// A client of its own accord takes less, never more.
TEST_F(Mps, VariablesLimitFurther) {
  Start("gpus: [{profile: H100-80}]");
  StartDaemon();
  EXPECT_EQ(Send("set_default_active_thread_percentage 50").status, 0);
  ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", 1);
  ::setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G", 1);
  ASSERT_EQ(MakeContext(), 0);
  int multiprocessors = 0;
  EXPECT_EQ(Cuda("cuDeviceGetAttribute", &multiprocessors, 16, 0), 0);
  EXPECT_EQ(multiprocessors, 33);
  unsigned long long pointer = 0;
  EXPECT_EQ(Cuda("cuMemAlloc_v2", &pointer, std::size_t{2ull << 30}), 2);
  ::unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  ::unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
}

// EXCLUSIVE_PROCESS is what the plugin's daemon sets: one process, or the clients of MPS.
TEST_F(Mps, AnExclusiveGpuIsSharedByClientsOnly) {
  Start("gpus: [{profile: H100-80}]");
  ASSERT_TRUE(node_->file().Update([](NodeState& node) {
    node.gpus[0].compute_mode = 3;
    return AddProcess(node.gpus[0], 1, "other", 1 << 20, false);
  }));
  EXPECT_EQ(MakeContext(), 46) << "device unavailable";
  ::dlclose(std::exchange(library_, nullptr));
  StartDaemon();
  EXPECT_EQ(MakeContext(), 0);
}

TEST_F(Mps, ADeadDaemonEndsItsClients) {
  Start("gpus: [{profile: H100-80}]");
  StartDaemon();
  ASSERT_EQ(MakeContext(), 0);
  const int pid = Pid();
  ASSERT_GT(pid, 1);
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  daemon_ = false;
  pollfd ended{handle, POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, -1), 1);
  ::close(handle);
  unsigned long long pointer = 0;
  EXPECT_EQ(Cuda("cuMemAlloc_v2", &pointer, std::size_t{1 << 20}), 805);
  // A new one takes the folder over.
  StartDaemon();
  EXPECT_NE(Pid(), pid);
}

}  // namespace
}  // namespace pitcrew::simulation
