// A node changes what its GPUs are for, in every order, and whoever changes them is killed at every
// step: in the end each GPU is in exactly one hand. What the operands run is run here, in their
// order, on a simulated sysfs: the driver manager's unloading and `vfio-manage`, the driver that
// comes, the vGPU device manager, and the list of the device plugin for virtual machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "node/sandbox_device_plugin/offers.h"
#include "node/vfio/handover.h"
#include "node/vgpu/change.h"
#include "simulation/sysfs/control_file.h"
#include "simulation/sysfs/sriov.h"
#include "simulation/testing/simulated_sysfs.h"
#include "tests/support/kill_at_change.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew {
namespace {

namespace fs = std::filesystem;
using simulation::SimulatedSysfs;
using ::testing::IsEmpty;

enum class Use { kContainers, kPassthrough, kVgpus };
constexpr Use kUses[] = {Use::kContainers, Use::kPassthrough, Use::kVgpus};

std::string ToString(Use use) {
  return use == Use::kContainers    ? "containers"
         : use == Use::kPassthrough ? "passthrough"
                                    : "vGPUs";
}

// A board with its vGPUs, and how many of which are wanted.
struct Board {
  std::string description;
  std::string type;
  int count = 0;
  bool functions = false;  // vGPUs lie on virtual functions
};
const Board kMediated{"kernel: {vgpu: mdev}\ngpus: [{profile: T4, functions: [audio]}]", "T4-8Q", 2,
                      false};
const Board kOnFunctions{"kernel: {vgpu: vendor}\ngpus: [{profile: A100-40}]", "A100X-20C", 2,
                         true};

class WorkloadChange : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SimulatedSysfs::IsPossible()) GTEST_SKIP() << "needs root and /dev/fuse";
  }
  void Start(const Board& board) {
    board_ = board;
    machine_ = std::make_unique<SimulatedSysfs>(board.description, false);
    fs::create_directories(machine_->root() / "proc/sys/kernel");
    std::ofstream(machine_->root() / "proc/sys/kernel/osrelease") << "6.8.0-60-generic\n";
    std::ofstream(machine_->root() / "proc/cmdline") << "root=/dev/sda1\n";
    std::ofstream(machine_->root() / "proc/cpuinfo") << "vendor_id\t: GenuineIntel\n";
  }

  // The steps. Each ends what another run has left half done.
  base::Status Unload() const {
    if (!fs::exists(machine_->sys() / "bus/pci/drivers/nvidia")) return {};
    return simulation::sysfs::WriteControl(machine_->sys(), "unload nvidia");
  }
  base::Status Load() const {
    if (fs::exists(machine_->sys() / "bus/pci/drivers/nvidia")) return {};
    return simulation::sysfs::WriteControl(machine_->sys(), "load nvidia");
  }
  base::Status HandOver(bool to_vfio) const {
    const node::vfio::Settings settings{.root = host::Root(machine_->root()),
                                        .host_root = host::Root(machine_->root())};
    const auto until = base::Deadline::After({});
    TRY_ASSIGN(const auto report, to_vfio ? node::vfio::GiveToVfio(settings, {}, until, {})
                                          : node::vfio::TakeFromVfio(settings, {}, until, {}));
    for (const auto& device : report.devices) {
      if (device.failure) return base::Fail(*device.failure);
    }
    return {};
  }
  base::Status MakeVgpus() const {
    if (board_.functions) {
      TRY(simulation::sysfs::SetVirtualFunctions(machine_->sys(), Gpu(), true));
    }
    node::vgpu::NodeVgpus node({.root = host::Root(machine_->root()),
                                .processes = host::Root(machine_->root()),
                                .driver_roots = {},
                                .known_types = folder_.path() / "types.json"});
    TRY(node::vgpu::Apply(
        node, nullptr, {{.vgpu_devices = {{board_.type, board_.count}}}},
        {.journal = folder_.path() / "journal", .mig_journal = folder_.path() / "mig"}));
    return {};
  }
  base::Status ChangeTo(Use use) const {
    TRY(Unload());
    if (use == Use::kPassthrough) return HandOver(true);
    TRY(HandOver(false));
    TRY(Load());
    return use == Use::kVgpus ? MakeVgpus() : base::Status();
  }

  // How it is.
  std::string Gpu() const {
    return fs::exists(machine_->sys() / "bus/pci/devices/0000:65:00.0") ? "0000:65:00.0"
                                                                        : "0000:1b:00.0";
  }
  fs::path Device(const std::string& address) const {
    return machine_->sys() / "bus/pci/devices" / address;
  }
  std::string Driver(const std::string& address) const {
    std::error_code error;
    return fs::read_symlink(Device(address) / "driver", error).filename();
  }
  std::string Override(const std::string& address) const {
    return base::ReadFile(Device(address) / "driver_override").value_or("?");
  }
  // Ids of what the device plugin offers that a virtual machine can have.
  std::vector<std::string> Offered() const {
    const host::Root root(machine_->root());
    const auto machine = node::sandbox_device_plugin::ReadMachine(
        root, root, node::vgpu_types::KnownTypes::Load(folder_.path() / "types.json"));
    EXPECT_TRUE(machine) << machine.error().ToString();
    std::vector<std::string> ids;
    if (!machine) return ids;
    const auto offers = node::sandbox_device_plugin::ListOffers(*machine, {}, {});
    for (const auto& [resource, devices] : offers.resources) {
      for (const auto& device : devices) {
        if (device.unfit.empty()) ids.push_back(device.id);
      }
    }
    return ids;
  }
  void Expect(Use use) const {
    const auto audio = Gpu().substr(0, Gpu().size() - 1) + "1";
    const bool has_audio = fs::exists(Device(audio));
    const auto offered = Offered();
    if (use == Use::kPassthrough) {
      EXPECT_EQ(Driver(Gpu()), "vfio-pci");
      EXPECT_EQ(Driver(audio), has_audio ? "vfio-pci" : "");
      EXPECT_THAT(offered, ::testing::ElementsAre(Gpu()));
      return;
    }
    EXPECT_EQ(Driver(Gpu()), "nvidia");
    EXPECT_EQ(Override(Gpu()), "(null)\n");
    EXPECT_EQ(Driver(audio), has_audio ? "snd_hda_intel" : "");
    EXPECT_EQ(Override(audio), has_audio ? "(null)\n" : "?");
    if (use == Use::kContainers) {
      EXPECT_THAT(offered, IsEmpty());
    } else {
      EXPECT_EQ(offered.size(), static_cast<std::size_t>(board_.count));
      EXPECT_THAT(offered, ::testing::Not(::testing::Contains(Gpu())));
    }
  }
  void ChangeAndExpect(Use use) const {
    const auto changed = ChangeTo(use);
    EXPECT_TRUE(changed) << changed.error().ToString();
    Expect(use);
  }
  // Every way from one use to another, cut off at every step; then ended, or turned round.
  void KillEverywhere(Use from, Use to) const {
    bool killed = true;
    for (int step = 1; killed && !HasFailure(); ++step) {
      for (const Use end : {to, from}) {
        SCOPED_TRACE(ToString(from) + " to " + ToString(to) + ", killed at change " +
                     std::to_string(step) + ", then to " + ToString(end));
        ChangeAndExpect(from);
        killed = test_support::KillAtChange(step, [&] { (void)ChangeTo(to); });
        ChangeAndExpect(end);
      }
    }
  }

  const test_support::TemporaryFolder folder_;
  Board board_;
  std::unique_ptr<SimulatedSysfs> machine_;
};

TEST_F(WorkloadChange, EndsInOneHandInEveryOrder) {
  Start(kMediated);
  for (const Use from : kUses) {
    for (const Use to : kUses) {
      SCOPED_TRACE(ToString(from) + " to " + ToString(to));
      ChangeAndExpect(from);
      ChangeAndExpect(to);
    }
  }
}

TEST_F(WorkloadChange, OnVirtualFunctionsToo) {
  Start(kOnFunctions);
  for (const Use use : {Use::kVgpus, Use::kPassthrough, Use::kContainers, Use::kVgpus,
                        Use::kContainers, Use::kPassthrough, Use::kVgpus}) {
    SCOPED_TRACE(ToString(use));
    ChangeAndExpect(use);
  }
}

// The audio function of the board is in the GPU's group.
TEST_F(WorkloadChange, AGroupGoesWholeOrNotAtAll) {
  RecordProperty("holds", "virtualisation-and-olm.md #25");
  Start(kMediated);
  ChangeAndExpect(Use::kContainers);
  const std::string audio = "0000:1b:00.1";
  machine_->Command("fault " + audio + " bind EBUSY");
  EXPECT_FALSE(ChangeTo(Use::kPassthrough));
  EXPECT_NE(Driver(Gpu()), "vfio-pci");
  EXPECT_NE(Driver(audio), "vfio-pci");
  EXPECT_EQ(Override(Gpu()), "(null)\n");
  EXPECT_EQ(Override(audio), "(null)\n");
  machine_->Command("fault " + audio + " bind none");
  ChangeAndExpect(Use::kPassthrough);
}

// Their GPU has no driver by then that removes them.
TEST_F(WorkloadChange, KilledFromVirtualFunctionsToPassthrough) {
  Start(kOnFunctions);
  ChangeAndExpect(Use::kVgpus);
  bool killed = true;
  for (int step = 1; killed && !HasFailure(); ++step) {
    for (const Use end : {Use::kPassthrough, Use::kContainers}) {
      SCOPED_TRACE("killed at change " + std::to_string(step) + ", then to " + ToString(end));
      ASSERT_TRUE(HandOver(false));
      ASSERT_TRUE(Load());
      ASSERT_TRUE(simulation::sysfs::SetVirtualFunctions(machine_->sys(), Gpu(), true));
      ASSERT_TRUE(Unload());
      killed = test_support::KillAtChange(step, [&] { (void)HandOver(true); });
      ChangeAndExpect(end);
    }
  }
}

TEST_F(WorkloadChange, KilledFromContainersToPassthrough) {
  Start(kMediated);
  KillEverywhere(Use::kContainers, Use::kPassthrough);
}

TEST_F(WorkloadChange, KilledFromPassthroughToContainers) {
  Start(kMediated);
  KillEverywhere(Use::kPassthrough, Use::kContainers);
}

TEST_F(WorkloadChange, KilledFromPassthroughToVgpus) {
  Start(kMediated);
  KillEverywhere(Use::kPassthrough, Use::kVgpus);
}

TEST_F(WorkloadChange, KilledFromVgpusToPassthrough) {
  Start(kMediated);
  KillEverywhere(Use::kVgpus, Use::kPassthrough);
}

TEST_F(WorkloadChange, KilledFromContainersToVgpus) {
  Start(kMediated);
  KillEverywhere(Use::kContainers, Use::kVgpus);
}

TEST_F(WorkloadChange, KilledFromVgpusToContainers) {
  Start(kMediated);
  KillEverywhere(Use::kVgpus, Use::kContainers);
}

}  // namespace
}  // namespace pitcrew
