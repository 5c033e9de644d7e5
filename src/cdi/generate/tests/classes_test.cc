#include "cdi/generate/classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>

#include "base/file.h"
#include "cdi/format.h"

namespace pitcrew::cdi_generate {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ClassesTest : public ::testing::Test {
 protected:
  ClassesTest() {
    char name[] = "/tmp/pitcrew-classes-XXXXXX";
    path_ = ::mkdtemp(name);
    roots_.driver = host::Root(path_);
    roots_.dev = host::Root(path_);
    fs::create_directories(path_ / "dev/infiniband");
  }
  ~ClassesTest() override { fs::remove_all(path_); }
  // A link to a character device stands for one: making them needs rights.
  void Device(const std::string& inside) { fs::create_symlink("/dev/null", path_ / inside); }
  std::vector<std::string> Nodes(std::string_view name) {
    const auto spec = GenerateClass(*FindDeviceClass(name), "nvidia.com", roots_);
    EXPECT_TRUE(spec) << spec.error().ToString();
    std::vector<std::string> paths;
    if (spec && *spec) {
      EXPECT_EQ((*spec)->kind, "nvidia.com/" + std::string(name));
      EXPECT_EQ((*spec)->devices.at(0).name, "all");
      for (const auto& node : (*spec)->devices.at(0).edits.device_nodes) {
        paths.push_back(node.path);
      }
    }
    return paths;
  }

  fs::path path_;
  ClassRoots roots_;
};

TEST_F(ClassesTest, WithoutADeviceThereIsNoClass) {
  RecordProperty("holds", "container-toolkit.md #64");
  ASSERT_TRUE(base::WriteFileAtomically(path_ / "etc/cufile.json", "{}"));
  for (const auto& device_class : DeviceClasses()) {
    EXPECT_THAT(Nodes(device_class.name), IsEmpty()) << device_class.name;
  }
  EXPECT_EQ(FindDeviceClass("nothing"), nullptr);
}

TEST_F(ClassesTest, EachHasItsDeviceNodes) {  // device-plugin.md section 16
  for (const auto* node :
       {"dev/gdrdrv", "dev/nvidia-fs1", "dev/nvidia-fs0", "dev/nvidia0", "dev/infiniband/uverbs0",
        "dev/infiniband/rdma_cm", "dev/infiniband/issm0", "dev/nvidia-nvswitchctl",
        "dev/nvidia-nvswitch1", "dev/nvidia-nvswitch0"}) {
    Device(node);
  }
  ASSERT_TRUE(base::WriteFileAtomically(path_ / "dev/gdrdrv-notes", "no device"));
  EXPECT_THAT(Nodes("gdrcopy"), ElementsAre("/dev/gdrdrv"));
  EXPECT_THAT(Nodes("gds"), ElementsAre("/dev/nvidia-fs0", "/dev/nvidia-fs1"));
  EXPECT_THAT(Nodes("mofed"), ElementsAre("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"));
  EXPECT_THAT(Nodes("nvswitch"), ElementsAre("/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitch1",
                                             "/dev/nvidia-nvswitchctl"));
}

TEST_F(ClassesTest, HostPathsAreThoseOfTheHost) {
  Device("dev/nvidia-fs0");
  ASSERT_TRUE(base::WriteFileAtomically(path_ / "etc/cufile.json", "{}"));
  roots_.driver_on_host = "/run/nvidia/driver";
  roots_.dev_on_host = "/run/nvidia/driver";
  const auto spec = GenerateClass(*FindDeviceClass("gds"), "nvidia.com", roots_);
  ASSERT_TRUE(spec);
  const auto& edits = (*spec)->devices.at(0).edits;
  EXPECT_EQ(edits.device_nodes.at(0).host_path, "/run/nvidia/driver/dev/nvidia-fs0");
  ASSERT_EQ(edits.mounts.size(), 1U) << "/run/udev is not there";
  EXPECT_EQ(edits.mounts[0].host_path, "/run/nvidia/driver/etc/cufile.json");
  EXPECT_EQ(edits.mounts[0].container_path, "/etc/cufile.json");
  fs::create_directories(path_ / "run/udev");
  const auto with_udev = GenerateClass(*FindDeviceClass("gds"), "nvidia.com", roots_);
  ASSERT_TRUE(with_udev);
  std::vector<std::string> mounted;
  for (const auto& mount : (*with_udev)->devices.at(0).edits.mounts) {
    mounted.push_back(mount.container_path);
  }
  EXPECT_THAT(mounted, UnorderedElementsAre("/etc/cufile.json", "/run/udev"));
}

TEST_F(ClassesTest, ImexChannelsAreNamedByTheirNumbers) {
  RecordProperty("holds", "container-toolkit.md #67 [TestImexMode]");
  const std::vector<std::int64_t> channels = {0, 1, 2047};
  const auto spec = GenerateImexChannels(channels, "nvidia.com", roots_);
  EXPECT_EQ(spec.kind, "nvidia.com/imex-channel");
  ASSERT_EQ(spec.devices.size(), 3U);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const std::string number = std::to_string(channels[i]);
    EXPECT_EQ(spec.devices[i].name, number);
    EXPECT_EQ(spec.devices[i].edits.device_nodes.at(0).path,
              "/dev/nvidia-caps-imex-channels/channel" + number);
  }
  EXPECT_TRUE(cdi::Validate(spec));
}

}  // namespace
}  // namespace pitcrew::cdi_generate
