// The host room over trees below a temporary root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "host/device_node.h"
#include "host/driver_root.h"
#include "host/kernel.h"
#include "host/library_search.h"
#include "host/mounts.h"
#include "host/os_release.h"
#include "host/pci.h"
#include "host/root.h"
#include "host/uevent.h"

namespace pitcrew::host {
namespace {

using ::testing::ElementsAre;
namespace fs = std::filesystem;

// A folder of its own for each test, removed afterwards.
class HostTest : public ::testing::Test {
 protected:
  HostTest() {
    std::string pattern = (fs::temp_directory_path() / "pitcrew_host_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~HostTest() override { fs::remove_all(root_); }

  void Write(const std::string& inside, const std::string& content, mode_t mode = 0644) {
    const auto path = root_ / inside;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
  }
  void Link(const std::string& inside, const std::string& target) {
    fs::create_directories((root_ / inside).parent_path());
    fs::create_symlink(target, root_ / inside);
  }
  void PciDevice(const std::string& address, const std::string& class_code,
                 const std::string& vendor) {
    const auto folder = "sys/bus/pci/devices/" + address + "/";
    Write(folder + "class", class_code + "\n");
    Write(folder + "vendor", vendor + "\n");
    Write(folder + "device", "0x2330\n");
  }

  fs::path root_;
};

using RootTest = HostTest;
using PciTest = HostTest;
using DriverRootTest = HostTest;
using DeviceNodeTest = HostTest;

TEST_F(RootTest, JoinsAndStrips) {
  const Root root("/host/");
  EXPECT_EQ(root.At("/usr/bin"), "/host/usr/bin");
  EXPECT_EQ(root.At(""), "/host");
  EXPECT_EQ(*root.Strip("/host/usr/bin"), "/usr/bin");
  EXPECT_EQ(*root.Strip("/host"), "/");
  EXPECT_FALSE(root.Strip("/hosts/a"));
  EXPECT_TRUE(Root().is_own());
}

TEST_F(RootTest, LinksNeverLeaveTheRoot) {
  Write("usr/lib/real", "x");
  Link("absolute", "/usr/lib/real");
  Link("dots", "../../../../usr/lib/real");
  Link("a", "/b");
  Link("b", "/a");
  const Root root(root_);
  EXPECT_EQ(*root.Resolve("/absolute"), root_ / "usr/lib/real");
  EXPECT_EQ(*root.Resolve("/dots"), root_ / "usr/lib/real");
  EXPECT_EQ(*root.Resolve("//usr/.//lib/./real"), root_ / "usr/lib/real");
  EXPECT_EQ(root.Resolve("/a").error().reason, "TooManyLinks");
  EXPECT_EQ(root.Resolve("/missing").error().code, base::Code::kNotFound);
}

TEST_F(RootTest, SaysAbsentOnlyWhenItIs) {
  EXPECT_FALSE(*Exists(root_ / "nothing"));
  Link("dangling", "/nowhere");
  EXPECT_TRUE(*Exists(root_ / "dangling"));
  EXPECT_FALSE(*IsDirectory(root_ / "dangling"));
  EXPECT_EQ(ListFolder(root_ / "nothing").error().code, base::Code::kNotFound);
}

TEST_F(PciTest, ReadsDevices) {
  PciDevice("0000:65:00.0", "0x030200", "0x10de");
  const std::string folder = "sys/bus/pci/devices/0000:65:00.0/";
  Write(folder + "numa_node", "-1\n");
  Link(folder + "driver", "../../../bus/pci/drivers/nvidia");
  Link(folder + "iommu_group", "../../kernel/iommu_groups/42");
  PciDevice("0000:65:00.4", "0x030200", "0x10de");
  Link("sys/bus/pci/devices/0000:65:00.4/physfn", "../0000:65:00.0");
  PciDevice("0000:01:00.0", "0x020000", "0x15b3");

  const auto scan = ReadPciDevices(root_ / "sys/bus/pci/devices");
  ASSERT_TRUE(scan);
  EXPECT_TRUE(scan->failures.empty());
  ASSERT_EQ(scan->devices.size(), 3U);
  const auto& gpu = scan->devices[1];
  EXPECT_EQ(gpu.base_class(), 0x0302);
  EXPECT_TRUE(gpu.numa_node.is_absent());
  EXPECT_EQ(*gpu.driver.value(), "nvidia");
  EXPECT_EQ(*gpu.iommu_group.value(), 42U);
  EXPECT_TRUE(gpu.sriov_total_vfs.is_absent());
  ASSERT_EQ(NvidiaGpus(*scan).size(), 1U);  // the virtual function does not count
}

TEST_F(PciTest, ADeviceThatCannotBeReadIsToldNotDropped) {
  PciDevice("0000:65:00.0", "rubbish", "0x10de");
  const auto scan = ReadPciDevices(root_ / "sys/bus/pci/devices");
  ASSERT_TRUE(scan);
  EXPECT_TRUE(scan->devices.empty());
  ASSERT_EQ(scan->failures.size(), 1U);
  EXPECT_EQ(scan->failures[0].reason, "MalformedSysfsAttribute");
}

// Between the listing and the reading a device may go; those behind it are read all the same.
TEST_F(PciTest, ADeviceThatIsGoneMeanwhileIsAbsent) {
  Link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/gone");
  PciDevice("0000:65:00.0", "0x030200", "0x10de");
  const auto scan = ReadPciDevices(root_ / "sys/bus/pci/devices");
  ASSERT_TRUE(scan);
  EXPECT_TRUE(scan->failures.empty());
  ASSERT_EQ(scan->devices.size(), 1U);
  EXPECT_EQ(scan->devices[0].address.SysfsName(), "0000:65:00.0");
}

TEST(OsRelease, TakesQuotesOff) {
  const auto release =
      ParseOsRelease("NAME='Debian'\nVERSION_ID=\"12\"\n# comment\nID=debian\nEMPTY=\nbad key=x\n");
  EXPECT_EQ(release.id(), "debian");
  EXPECT_EQ(release.version_id(), "12");
  EXPECT_EQ(release.Get("NAME"), "Debian");
  EXPECT_EQ(release.fields.size(), 3U);
}

TEST(Kernel, ReadsCharacterMajorsOnly) {
  const auto majors = ParseCharacterMajors(
      "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n  8 sd\n");
  EXPECT_EQ(majors.at("nvidia"), 195U);
  EXPECT_EQ(majors.at("nvidia-uvm"), 510U);
  EXPECT_FALSE(majors.contains("sd"));
}

TEST_F(HostTest, ReadsModulesAndReferences) {
  Write("proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 2 1 nvidia_uvm, Live 0x0\n");
  Write("sys/module/nvidia_uvm/refcnt", "3\n");
  EXPECT_THAT(*ReadLoadedModules(root_ / "proc"), ElementsAre("nvidia_uvm", "nvidia"));
  EXPECT_EQ(*ReadModuleReferences("nvidia-uvm", root_ / "sys").value(), 3U);
  EXPECT_TRUE(ReadModuleReferences("nvidia", root_ / "sys").is_absent());
}

TEST_F(DriverRootTest, FindsLibrariesInTheOrderOfTheList) {
  RecordProperty("holds", "validator.md #7");
  Write("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05", "elf");
  Link("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "libnvidia-ml.so.580.95.05");
  const Root root(root_);
  EXPECT_EQ(*FindLibrary(root, kNvmlLibrary),
            root_ / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05");
  EXPECT_EQ(LibrarySearch(root).Find("libnvidia-ml.so*")->size(), 1U);
  Write("usr/lib64/libnvidia-ml.so.1", "elf");
  EXPECT_EQ(*FindLibrary(root, kNvmlLibrary), root_ / "usr/lib64/libnvidia-ml.so.1");
  EXPECT_EQ(FindLibrary(root, "libcuda.so.1").error().reason, "DriverLibraryNotFound");
  EXPECT_EQ(FindProgram(root, kSmiProgram).error().reason, "DriverProgramNotFound");
}

TEST_F(DriverRootTest, FindsNvidiaSmiOnTheHost) {
  RecordProperty("holds", "validator.md #2, #3, #4, #5");
  const Root root(root_);
  const auto find = [&] { return FirstProgram(root, HostSmiPaths()); };
  EXPECT_FALSE(find());
  Write("opt/bin/nvidia-smi", "x", 0755);
  EXPECT_EQ(*find(), root_ / "opt/bin/nvidia-smi");
  Write("real/sbin/nvidia-smi", "x", 0755);
  Link("usr/sbin", "/real/sbin");
  EXPECT_EQ(*find(), root_ / "usr/sbin/nvidia-smi");
  Write("usr/bin/nvidia-smi", "x", 0600);
  EXPECT_EQ(*find(), root_ / "usr/sbin/nvidia-smi") << "mode 0600 cannot be executed";
  Write("usr/bin/nvidia-smi", "", 0755);
  EXPECT_EQ(*find(), root_ / "usr/sbin/nvidia-smi") << "an empty file is no program";
  Write("usr/bin/nvidia-smi", "x", 0755);
  EXPECT_EQ(*find(), root_ / "usr/bin/nvidia-smi");
  fs::remove(root_ / "usr/bin/nvidia-smi");
  Link("usr/bin/nvidia-smi", "../../../../../../bin/true");
  EXPECT_EQ(*find(), root_ / "usr/sbin/nvidia-smi") << "a link that leaves the root";
}

TEST_F(DriverRootTest, DeviceRootIsTheHostWithoutADevFolder) {  // validator.md section 3.5
  const auto without = ContainerDriver("/", "/run/nvidia/driver", root_);
  EXPECT_EQ(without->device_root, "/");
  EXPECT_EQ(without->device_root_container, "/host");
  fs::create_directories(root_ / "dev");
  const auto with = ContainerDriver("/", "/run/nvidia/driver", root_);
  EXPECT_EQ(with->device_root, "/run/nvidia/driver");
  EXPECT_EQ(with->device_root_container, "/driver-root");
}

TEST_F(DeviceNodeTest, ControlDevicesHaveTheDriversNumbers) {
  RecordProperty("holds", "container-toolkit.md #142");
  const auto devices = NvidiaControlDevices({{"nvidia-frontend", 195}, {"nvidia-uvm", 510}});
  ASSERT_TRUE(devices);
  EXPECT_THAT(
      *devices,
      ElementsAre(NamedDevice{"nvidiactl", {195, 255}}, NamedDevice{"nvidia-modeset", {195, 254}},
                  NamedDevice{"nvidia-uvm", {510, 0}}, NamedDevice{"nvidia-uvm-tools", {510, 1}}));
  EXPECT_EQ(NvidiaControlDevices({{"nvidia", 195}}).error().reason, "MissingDeviceMajor");
  EXPECT_EQ(NvidiaControlDevices({{"nvidia-uvm", 510}}).error().reason, "MissingDeviceMajor");
}

// The number of a GPU's node, not the one in its name; what is no device is left out.
TEST_F(DeviceNodeTest, ListedByTheirNumbers) {
  RecordProperty("holds", "container-toolkit.md #140");
  const auto made = EnsureCharacterDevice(root_ / "dev/nvidia0", {1, 7});
  if (!made && made.error().code == base::Code::kDenied) GTEST_SKIP() << "needs CAP_MKNOD";
  ASSERT_TRUE(made) << made.error().ToString();
  ASSERT_TRUE(EnsureCharacterDevice(root_ / "dev/nvidia-capability", {1, 8}));
  ASSERT_TRUE(EnsureCharacterDevice(root_ / "dev/nvidia-nvswitch0", {1, 9}));
  Write("dev/nvidia1", "not a device");
  const auto listed = ListNvidiaDevices(root_ / "dev");
  ASSERT_TRUE(listed);
  EXPECT_THAT(*listed, ElementsAre(NamedDevice{"nvidia0", {1, 7}}));
}

TEST_F(DeviceNodeTest, MakesKeepsAndCorrectsNodes) {
  const auto node = root_ / "dev/nvidiactl";
  const auto made = EnsureCharacterDevice(node, {1, 3});
  if (!made && made.error().code == base::Code::kDenied) GTEST_SKIP() << "needs CAP_MKNOD";
  ASSERT_TRUE(made);
  EXPECT_EQ(*ReadCharacterDevice(node).value(), (DeviceNumber{1, 3}));
  ASSERT_TRUE(EnsureCharacterDevice(node, {1, 5}));
  EXPECT_EQ(*ReadCharacterDevice(node).value(), (DeviceNumber{1, 5}));
  struct stat info{};
  ASSERT_EQ(::stat(node.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0666U);
  Write("dev/nvidia0", "not a device");
  EXPECT_EQ(EnsureCharacterDevice(root_ / "dev/nvidia0", {1, 3}).error().reason,
            "NotACharacterDevice");
  const auto listed = ListNvidiaDevices(root_ / "dev");
  ASSERT_TRUE(listed);
  EXPECT_THAT(*listed, ElementsAre(NamedDevice{"nvidiactl", {1, 5}}));
}

TEST(Mounts, DeepestComesFirst) {
  const auto points = MountPointsBelow(
      "1 0 0:1 / / rw - x x rw\n"
      "2 1 0:2 / /run/nvidia/driver rw - x x rw\n"
      "3 2 0:3 / /run/nvidia/driver/dev rw - x x rw\n"
      "4 1 0:4 / /run/nvidia/driver2 rw - x x rw\n",
      "/run/nvidia/driver");
  EXPECT_THAT(points, ElementsAre("/run/nvidia/driver/dev", "/run/nvidia/driver"));
}

// proc(5): blanks, tabs, line breaks and backslashes as three octal digits.
TEST(Mounts, OddNamesAreUnescaped) {
  const auto name_of = [](const std::string& written) {
    const auto points =
        MountPointsBelow("short line\n1 0 0:1 / /d/" + written + " rw - x x rw\n", "/d");
    return points.size() == 1 ? points[0].filename().string() : "";
  };
  EXPECT_EQ(name_of("a\\040b\\011c\\012d\\134e"), "a b\tc\nd\\e");
  EXPECT_EQ(name_of("\\303\\251"), "é");
  EXPECT_EQ(name_of("x\\040"), "x ") << "at the end";
  for (const char* plain : {"a\\08x", "a\\80x", "a\\0/1"}) {
    EXPECT_EQ(name_of(plain), std::filesystem::path(plain).filename()) << plain;
  }
  EXPECT_EQ(name_of("a\\04"), "a\\04") << "cut short";
}

TEST(Uevent, ReadsTheKernelsMessage) {
  using namespace std::string_view_literals;
  const auto event =
      ParseUevent("add@/devices/pci0000:00/0000:65:00.0\0ACTION=add\0SUBSYSTEM=pci\0"sv);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->action, "add");
  EXPECT_EQ(event->subsystem(), "pci");
  EXPECT_FALSE(ParseUevent("libudev\0x"sv));
}

TEST(Uevent, TellsOfGpusThatComeAndGo) {
  const auto event = [](std::string action, std::string path, std::string subsystem) {
    return Uevent{std::move(action), std::move(path), {{"SUBSYSTEM", std::move(subsystem)}}};
  };
  const std::string device = "/devices/pci0000:00/0000:65:00.0";
  for (const char* action : {"add", "remove", "bind", "unbind"}) {
    EXPECT_TRUE(TellsOfGpus(event(action, device, "pci"))) << action;
    EXPECT_FALSE(TellsOfGpus(event(action, device + "/net/eth0", "net"))) << action;
  }
  EXPECT_FALSE(TellsOfGpus(event("change", device, "pci"))) << "a GPU that is reset is still there";
  EXPECT_TRUE(TellsOfGpus(event("add", "/module/nvidia", "module")));
  EXPECT_TRUE(TellsOfGpus(event("remove", "/module/nvidia", "module")));
  EXPECT_FALSE(TellsOfGpus(event("add", "/module/nvidia_uvm", "module")));
  EXPECT_FALSE(TellsOfGpus(event("add", "/module/ext4", "module")));
}

}  // namespace
}  // namespace pitcrew::host
