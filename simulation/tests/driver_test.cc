#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>

#include "base/file.h"
#include "simulation/driver/files.h"
#include "simulation/driver/mounts.h"
#include "simulation/driver/pci_tree.h"
#include "simulation/state/discovery.h"
#include "simulation/state/mig.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {
namespace {

namespace fs = std::filesystem;

std::string Read(const fs::path& path) { return base::ReadFile(path).value_or("unreadable"); }

// feature-discovery.md section 6: what must be readable.
TEST(PciTree, HasTheFilesOfSysfs) {
  TestNode node("gpus: [{profile: H100-80, count: 2}]");
  const auto tree = node.folder() / "devices";
  ASSERT_TRUE(WritePciTree(tree, *node.file().Snapshot()));
  const auto gpu = tree / "0000:1b:00.0";
  EXPECT_EQ(Read(gpu / "vendor"), "0x10de\n");
  EXPECT_EQ(Read(gpu / "device"), "0x2330\n");
  EXPECT_EQ(Read(gpu / "class"), "0x030200\n");
  EXPECT_EQ(Read(gpu / "subsystem_device"), "0x16c1\n");
  EXPECT_EQ(Read(tree / "0000:43:00.0/numa_node"), "1\n");
  EXPECT_EQ(Read(gpu / "config").size(), 256u);
  EXPECT_EQ(Read(gpu / "config").substr(0, 4), std::string("\xde\x10\x30\x23", 4));
  EXPECT_EQ(fs::canonical(gpu / "iommu_group").filename(), "40");
  EXPECT_FALSE(fs::exists(fs::symlink_status(gpu / "driver")));
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(tree)) ++entries;
  EXPECT_EQ(entries, 2) << "readers take every entry for a device";
}

TEST(PciTree, ResourceLinesHaveThreeFields) {
  TestNode node("gpus: [{profile: T4}]");
  ASSERT_TRUE(WritePciTree(node.folder() / "devices", *node.file().Snapshot()));
  std::ifstream file(node.folder() / "devices/0000:1b:00.0/resource");
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    unsigned long long start = 0;
    unsigned long long end = 0;
    unsigned long long flags = 0;
    EXPECT_EQ(std::sscanf(line.c_str(), "0x%llx 0x%llx 0x%llx", &start, &end, &flags), 3) << line;
    ++lines;
  }
  EXPECT_EQ(lines, 13);
}

TEST(PciTree, BindsAndUnbinds) {
  TestNode node("gpus: [{profile: T4, count: 2}]");
  const auto tree = node.folder() / "devices";
  const auto state = node.file().Snapshot();
  ASSERT_TRUE(WritePciTree(tree, *state));
  ASSERT_TRUE(BindPciDriver(tree, *state, "nvidia"));
  EXPECT_EQ(fs::canonical(tree / "0000:1b:00.0/driver").filename(), "nvidia");
  // What somebody else bound stays bound.
  fs::remove(tree / "0000:43:00.0/driver");
  fs::create_directory_symlink("simulated/drivers/vfio-pci", tree / "0000:43:00.0/driver");
  ASSERT_TRUE(BindPciDriver(tree, *state, ""));
  EXPECT_FALSE(fs::exists(fs::symlink_status(tree / "0000:1b:00.0/driver")));
  EXPECT_TRUE(fs::is_symlink(tree / "0000:43:00.0/driver"));
}

TEST(DriverFiles, AreInstalledUnderTheirVersion) {
  TestNode node("gpus: [{profile: T4}]");
  const fs::path build = test_support::BuildFolder();
  const auto root = node.folder() / "root";
  ASSERT_TRUE(InstallDriverFiles(root, "570.124.06", {build / "lib", "/bin/true"}));
  const auto libraries = root / "usr/lib/x86_64-linux-gnu";
  EXPECT_EQ(fs::read_symlink(libraries / "libnvidia-ml.so.1"), "libnvidia-ml.so.570.124.06");
  EXPECT_EQ(fs::read_symlink(libraries / "libcuda.so.1"), "libcuda.so.570.124.06");
  EXPECT_EQ(fs::read_symlink(libraries / "libcuda.so"), "libcuda.so.1");
  EXPECT_EQ(InstalledVersion(root).value_or(""), "570.124.06");
  EXPECT_FALSE(InstalledVersion(node.folder()));
}

TEST(DriverFiles, DeviceNodes) {
  TestNode node("gpus: [{profile: T4, minor: 4}]");
  const auto dev = node.folder() / "dev";
  ASSERT_TRUE(MakeDeviceNodes(dev, *node.file().Snapshot()));
  ASSERT_TRUE(MakeDeviceNodes(dev, *node.file().Snapshot())) << "again";
  struct stat info{};
  ASSERT_EQ(::stat((dev / "nvidia4").c_str(), &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0666u);
  EXPECT_EQ(major(info.st_rdev), 195u);
  EXPECT_EQ(minor(info.st_rdev), 4u);
  ASSERT_EQ(::stat((dev / "nvidiactl").c_str(), &info), 0);
  EXPECT_EQ(minor(info.st_rdev), 255u);
  for (const char* name : {"nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}) {
    EXPECT_EQ(::stat((dev / name).c_str(), &info), 0) << name;
  }
  RemoveDeviceNodes(dev, *node.file().Snapshot());
  EXPECT_TRUE(fs::is_empty(dev));
}

TEST(DriverFiles, CapabilitiesOfMigDevices) {
  TestNode node("gpus: [{profile: H100-80, mig: {enabled: true, devices: {3g.40gb: 1}}}]");
  const auto dev = node.folder() / "dev";
  ASSERT_TRUE(MakeDeviceNodes(dev, *node.file().Snapshot()));
  const auto instance = ListMigDevices(node.file().Snapshot()->gpus[0]).at(0);
  const auto mode_of = [&](std::uint32_t capability) {
    struct stat info{};
    const auto path = dev / "nvidia-caps" / ("nvidia-cap" + std::to_string(capability));
    if (::stat(path.c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) return -1;
    EXPECT_EQ(minor(info.st_rdev), capability);
    return static_cast<int>(info.st_mode & 0777);
  };
  EXPECT_EQ(mode_of(kMigConfigMinor), 0400);
  EXPECT_EQ(mode_of(GpuInstanceMinor(0, instance.instance_id)), 0444);
  EXPECT_EQ(mode_of(ComputeInstanceMinor(0, instance.instance_id, instance.compute_id)), 0444);
  EXPECT_EQ(mode_of(GpuInstanceMinor(0, instance.instance_id + 1)), -1);

  const auto proc = node.folder() / "proc";
  ASSERT_TRUE(ShowMigMinors(proc, *node.file().Snapshot()));
  std::ifstream list(proc / "driver/nvidia-caps/mig-minors");
  std::string line;
  std::vector<std::string> first;
  while (first.size() < 4 && std::getline(list, line)) first.push_back(line);
  EXPECT_EQ(first, (std::vector<std::string>{"config 1", "monitor 2", "gpu0/gi0/access 3",
                                             "gpu0/gi0/ci0/access 4"}));
}

// As in /proc/driver/nvidia-caps/mig-minors.
TEST(Discovery, CapabilityMinors) {
  EXPECT_EQ(GpuInstanceMinor(0, 0), 3u);
  EXPECT_EQ(ComputeInstanceMinor(0, 0, 0), 4u);
  EXPECT_EQ(GpuInstanceMinor(0, 1), 12u);
  EXPECT_EQ(GpuInstanceMinor(1, 0), 138u);
}

TEST(Discovery, StateBesideTheLibraryThenTheNodes) {
  const auto folder = MakeTemporaryFolder();
  EXPECT_EQ(FindStateFile(folder / "libnvidia-ml.so.1.2"), kStatePath);
  std::ofstream(folder / "libnvidia-ml.so.1.2") << "";
  std::ofstream(folder / "libnvidia-simulation.so.9.9") << "";
  EXPECT_EQ(FindStateFile(folder / "libnvidia-ml.so.1.2"), folder / "libnvidia-simulation.so.9.9");
  std::ofstream(folder / "libnvidia-simulation.so.1.2") << "";
  EXPECT_EQ(FindStateFile(folder / "libnvidia-ml.so.1.2"), folder / "libnvidia-simulation.so.1.2");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pitcrew::simulation
