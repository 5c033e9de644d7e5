// The simulated sysfs as programs see it: mounted.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/file_descriptor.h"
#include "simulation/sysfs/expectations/expectations.h"
#include "simulation/sysfs/sriov.h"
#include "simulation/testing/simulated_sysfs.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription = R"(
gpus:
  - {profile: H100-80, pci: "0000:1b:00.0"}
  - {profile: L4, pci: "0000:43:00.0", graphics: true, functions: [audio]}
  - {profile: A100-40, pci: "0000:52:00.0"}
)";

class MountedSysfs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SimulatedSysfs::IsPossible()) GTEST_SKIP() << "needs root and /dev/fuse";
  }
};

TEST_F(MountedSysfs, DoesWhatTheKernelDoes) {
  SimulatedSysfs machine(kDescription);
  sysfs::FileSubject subject(machine.root());
  for (const auto& file :
       fs::directory_iterator(test_support::SourceFolder() / "tests/kernel/expectations")) {
    if (file.is_directory()) continue;
    const auto outcome = sysfs::TryExpectations(file.path(),
                                                {{"gpu", "0000:1b:00.0"},
                                                 {"driver", "nvidia"},
                                                 {"id", "10de 2330"},
                                                 {"card", "0000:43:00.0"},
                                                 {"companion", "0000:43:00.1"},
                                                 {"pf", "0000:52:00.0"},
                                                 {"pf_driver", "nvidia"},
                                                 {"pf_id", "10de 20b0"},
                                                 {"total", "16"}},
                                                subject);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_GT(outcome->steps, 0u) << file.path();
    EXPECT_THAT(outcome->failures, ::testing::IsEmpty()) << file.path();
  }
}

TEST_F(MountedSysfs, GroupNodesComeAndGoWithEvents) {
  SimulatedSysfs machine(kDescription);
  sysfs::FileSubject subject(machine.root());
  const base::FileDescriptor watch(::inotify_init1(IN_CLOEXEC));
  ASSERT_GE(
      ::inotify_add_watch(watch.get(), (machine.dev() / "vfio").c_str(), IN_CREATE | IN_DELETE), 0);
  ASSERT_EQ(subject.Write("sys/bus/pci/devices/0000:1b:00.0/driver_override", "vfio-pci"), 0);
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", "0000:1b:00.0"), 0);
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/vfio-pci/bind", "0000:1b:00.0"), 0);
  struct stat node{};
  ASSERT_EQ(::stat((machine.dev() / "vfio/40").c_str(), &node), 0);
  EXPECT_TRUE(S_ISCHR(node.st_mode));
  alignas(inotify_event) std::array<char, 4096> buffer{};
  ASSERT_GT(::read(watch.get(), buffer.data(), buffer.size()), 0);
  const auto* event = reinterpret_cast<const inotify_event*>(buffer.data());
  EXPECT_STREQ(event->name, "40");
  EXPECT_EQ(event->mask, static_cast<unsigned>(IN_CREATE));
}

TEST_F(MountedSysfs, SriovManageGivesTheGpuBack) {
  SimulatedSysfs machine("kernel: {vgpu: vendor}\ngpus: [{profile: A100-40}]");
  ASSERT_TRUE(sysfs::SetVirtualFunctions(machine.sys(), "0000:1b:00.0", true));
  const fs::path gpu = machine.sys() / "bus/pci/devices/0000:1b:00.0";
  EXPECT_EQ(fs::read_symlink(gpu / "driver").filename(), "nvidia");
  EXPECT_TRUE(fs::exists(gpu / "virtfn15/nvidia/current_vgpu_type"));
  ASSERT_TRUE(sysfs::SetVirtualFunctions(machine.sys(), "0000:1b:00.0", false));
  EXPECT_FALSE(fs::exists(gpu / "virtfn0"));
  EXPECT_EQ(fs::read_symlink(gpu / "driver").filename(), "nvidia");
  machine.Command("fault 0000:1b:00.0 sriov ENOMEM");
  EXPECT_FALSE(sysfs::SetVirtualFunctions(machine.sys(), "0000:1b:00.0", true));
  EXPECT_EQ(fs::read_symlink(gpu / "driver").filename(), "nvidia") << "given back all the same";
  EXPECT_FALSE(sysfs::SetVirtualFunctions(machine.sys(), "0000:ff:00.0", true));
}

// driver-lifecycle.md: NVIDIA's driver waits for its users.
TEST_F(MountedSysfs, GpuInUseStaysUntilItsProcessEnds) {
  TestNode node("gpus: [{profile: T4}]");
  SimulatedSysfs machine("gpus: [{profile: T4}]", true, node.state_path());
  const auto set_process = [&](std::uint32_t pid) {
    ASSERT_TRUE(node.file().Update([&](NodeState& state) {
      state.gpus[0].processes[0].pid = pid;
      return true;
    }));
  };
  set_process(4711);
  std::atomic<bool> ended = false;
  std::jthread unbind([&] {
    sysfs::FileSubject subject(machine.root());
    EXPECT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", "0000:1b:00.0"), 0);
    EXPECT_TRUE(ended) << "taken from under a process";
  });
  EXPECT_EQ(fs::read_symlink(machine.sys() / "bus/pci/devices/0000:1b:00.0/driver").filename(),
            "nvidia");
  ended = true;
  set_process(0);
  unbind.join();
  EXPECT_EQ(node.file().Snapshot()->gpus[0].detached, 1u);
}

// A socket that hears the kernel's announcements in the network namespace of a process.
base::FileDescriptor ListenWhere(int pid) {
  base::FileDescriptor socket;
  std::jthread([&] {  // a namespace belongs to a thread
    const std::string path = "/proc/" + std::to_string(pid) + "/ns/net";
    const base::FileDescriptor space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (::setns(space.get(), CLONE_NEWNET) != 0) return;
    socket = base::FileDescriptor(
        ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = 1;  // the kernel's
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      socket.Close();
    }
  })
      .join();
  return socket;
}

TEST_F(MountedSysfs, ChangesAreAnnouncedByTheKernel) {
  const auto folder = MakeTemporaryFolder();
  fs::create_directories(folder / "sys");
  std::ofstream(folder / "description.yaml") << kDescription;
  const std::string simulate = test_support::BuildFolder() / "bin/pitcrew-simulate";
  Process program({"unshare", "--net", "--", simulate, "sysfs", "--load-driver", "--description",
                   folder / "description.yaml", "--into", folder / "sys"});
  ASSERT_FALSE(program.ReadLine().empty());
  const auto socket = ListenWhere(program.pid());
  ASSERT_TRUE(socket.valid());
  sysfs::FileSubject subject(folder);
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", "0000:1b:00.0"), 0);
  // Between others of the machine's.
  std::array<char, 8192> buffer{};
  std::string message;
  sockaddr_nl sender{};
  while (!message.starts_with("unbind@")) {
    socklen_t length = sizeof(sender);
    const ssize_t size = ::recvfrom(socket.get(), buffer.data(), buffer.size(), 0,
                                    reinterpret_cast<sockaddr*>(&sender), &length);
    ASSERT_GT(size, 0);
    message.assign(buffer.data(), static_cast<std::size_t>(size));
  }
  EXPECT_EQ(sender.nl_pid, 0u) << "only the kernel has this number";
  EXPECT_STREQ(message.c_str(), "unbind@/devices/pci0000:1b/0000:1b:00.0");
  EXPECT_THAT(message, ::testing::HasSubstr(std::string("\0SUBSYSTEM=pci\0", 15)));
  EXPECT_THAT(message, ::testing::HasSubstr("SEQNUM="));
  program.Signal(SIGTERM);
  (void)program.Wait();
  fs::remove_all(folder);
}

// In the place of a /sys: what the tree does not have is the machine's.
TEST_F(MountedSysfs, TakesThePlaceOfSys) {
  const auto folder = MakeTemporaryFolder();
  std::ofstream(folder / "description.yaml") << kDescription;
  Process program({"unshare", "--mount", "--propagation", "private", "--",
                   (test_support::BuildFolder() / "bin/pitcrew-simulate").string(), "sysfs",
                   "--no-uevents", "--description", folder / "description.yaml", "--over", "/sys"});
  ASSERT_FALSE(program.ReadLine().empty());
  const fs::path sys = "/proc/" + std::to_string(program.pid()) + "/root/sys";
  EXPECT_TRUE(fs::exists(sys / "bus/pci/devices/0000:1b:00.0/vendor"));
  EXPECT_TRUE(fs::exists(sys / "kernel/iommu_groups/40/devices/0000:1b:00.0"));
  for (const char* same : {"class/net/lo/mtu", "devices/system/cpu/online", "fs", "block"}) {
    EXPECT_TRUE(fs::exists(sys / same)) << same;
  }
  EXPECT_FALSE(fs::exists("/sys/simulation")) << "outside nothing has changed";
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait().status, 0);
  fs::remove_all(folder);
}

// Linux: drivers/vfio, vfio_unregister_group_dev waits for the last user.
TEST_F(MountedSysfs, DeviceOfAVirtualMachineStaysUntilItEnds) {
  SimulatedSysfs machine(kDescription);
  sysfs::FileSubject subject(machine.root());
  ASSERT_EQ(subject.Write("sys/bus/pci/devices/0000:1b:00.0/driver_override", "vfio-pci"), 0);
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", "0000:1b:00.0"), 0);
  ASSERT_EQ(subject.Write("sys/bus/pci/drivers/vfio-pci/bind", "0000:1b:00.0"), 0);
  machine.Command("use 0000:1b:00.0");
  std::atomic<bool> left = false;
  std::jthread unbind([&] {
    sysfs::FileSubject other(machine.root());
    EXPECT_EQ(other.Write("sys/bus/pci/drivers/vfio-pci/unbind", "0000:1b:00.0"), 0);
    EXPECT_TRUE(left) << "taken from under a virtual machine";
  });
  // Everything else goes on meanwhile.
  EXPECT_EQ(subject.Write("sys/bus/pci/drivers/nvidia/unbind", "0000:52:00.0"), 0);
  left = true;
  machine.Command("leave 0000:1b:00.0");
  unbind.join();
  EXPECT_FALSE(fs::exists(machine.sys() / "bus/pci/devices/0000:1b:00.0/driver"));
}

}  // namespace
}  // namespace pitcrew::simulation
