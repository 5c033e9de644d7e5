#include "nvml/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/bell.h"
#include "nvml/errors.h"
#include "nvml/guarded.h"
#include "simulation/state/incidents.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::nvml {
namespace {

namespace fs = std::filesystem;
using simulation::TestNode;

// A driver root whose library is the given file.
class Root {
 public:
  explicit Root(const fs::path& library, const char* folder = "usr/lib/x86_64-linux-gnu")
      : path_(simulation::MakeTemporaryFolder()) {
    fs::create_directories(path_ / folder);
    // A copy: a link that leaves the root is not followed.
    fs::copy_file(library, path_ / folder / "libnvidia-ml.so.1");
  }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

const fs::path kBuild = test_support::BuildFolder();

class Nvml : public ::testing::Test {
 protected:
  void Start(const std::string& description) {
    node_ = std::make_unique<TestNode>(description);
    node_->Use();
    auto library = Library::Open({root_.path()});
    ASSERT_TRUE(library) << library.error().message;
    library_ = *std::move(library);
  }
  template <class Function>
  void Change(Function change) {
    ASSERT_TRUE(node_->file().Update([&](simulation::NodeState& state) {
      change(state);
      return true;
    }));
  }
  gpu::Inventory Read() {
    auto inventory = library_->ReadInventory();
    EXPECT_TRUE(inventory) << inventory.error().message;
    return inventory.value_or(gpu::Inventory{});
  }

  Root root_{kBuild / "lib/libnvidia-ml.so.1"};
  std::unique_ptr<TestNode> node_;
  std::shared_ptr<Library> library_;
};

TEST(Locate, NoLibraryAnywhereIsNotFound) {
  const auto library = Library::Open({"/nonexistent"});
  if (library) GTEST_SKIP() << "this machine has a driver of its own";
  EXPECT_EQ(library.error().reason, "LibraryNotFound");
}

TEST_F(Nvml, NoDriverIsUnavailableNotAbsent) {
  ::setenv("PITCREW_SIMULATION_STATE", "/nonexistent", 1);
  const auto library = Library::Open({root_.path()});
  ::unsetenv("PITCREW_SIMULATION_STATE");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().reason, "DriverNotLoaded");
  EXPECT_EQ(library.error().code, base::Code::kUnavailable);
}

TEST_F(Nvml, ReadsTheInventory) {
  Start("gpus: [{profile: H100-80, numa: 1}, {profile: T4, minor: 7, pci: 0000:07:00.0}]");
  const auto inventory = Read();
  EXPECT_EQ(inventory.driver_version, "580.95.05");
  EXPECT_EQ(inventory.library_version, "13.580.95.05");
  EXPECT_EQ(inventory.CudaMajor(), 13);
  ASSERT_EQ(inventory.devices.size(), 2u);
  const auto& first = inventory.devices[0];
  EXPECT_EQ(first.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(first.architecture, gpu::Architecture::kHopper);
  EXPECT_EQ(first.compute_capability.ToString(), "9.0");
  EXPECT_EQ(first.memory.value()->total, 81559ull << 20);
  EXPECT_EQ(first.memory.value()->used, 0u) << "what the driver keeps is not used";
  EXPECT_EQ(first.numa_node, 1);
  EXPECT_TRUE(first.IsMigCapable());
  EXPECT_FALSE(first.IsMigEnabled());
  ASSERT_NE(first.fabric.value(), nullptr);
  EXPECT_EQ(first.fabric.value()->state, 3u);  // an HGX board's, of no cluster
  EXPECT_FALSE(*first.coherent_memory.value());
  EXPECT_FALSE(first.mig_profiles.empty());
  const auto& second = inventory.devices[1];
  EXPECT_EQ(second.minor_number, 7u);
  EXPECT_EQ(second.pci.SysfsName(), "0000:07:00.0");
  EXPECT_EQ(second.pci_device_id, 0x1eb810deu);
  EXPECT_TRUE(second.fabric.is_absent());
  EXPECT_TRUE(second.mig_mode.is_absent());
  EXPECT_EQ(second.serial.size(), 13u);
}

TEST_F(Nvml, ReadsMigDevices) {
  Start("gpus: [{profile: A100-40, mig: {enabled: true, devices: {3g.20gb: 1, 1g.5gb+me: 1}}}]");
  const auto inventory = Read();
  const auto& gpu = inventory.devices[0];
  EXPECT_TRUE(gpu.IsMigEnabled());
  EXPECT_EQ(gpu.max_mig_devices, 7u);
  ASSERT_EQ(gpu.mig_devices.size(), 2u);
  EXPECT_EQ(gpu.mig_devices[0].profile.Name(), "3g.20gb");
  EXPECT_EQ(gpu.mig_devices[1].profile.Name(), "1g.5gb+me");
  EXPECT_EQ(gpu.mig_devices[0].attributes.multiprocessor_count, 42u);
  EXPECT_EQ(gpu.mig_devices[0].attributes.memory_mib, 19968u);
  EXPECT_EQ(gpu.mig_devices[1].memory.value()->total, 4864ull << 20);
}

// One GPU that fails does not hide the others.
TEST_F(Nvml, AFaultyGpuStaysInTheList) {
  Start("gpus: [{profile: H100-80, count: 3}]");
  Change([](auto& state) { simulation::LoseGpu(state, 1); });
  Change([](auto& state) { state.gpus[2].unknown_error = 1; });
  const auto inventory = Read();
  ASSERT_EQ(inventory.devices.size(), 3u);
  EXPECT_FALSE(inventory.devices[0].fault);
  EXPECT_EQ(inventory.devices[1].fault->reason, "GpuIsLost");
  EXPECT_EQ(inventory.devices[2].fault->reason, "NvmlUnknownError");
}

TEST_F(Nvml, ProbesAGpu) {
  Start("gpus: [{profile: T4}]");
  const auto uuid = Read().devices[0].uuid;
  EXPECT_TRUE(library_->Probe(uuid));
  Change([](auto& state) { simulation::LoseGpu(state, 0); });
  EXPECT_EQ(library_->Probe(uuid).error().reason, "GpuIsLost");
  EXPECT_EQ(library_->Probe("GPU-none").error().reason, "NotFound");
}

TEST_F(Nvml, SetsTheComputeMode) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const auto uuid = Read().devices[1].uuid;
  ASSERT_TRUE(library_->SetComputeMode(uuid, ComputeMode::kExclusiveProcess));
  EXPECT_EQ(library_->ReadReadings(uuid)->compute_mode, 3);
  EXPECT_EQ(library_->ReadReadings(Read().devices[0].uuid)->compute_mode, 0);
  ASSERT_TRUE(library_->SetComputeMode(uuid, ComputeMode::kDefault));
  EXPECT_EQ(library_->ReadReadings(uuid)->compute_mode, 0);
  EXPECT_EQ(library_->SetComputeMode("GPU-none", ComputeMode::kDefault).error().reason, "NotFound");
}

TEST_F(Nvml, ReadsTheTopology) {
  Start("gpus: [{profile: A100-40, count: 4, nvlink: {peers: direct, links: 12}}]");
  const auto topology = library_->ReadTopology(Read());
  ASSERT_TRUE(topology) << topology.error().message;
  ASSERT_EQ(topology->connections.size(), 12u);
  for (const auto& connection : topology->connections) {
    EXPECT_EQ(connection.nvlinks, 4u);
    const bool same_half = (connection.a < 2) == (connection.b < 2);
    EXPECT_EQ(connection.level,
              same_half ? gpu::TopologyLevel::kNode : gpu::TopologyLevel::kSystem);
  }
}

// device-plugin.md section 15.3: links to a switch count 0.
TEST_F(Nvml, SwitchesAreNoPeers) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const auto topology = library_->ReadTopology(Read());
  ASSERT_TRUE(topology);
  for (const auto& connection : topology->connections) EXPECT_EQ(connection.nvlinks, 0u);
}

TEST_F(Nvml, ReadsReadings) {
  Start("gpus: [{profile: T4, load: 50}]");
  Change(
      [](auto& state) { simulation::AddProcess(state.gpus[0], 42, "/bin/job", 7 << 20, false); });
  const auto readings = library_->ReadReadings(Read().devices[0].uuid);
  ASSERT_TRUE(readings) << readings.error().message;
  EXPECT_NEAR(*readings->gpu_utilization_percent, 50, 4);
  EXPECT_EQ(readings->fan_percent, std::nullopt);
  EXPECT_EQ(readings->ecc_uncorrected_volatile, 0u);
  ASSERT_EQ(readings->processes.size(), 1u);
  EXPECT_EQ(readings->processes[0].name, "/bin/job");
}

TEST_F(Nvml, OneGpuThatCannotBeReadCostsTheOthersNothing) {
  Start("gpus: [{profile: H100-80, count: 3}]");
  const auto inventory = Read();
  Change([](simulation::NodeState& state) { state.gpus[1].lost = 1; });
  // Of the inventory of before, and of one that knows.
  for (const auto& known : {inventory, Read()}) {
    const auto topology = library_->ReadTopology(known);
    ASSERT_TRUE(topology) << topology.error().ToString();
    std::vector<std::pair<unsigned, unsigned>> pairs;
    for (const auto& one : topology->connections) pairs.emplace_back(one.a, one.b);
    EXPECT_THAT(pairs, ::testing::UnorderedElementsAre(std::pair(0U, 2U), std::pair(2U, 0U)));
  }
}

TEST_F(Nvml, ReadsTheCondition) {
  Start("gpus: [{profile: H100-80}, {profile: T4}]");
  const auto inventory = Read();
  const auto& uuid = inventory.devices[0].uuid;
  auto condition = library_->ReadCondition(uuid);
  ASSERT_TRUE(condition) << condition.error().ToString();
  EXPECT_EQ(condition->recovery_action, RecoveryAction::kNone);
  EXPECT_EQ(condition->remap_pending, false);
  EXPECT_EQ(condition->remap_failed, false);
  Change([](simulation::NodeState& state) {
    state.gpus[0].recovery_action = 4;
    simulation::AddRemappedRows(state, 0, {.uncorrectable = 1, .pending = true, .failure = true});
  });
  condition = library_->ReadCondition(uuid);
  EXPECT_EQ(condition->recovery_action, RecoveryAction::kDrainAndReset);
  EXPECT_EQ(condition->remap_pending, true);
  EXPECT_EQ(condition->remap_failed, true);
  // A board that retires pages has no rows.
  EXPECT_EQ(library_->ReadCondition(inventory.devices[1].uuid)->remap_pending, std::nullopt);
  Change([](simulation::NodeState& state) { state.gpus[0].lost = 1; });
  EXPECT_EQ(library_->ReadCondition(uuid).error().reason, "GpuIsLost");
}

TEST_F(Nvml, AGuardWaitsForNoGpuThatHangs) {
  node_ = std::make_unique<TestNode>("gpus: [{profile: H100-80, count: 3}]");
  node_->Use();
  library_ = OpenGuarded({root_.path()}, {.limit = std::chrono::seconds(5)}).value();
  const auto before = Read();
  ASSERT_FALSE(before.devices[1].fault);
  EXPECT_FALSE(HasHangingCalls());
  Change(
      [](simulation::NodeState& state) { state.gpus[1].slow_milliseconds = simulation::kHangs; });
  const auto inventory = Read();
  ASSERT_THAT(inventory.devices, ::testing::SizeIs(3));
  EXPECT_FALSE(inventory.devices[0].fault);
  EXPECT_EQ(inventory.devices[1].fault->reason, "NvmlHangs");
  EXPECT_FALSE(inventory.devices[2].fault);
  EXPECT_TRUE(HasHangingCalls());
  // The GPU is one, however it is called.
  EXPECT_EQ(library_->Probe(before.devices[1].uuid).error().reason, "NvmlHangs");
  EXPECT_TRUE(library_->Probe(before.devices[0].uuid));
  const auto topology = library_->ReadTopology(before);
  ASSERT_TRUE(topology) << topology.error().ToString();
  EXPECT_EQ(topology->connections.size(), 2U);
  const auto events = library_->CreateEventSet();
  ASSERT_TRUE(events);
  EXPECT_EQ((*events)->Register(before.devices[1].uuid, kHealthEvents).error().reason, "NvmlHangs");
  EXPECT_TRUE((*events)->Register(before.devices[2].uuid, kHealthEvents));
  Change([](simulation::NodeState& state) { state.gpus[1].slow_milliseconds = 0; });
  // The call that was left behind ends in its own time.
  while (library_->ReadDevice(1).fault) std::this_thread::yield();
  while (HasHangingCalls()) std::this_thread::yield();
}

TEST_F(Nvml, EventsArrive) {
  Start("gpus: [{profile: H100-80, count: 2}]");
  const auto inventory = Read();
  auto set = library_->CreateEventSet();
  ASSERT_TRUE(set);
  for (const auto& device : inventory.devices) {
    ASSERT_TRUE((*set)->Register(device.uuid, kHealthEvents));
  }
  std::thread injector([&] { Change([](auto& state) { simulation::AddEvent(state, 1, 8, 94); }); });
  const auto event = (*set)->Wait(-1, std::nullopt);
  injector.join();
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event->device_uuid, inventory.devices[1].uuid);
  EXPECT_EQ(event->type, EventType::kXid);
  EXPECT_EQ(event->data, 94u);
  EXPECT_EQ(event->gpu_instance_id, kNoInstance);
}

TEST_F(Nvml, AWaitCanBeStopped) {
  Start("gpus: [{profile: T4}]");
  auto set = library_->CreateEventSet();
  ASSERT_TRUE(set);
  ASSERT_TRUE((*set)->Register(Read().devices[0].uuid, kHealthEvents));
  const auto stop = base::Bell::Create();
  ASSERT_TRUE(stop);
  stop->Ring();
  const auto event = (*set)->Wait(stop->fd(), std::nullopt);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, base::Code::kCancelled);
}

TEST_F(Nvml, AWaitCanTimeOut) {
  Start("gpus: [{profile: T4}]");
  auto set = library_->CreateEventSet();
  ASSERT_TRUE(set);
  const auto event = (*set)->Wait(-1, std::chrono::milliseconds(0));
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, base::Code::kTimeout);
}

// A signal that the process handles is no end of a wait.
TEST_F(Nvml, AnInterruptedWaitGoesOn) {
  Start("gpus: [{profile: T4}]");
  auto set = library_->CreateEventSet();
  ASSERT_TRUE(set);
  static std::atomic<int> interruptions{0};
  struct sigaction handled{};
  handled.sa_handler = [](int) { ++interruptions; };
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGALRM, &handled, &before), 0);
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 1000},
                        .it_value = {.tv_sec = 0, .tv_usec = 1000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  const auto event = (*set)->Wait(-1, std::chrono::milliseconds(100));
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(interruptions, 0);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, base::Code::kTimeout) << event.error().message;
}

// Every symbol is optional: an old driver has GPUs, and no MIG, fabric or events.
TEST(OldDriver, MissingFunctionsAreMissingFeatures) {
  const Root root(kBuild / "lib/libnvml-old-driver.so");
  const auto library = Library::Open({root.path()});
  ASSERT_TRUE(library) << library.error().message;
  const auto inventory = (*library)->ReadInventory();
  ASSERT_TRUE(inventory) << inventory.error().message;
  EXPECT_EQ(inventory->cuda_version, 0);
  ASSERT_EQ(inventory->devices.size(), 1u);
  const auto& device = inventory->devices[0];
  EXPECT_FALSE(device.fault) << device.fault->message;
  EXPECT_EQ(device.name, "Tesla K80");
  EXPECT_TRUE(device.mig_mode.is_absent());
  EXPECT_TRUE(device.fabric.is_absent());
  EXPECT_TRUE(device.memory.is_unknown()) << "a failed read is no absence";
  EXPECT_EQ(device.memory.error()->reason, "NvmlUnknownError");
  const auto events = (*library)->CreateEventSet();
  ASSERT_FALSE(events);
  EXPECT_EQ(events.error().reason, "NvmlFunctionMissing");
}

TEST(Errors, HaveStableReasons) {
  EXPECT_EQ(FromReturn(abi::kGpuIsLost, "x").reason, "GpuIsLost");
  EXPECT_EQ(FromReturn(abi::kDriverNotLoaded, "x").reason, "DriverNotLoaded");
  EXPECT_EQ(FromReturn(abi::kLibRmVersionMismatch, "x").reason, "DriverLibraryMismatch");
  EXPECT_EQ(FromReturn(abi::kNotSupported, "x").code, base::Code::kUnsupported);
  EXPECT_EQ(FromReturn(999, "x").reason, "NvmlUnknownError");
  EXPECT_EQ(FromReturn(12345, "x").reason, "NvmlUnknownError");
}

}  // namespace
}  // namespace pitcrew::nvml
