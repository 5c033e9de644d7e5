// The life of a driver container on a node of its own: mount namespace, host root, container root.
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "simulation/description/description.h"
#include "simulation/driver/files.h"
#include "simulation/driver/mounts.h"
#include "simulation/driver/pci_tree.h"
#include "simulation/state/readings.h"
#include "simulation/testing/process.h"
#include "simulation/testing/simulated_sysfs.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion = "570.124.06";
constexpr const char* kDescriptionText = "gpus: [{profile: H100-80, count: 2}, {profile: T4}]\n";

void Mount(const fs::path& source, const fs::path& target, unsigned long flags,
           const char* type = nullptr) {
  fs::create_directories(target);
  ASSERT_EQ(::mount(source.c_str(), target.c_str(), type, flags, nullptr), 0)
      << target << ": " << std::strerror(errno);
}

void CopyLibrariesOf(const fs::path& object, const fs::path& root) {
  const auto listed = RunProgram({"ldd", object.string()});
  std::istringstream lines(listed.output);
  std::string line;
  while (std::getline(lines, line)) {
    const auto slash = line.find('/');
    if (slash == std::string::npos) continue;
    const fs::path library = line.substr(slash, line.find(' ', slash) - slash);
    const fs::path target = root / library.relative_path();
    fs::create_directories(target.parent_path());
    fs::copy_file(library, target, fs::copy_options::skip_existing);
  }
}

void CopyWithLibraries(const fs::path& program, const fs::path& root) {
  fs::create_directories(root / "usr/bin");
  fs::copy_file(program, root / "usr/bin" / program.filename());
  CopyLibrariesOf(program, root);
}

// Everything happens in a mount namespace that ends with the test.
class DriverContainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: it mounts";
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    base_ = MakeTemporaryFolder();
    Mount("tmpfs", base_, 0, "tmpfs");
    MakeHost();
    MakeContainer();
  }
  void TearDown() override {
    if (!base_.empty()) {
      ::umount2(base_.c_str(), MNT_DETACH);
      fs::remove(base_);
    }
  }

  void MakeHost() {
    fs::create_directories(host() / "etc/pitcrew");
    std::ofstream(host() / "etc/pitcrew/simulated-gpus.yaml") << kDescriptionText;
    fs::create_directories(run());
    // Shared with the container, like a volume with two-way propagation.
    Mount(run(), run(), MS_BIND);
    ASSERT_EQ(::mount(nullptr, run().c_str(), nullptr, MS_SHARED, nullptr), 0);
    const auto node = ParseDescription(kDescriptionText, "test", {"node", "", {}});
    ASSERT_TRUE(node);
    ASSERT_TRUE(WritePciTree(pci(), *node));
  }
  void MakeContainer() {
    const fs::path build = test_support::BuildFolder();
    for (const char* program : {"bin/pitcrew-simulate", "bin/nvidia-smi"}) {
      CopyWithLibraries(build / program, container());
    }
    // The driver's own libraries ask for parts of glibc that no program here does.
    CopyLibrariesOf(build / "lib/libnvidia-ml.so.1", container());
    ASSERT_TRUE(
        InstallDriverFiles(container(), kVersion, {build / "lib", build / "bin/nvidia-smi"}));
    for (const char* folder : {"dev", "tmp", "proc"}) fs::create_directories(container() / folder);
    Mount(container(), container(), MS_BIND);
    Mount(run(), container() / "run/nvidia", MS_BIND);
    Mount("/sys", container() / "sys", MS_BIND | MS_REC);
    Mount("/proc", container() / "proc", MS_BIND | MS_REC);
    Mount("tmpfs", container() / "dev", 0, "tmpfs");
    Mount(host(), container() / "host", MS_BIND | MS_REC);
    ASSERT_EQ(
        ::mount(nullptr, (container() / "host").c_str(), nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  }

  // Starts the container's program and waits, through inotify, until it is ready.
  std::unique_ptr<Process> StartDriver() {
    const auto status = run() / "validations/.driver-daemons-status";
    fs::create_directories(status.parent_path());
    fs::remove(status);  // what a killed container left says nothing about the next
    const int watch = ::inotify_init1(IN_CLOEXEC);
    ::inotify_add_watch(watch, status.parent_path().c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
    auto driver = std::make_unique<Process>(
        std::vector<std::string>{"unshare", "--mount", "--propagation", "unchanged", "chroot",
                                 container().string(), "/usr/bin/pitcrew-simulate", "driver",
                                 "--host-root", "/host"},
        std::map<std::string, std::string>{{"NODE_NAME", "gpu-node"}});
    char buffer[4096];
    while (base::ReadFile(status).value_or("") != "Ready\n") {
      if (::read(watch, buffer, sizeof(buffer)) <= 0) break;
    }
    ::close(watch);
    return driver;
  }
  Outcome Smi(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"chroot", (run() / "driver").string(), "nvidia-smi"});
    return RunProgram(arguments, {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}});
  }

  [[nodiscard]] fs::path host() const { return base_ / "host"; }
  [[nodiscard]] fs::path run() const { return host() / "run/nvidia"; }
  [[nodiscard]] fs::path pci() const { return host() / "sys/bus/pci/devices"; }
  [[nodiscard]] fs::path container() const { return base_ / "container"; }

  fs::path base_;
};

// driver-lifecycle.md sections 1.2, 8.4 and 9.8
TEST_F(DriverContainerTest, DoesToTheNodeWhatADriverContainerDoes) {
  auto driver = StartDriver();
  EXPECT_EQ(base::ReadFile(run() / "driver/sys/module/nvidia/refcnt").value_or(""), "0\n");
  const auto minors = run() / "driver/proc/driver/nvidia-caps/mig-minors";
  EXPECT_TRUE(base::ReadFile(minors).value_or("").starts_with("config 1\nmonitor 2\n"));
  EXPECT_TRUE(fs::exists(run() / "nvidia-driver.pid"));
  EXPECT_EQ(fs::canonical(pci() / "0000:1b:00.0/driver").filename(), "nvidia");
  for (const char* node : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"}) {
    EXPECT_TRUE(fs::is_character_file(run() / "driver/dev" / node)) << node;
  }
  EXPECT_TRUE(
      fs::exists(run() / "driver/usr/lib/x86_64-linux-gnu/libnvidia-simulation.so.570.124.06"));
  const auto listed = Smi({"--query-gpu=name,driver_version", "--format=csv,noheader"});
  EXPECT_EQ(listed.status, 0) << listed.output;
  EXPECT_EQ(listed.output,
            "NVIDIA H100 80GB HBM3, 570.124.06\nNVIDIA H100 80GB HBM3, 570.124.06\n"
            "Tesla T4, 570.124.06\n");
  // validator.md section 3.3: run without chroot, the library preloaded.
  const auto root = run() / "driver";
  const auto preloaded = RunProgram(
      {(root / "usr/bin/nvidia-smi").string(), "-L"},
      {{"LD_PRELOAD", (root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.124.06").string()}});
  EXPECT_EQ(preloaded.status, 0) << preloaded.output << preloaded.errors;
  EXPECT_NE(preloaded.output.find("GPU 2: Tesla T4"), std::string::npos) << preloaded.output;
  // Only one at a time.
  const auto second = RunProgram({"unshare", "--mount", "--propagation", "unchanged", "chroot",
                                  container().string(), "/usr/bin/pitcrew-simulate", "driver",
                                  "--host-root", "/host"});
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.errors.find("DriverContainerRunning"), std::string::npos) << second.errors;
  EXPECT_EQ(Smi({"-L"}).status, 0) << "the second one's failure touches nothing";
  driver->Signal(SIGTERM);
  EXPECT_EQ(driver->Wait().status, 0);
}

TEST_F(DriverContainerTest, UndoesEverything) {
  auto driver = StartDriver();
  driver->Signal(SIGTERM);
  const auto outcome = driver->Wait();
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const auto mounts = MountsBelow(run() / "driver");
  ASSERT_TRUE(mounts);
  EXPECT_TRUE(mounts->empty());
  EXPECT_FALSE(fs::exists(run() / "nvidia-driver.pid"));
  EXPECT_TRUE(fs::is_empty(run() / "validations"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(pci() / "0000:1b:00.0/driver")));
  EXPECT_TRUE(fs::is_empty(container() / "dev"));
  // GPUs outlive their driver.
  const auto state = StateFile::Open(run() / "simulation/state");
  ASSERT_TRUE(state);
  EXPECT_EQ((*state)->Snapshot()->driver_loaded, 0u);
}

TEST_F(DriverContainerTest, GpusOutliveTheirDriver) {
  {
    auto driver = StartDriver();
    const auto state = StateFile::Open(run() / "simulation/state");
    ASSERT_TRUE(state);
    ASSERT_TRUE((*state)->Update([](NodeState& node) {
      node.gpus[0].ecc_corrected_aggregate = 5;
      SetLoad(node.gpus[1], 60, RealtimeNow());
      return true;
    }));
    driver->Signal(SIGTERM);
    ASSERT_EQ(driver->Wait().status, 0);
  }
  auto driver = StartDriver();
  const auto state = StateFile::Open(run() / "simulation/state");
  ASSERT_TRUE(state);
  EXPECT_EQ((*state)->Snapshot()->gpus[0].ecc_corrected_aggregate, 5u);
  EXPECT_EQ((*state)->Snapshot()->gpus[1].load, 60u);
  EXPECT_EQ((*state)->Snapshot()->driver_loaded, 1u);
  EXPECT_STREQ((*state)->Snapshot()->node_name, "gpu-node");
}

// A container that was killed leaves its root mounted and its files; the next one takes over.
TEST_F(DriverContainerTest, ComesBackAfterBeingKilled) {
  StartDriver()->Signal(SIGKILL);
  auto driver = StartDriver();
  EXPECT_EQ(Smi({"-L"}).status, 0);
  driver->Signal(SIGTERM);
  EXPECT_EQ(driver->Wait().status, 0);
  EXPECT_TRUE(MountsBelow(run() / "driver")->empty());
}

// On a node whose /sys has drivers that come and go.
class OnSimulatedSysfs : public DriverContainerTest {
 protected:
  void SetUp() override {
    if (!SimulatedSysfs::IsPossible()) GTEST_SKIP() << "needs root and /dev/fuse";
    DriverContainerTest::SetUp();
    const std::string description = Description();
    machine_ = std::make_unique<SimulatedSysfs>(description, false, run() / "simulation/state");
    std::ofstream(host() / "etc/pitcrew/simulated-gpus.yaml") << description;
    Mount(machine_->sys(), container() / "host/sys", MS_BIND | MS_REC);
  }
  [[nodiscard]] virtual std::string Description() const { return "gpus: [{profile: T4}]\n"; }
  void TearDown() override {
    ::umount2((container() / "host/sys").c_str(), MNT_DETACH);
    machine_.reset();
    DriverContainerTest::TearDown();
  }
  // Its standard error comes as lines of standard output.
  [[nodiscard]] std::unique_ptr<Process> Start() const {
    return std::make_unique<Process>(
        std::vector<std::string>{"sh", "-c",
                                 "exec unshare --mount --propagation unchanged chroot \"$0\" "
                                 "/usr/bin/pitcrew-simulate driver "
                                 "--host-root /host 2>&1",
                                 container().string()});
  }
  static void AwaitLoaded(Process& driver) {
    std::string line;
    do {
      line = driver.ReadLine();
      ASSERT_FALSE(line.empty()) << "it has ended before it was ready";
    } while (line.find("The driver is loaded") == std::string::npos);
  }
  [[nodiscard]] fs::path Module() const { return machine_->sys() / "module/nvidia"; }
  [[nodiscard]] fs::path Gpu() const { return machine_->sys() / "bus/pci/devices/0000:1b:00.0"; }
  [[nodiscard]] std::string DriverOf(const fs::path& device) const {
    std::error_code error;
    return fs::read_symlink(device / "driver", error).filename();
  }
  std::unique_ptr<SimulatedSysfs> machine_;
};

// driver-lifecycle.md sections 4.3 and 9.10
TEST_F(OnSimulatedSysfs, ADriverInUseIsNotUnloaded) {
  auto driver = Start();
  AwaitLoaded(*driver);
  EXPECT_EQ(base::ReadFile(Module() / "version").value_or(""), std::string(kVersion) + "\n");
  EXPECT_EQ(base::ReadFile(Module() / "refcnt").value_or(""), "3\n");
  const auto program = *StateFile::Open(run() / "simulation/state");
  ASSERT_TRUE(program->UseDriver());
  driver->Signal(SIGTERM);
  EXPECT_NE(driver->ReadLine().find("The driver is in use"), std::string::npos);
  EXPECT_EQ(DriverOf(Gpu()), "nvidia");
  EXPECT_TRUE(fs::exists(run() / "nvidia-driver.pid"));
  program->LeaveDriver();
  EXPECT_EQ(driver->Wait().status, 0);
  EXPECT_FALSE(fs::exists(Module()));
  EXPECT_EQ(DriverOf(Gpu()), "");
  EXPECT_FALSE(fs::exists(run() / "nvidia-driver.pid"));
}

// As the kubelet does it when its patience is at an end.
TEST_F(OnSimulatedSysfs, AContainerKilledMeanwhileLeavesItLoaded) {
  auto driver = Start();
  AwaitLoaded(*driver);
  auto program = *StateFile::Open(run() / "simulation/state");
  ASSERT_TRUE(program->UseDriver());
  driver->Signal(SIGTERM);
  ASSERT_NE(driver->ReadLine().find("The driver is in use"), std::string::npos);
  driver->Signal(SIGKILL);
  (void)driver->Wait();
  EXPECT_EQ(base::ReadFile(Module() / "refcnt").value_or(""), "3\n");
  EXPECT_EQ(DriverOf(Gpu()), "nvidia");
  program.reset();
  EXPECT_FALSE(fs::exists(Module()));
  EXPECT_EQ(DriverOf(Gpu()), "");
  auto next = Start();
  AwaitLoaded(*next);
  EXPECT_EQ(base::ReadFile(Module() / "refcnt").value_or(""), "3\n");
  next->Signal(SIGTERM);
  EXPECT_EQ(next->Wait().status, 0);
}

// With sriov-manage among its files, on a node whose kernel makes virtual functions.
class VgpuManagerTest : public OnSimulatedSysfs {
 protected:
  void SetUp() override {
    OnSimulatedSysfs::SetUp();
    if (IsSkipped()) return;
    fs::create_directories(container() / "usr/lib/nvidia");
    fs::create_symlink("/usr/bin/pitcrew-simulate", container() / "usr/lib/nvidia/sriov-manage");
  }
  [[nodiscard]] std::string Description() const override {
    return "kernel: {vgpu: mdev}\ngpus: [{profile: A10}]\n";
  }
};

// driver-lifecycle.md section 11.2, steps 6 to 8, and the signal.
TEST_F(VgpuManagerTest, MakesVirtualFunctionsAndTakesThemAway) {
  auto manager = Start();
  AwaitLoaded(*manager);
  EXPECT_EQ(base::ReadFile(Gpu() / "sriov_numvfs").value_or(""), "24\n");
  EXPECT_EQ(DriverOf(Gpu()), "nvidia");
  EXPECT_EQ(DriverOf(Gpu() / "virtfn23"), "nvidia");
  EXPECT_FALSE(fs::exists(run() / "validations/.driver-daemons-status")) << "of drivers only";
  manager->Signal(SIGTERM);
  EXPECT_EQ(manager->Wait().status, 0);
  EXPECT_EQ(base::ReadFile(Gpu() / "sriov_numvfs").value_or(""), "0\n");
  EXPECT_EQ(DriverOf(Gpu()), "");
}

TEST_F(VgpuManagerTest, WithoutVirtualFunctionsItDoesNotStart) {
  machine_->Command("fault 0000:1b:00.0 sriov ENOMEM");
  EXPECT_EQ(Start()->Wait().status, 1);
  EXPECT_EQ(DriverOf(Gpu()), "") << "what was done is undone";
  EXPECT_FALSE(fs::exists(run() / "nvidia-driver.pid"));
}

TEST_F(DriverContainerTest, AMalformedDescriptionStopsItAndLeavesNothing) {
  std::ofstream(host() / "etc/pitcrew/simulated-gpus.yaml") << "gpus: [{profile: none}]\n";
  const auto outcome = RunProgram({"unshare", "--mount", "--propagation", "unchanged", "chroot",
                                   container().string(), "/usr/bin/pitcrew-simulate", "driver",
                                   "--host-root", "/host"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("simulated-gpus.yaml:1:"), std::string::npos) << outcome.errors;
  EXPECT_FALSE(fs::exists(run() / "nvidia-driver.pid"));
  EXPECT_TRUE(MountsBelow(run() / "driver")->empty());
}

}  // namespace
}  // namespace pitcrew::simulation
