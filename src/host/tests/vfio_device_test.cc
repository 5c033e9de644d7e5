// What VFIO tells of devices (kubevirt-device-plugin.md sections 2 and 5), and mediated devices of
// which one cannot be read.
#include "host/vfio_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "host/mdev.h"

namespace pitcrew::host {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Key;
namespace fs = std::filesystem;

class VfioDeviceTest : public ::testing::Test {
 protected:
  VfioDeviceTest() {
    char name[] = "/tmp/pitcrew-vfio-XXXXXX";
    path_ = ::mkdtemp(name);
    root_ = Root(path_);
  }
  ~VfioDeviceTest() override { fs::remove_all(path_); }
  void Write(const fs::path& inside, const std::string& text) const {
    ASSERT_TRUE(base::WriteFileAtomically(path_ / inside, text));
  }

  fs::path path_;
  Root root_;
};

TEST(VfioDriver, ByItsName) {
  for (const char* driver : {"vfio-pci", "nvgrace_gpu_vfio_pci", "mlx5_vfio_pci", "xe-vfio-pci"}) {
    EXPECT_TRUE(IsVfioDriver(driver)) << driver;
  }
  for (const char* driver : {"nvidia", "vfio-pci-core", "nvidia-vgpu-vfio", ""}) {
    EXPECT_FALSE(IsVfioDriver(driver)) << driver;
  }
}

TEST_F(VfioDeviceTest, Nodes) {
  EXPECT_EQ(ListVfioNodes(root_).error().code, base::Code::kNotFound);
  Write("dev/vfio/vfio", "");
  Write("dev/vfio/12", "");
  EXPECT_THAT(*ListVfioNodes(root_), ElementsAre("12", "vfio"));
  Write("dev/vfio/devices/vfio3", "");
  EXPECT_THAT(*ListVfioNodes(root_), ElementsAre("12", "devices/vfio3", "vfio"));
}

TEST_F(VfioDeviceTest, MemoryOfSeveralGpus) {
  EXPECT_THAT(ReadEgmDevices(root_)->devices, IsEmpty());
  Write("sys/class/egm/egm4/gpu_devices", "0008:06:00.0\n0009:06:00.0\t\n");
  Write("sys/class/egm/egm5/gpu_devices", "\n");
  Write("sys/class/egm/control/gpu_devices", "0008:06:00.0\n");
  Write("sys/class/egm/other/gpu_devices", "0008:06:00.0\n");
  fs::create_directories(path_ / "sys/class/egm/egm6");
  const auto scan = ReadEgmDevices(root_);
  EXPECT_THAT(scan->devices, ElementsAre(EgmDevice{"egm4", {"0008:06:00.0", "0009:06:00.0"}}));
  EXPECT_EQ(scan->failures.size(), 1U) << "egm6 does not tell";
}

TEST_F(VfioDeviceTest, AMediatedDeviceThatCannotBeReadIsNotAbsent) {
  const std::string good = "c73f1fa6-489e-4834-9476-d70dabd98c40";
  const std::string bad = "d73f1fa6-489e-4834-9476-d70dabd98c40";
  for (const auto& uuid : {good, bad}) {
    const fs::path real = fs::path("sys/devices/pci0000:60/0000:65:00.4") / uuid;
    fs::create_directories(path_ / real);
    if (uuid == good) Write(real / "mdev_type/name", "NVIDIA A100-4C\n");
    fs::create_directories(path_ / "sys/bus/mdev/devices");
    fs::create_symlink(fs::path("../../../..") / real, path_ / "sys/bus/mdev/devices" / uuid);
  }
  const auto scan = ScanMdevs(root_);
  ASSERT_TRUE(scan) << scan.error().ToString();
  EXPECT_THAT(scan->devices, ElementsAre(Field(&MdevDevice::uuid, good)));
  EXPECT_THAT(scan->unreadable, ElementsAre(Key(bad)));
  EXPECT_FALSE(ListMdevs(root_));
}

}  // namespace
}  // namespace pitcrew::host
