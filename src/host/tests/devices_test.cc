// The write side of sysfs, over a tree of plain files: what is written where, and what an errno
// means (vfio-manager.md section 5). What the kernel then does is tried on a kernel, not here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "host/mdev.h"
#include "host/pci_control.h"
#include "host/sysfs.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;
using gpu::PciAddress;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DevicesTest : public ::testing::Test {
 protected:
  DevicesTest() {
    char name[] = "/tmp/pitcrew-devices-XXXXXX";
    path_ = ::mkdtemp(name);
    root_ = Root(path_);
    Write(device_ + "/driver_override", "(null)\n");
    Write("bus/pci/drivers_probe", "");
  }
  ~DevicesTest() override { fs::remove_all(path_); }

  void Write(const std::string& inside, const std::string& text) {
    ASSERT_TRUE(base::WriteFileAtomically(path_ / "sys" / inside, text));
  }
  void Link(const std::string& inside, const std::string& target) {
    fs::create_directories((path_ / "sys" / inside).parent_path());
    fs::create_symlink(target, path_ / "sys" / inside);
  }
  [[nodiscard]] std::string Read(const std::string& inside) const {
    return base::ReadFile(path_ / "sys" / inside).value_or("missing");
  }
  void BindTo(const std::string& driver) {
    Write("bus/pci/drivers/" + driver + "/unbind", "");
    Write("bus/pci/drivers/" + driver + "/bind", "");
    Link(device_ + "/driver", "../../drivers/" + driver);
  }

  fs::path path_;
  Root root_;
  PciAddress gpu_ = *PciAddress::Parse("0000:65:00.0");
  std::string device_ = "bus/pci/devices/0000:65:00.0";
};

TEST_F(DevicesTest, OverridesAreNamesAndANewlineClearsThem) {
  ASSERT_TRUE(SetDriverOverride(root_, gpu_, "vfio-pci"));
  EXPECT_EQ(Read(device_ + "/driver_override"), "vfio-pci");
  ASSERT_TRUE(ClearDriverOverride(root_, gpu_));
  EXPECT_EQ(Read(device_ + "/driver_override"), "\n");
}

TEST_F(DevicesTest, UnbindingTellsTheDriverThatHasTheDevice) {
  ASSERT_TRUE(UnbindDevice(root_, gpu_)) << "it has none (vfio-manager.md 5.1)";
  BindTo("nvidia");
  ASSERT_TRUE(UnbindDevice(root_, gpu_));
  EXPECT_EQ(Read("bus/pci/drivers/nvidia/unbind"), "0000:65:00.0");
  EXPECT_EQ(UnbindDevice(root_, *PciAddress::Parse("0000:66:00.0")).error().reason, "NoSuchDevice");
}

TEST_F(DevicesTest, BindingNeedsTheDriverAndAFreeDevice) {
  EXPECT_EQ(BindDevice(root_, gpu_, "vfio-pci").error().reason, "DriverNotLoaded");
  Write("bus/pci/drivers/vfio-pci/bind", "");
  ASSERT_TRUE(BindDevice(root_, gpu_, "vfio-pci"));
  EXPECT_EQ(Read("bus/pci/drivers/vfio-pci/bind"), "0000:65:00.0");
  BindTo("nvidia");
  EXPECT_EQ(BindDevice(root_, gpu_, "vfio-pci").error().reason, "BoundToAnother");
  ASSERT_TRUE(BindDevice(root_, gpu_, "nvidia")) << "it is already";
  EXPECT_EQ(Read("bus/pci/drivers/nvidia/bind"), "") << "and so nothing was written";
}

TEST_F(DevicesTest, AProbeNamesTheDevice) {
  ASSERT_TRUE(ProbeDevice(root_, gpu_));
  EXPECT_EQ(Read("bus/pci/drivers_probe"), "0000:65:00.0");
}

TEST_F(DevicesTest, VirtualFunctionsAreSetWithinTheDevicesLimit) {
  EXPECT_EQ(SetVirtualFunctions(root_, gpu_, 2).error().reason, "NoSriov");
  Write(device_ + "/sriov_totalvfs", "16\n");
  Write(device_ + "/sriov_numvfs", "0\n");
  const auto many = SetVirtualFunctions(root_, gpu_, 17);
  EXPECT_EQ(many.error().reason, "TooManyFunctions");
  EXPECT_THAT(many.error().message, HasSubstr("can have 16"));
  EXPECT_EQ(Read(device_ + "/sriov_numvfs"), "0\n");
  ASSERT_TRUE(SetVirtualFunctions(root_, gpu_, 4));
  EXPECT_EQ(Read(device_ + "/sriov_numvfs"), "4");
  ASSERT_TRUE(SetVirtualFunctions(root_, gpu_, 0));
  EXPECT_EQ(Read(device_ + "/sriov_numvfs"), "0");
}

TEST_F(DevicesTest, VirtualFunctionsComeInTheirOrder) {
  EXPECT_THAT(*VirtualFunctions(root_, gpu_), IsEmpty());
  Link(device_ + "/virtfn", "../0000:65:09.0");
  Link(device_ + "/virtfn10", "../0000:65:01.2");
  Link(device_ + "/virtfn2", "../0000:65:00.6");
  Link(device_ + "/virtfn0", "../0000:65:00.4");
  std::vector<std::string> names;
  const auto functions = VirtualFunctions(root_, gpu_);
  ASSERT_TRUE(functions);
  for (const auto& address : *functions) names.push_back(address.SysfsName());
  EXPECT_THAT(names, ElementsAre("0000:65:00.4", "0000:65:00.6", "0000:65:01.2"));
}

TEST_F(DevicesTest, MediatedDevicesOfAParent) {  // vgpu-device-manager.md section 4
  EXPECT_EQ(ListMdevParents(root_).error().reason, "NoMdev");
  EXPECT_EQ(ListMdevs(root_).error().reason, "NoMdev");
  fs::create_directories(path_ / "sys/class");
  fs::create_symlink("mdev_bus", path_ / "sys/class/mdev_bus");
  const auto unreadable = ListMdevParents(root_);
  ASSERT_FALSE(unreadable);
  EXPECT_NE(unreadable.error().reason, "NoMdev") << "unknown is not absent";
  fs::remove(path_ / "sys/class/mdev_bus");
  const std::string parent = "class/mdev_bus/0000:65:00.4";
  for (const auto& [id, name, available] : {std::tuple("nvidia-474", "NVIDIA A100-4C\n", "10\n"),
                                            std::tuple("nvidia-475", "NVIDIA A100-5C\n", "0\n")}) {
    const auto type = parent + "/mdev_supported_types/" + id;
    Write(type + "/name", name);
    Write(type + "/available_instances", available);
    Write(type + "/create", "");
  }
  fs::create_directories(path_ / "sys/class/mdev_bus/0.0.1234");
  fs::create_directories(path_ / "sys/bus/mdev/devices");
  const auto function = *PciAddress::Parse("0000:65:00.4");
  EXPECT_THAT(*ListMdevParents(root_), ElementsAre(function)) << "one is of another bus";
  EXPECT_THAT(*ListMdevTypes(root_, function),
              ElementsAre(MdevType{"nvidia-474", "NVIDIA A100-4C", 10},
                          MdevType{"nvidia-475", "NVIDIA A100-5C", 0}));
  EXPECT_THAT(*ListMdevs(root_), IsEmpty());
  const std::string uuid = "c73f1fa6-489e-4834-9476-d70dabd98c40";
  ASSERT_TRUE(CreateMdev(root_, function, "nvidia-474", uuid));
  EXPECT_EQ(Read(parent + "/mdev_supported_types/nvidia-474/create"), uuid);
  EXPECT_EQ(CreateMdev(root_, function, "nvidia-999", uuid).error().code, base::Code::kNotFound);
}

TEST_F(DevicesTest, MediatedDevicesThatExist) {  // vgpu-device-manager.md section 4
  const std::string uuid = "c73f1fa6-489e-4834-9476-d70dabd98c40";
  const std::string real = "devices/pci0000:60/0000:65:00.4/" + uuid;
  Write(real + "/mdev_type/name", "NVIDIA A100-4C\n");
  Write(real + "/remove", "");
  Link(real + "/iommu_group", "../../../../kernel/iommu_groups/133");
  Link(real + "/driver", "../../../../bus/mdev/drivers/nvidia-vgpu-vfio");
  Link("bus/mdev/devices/" + uuid, "../../../" + real);
  const auto devices = ListMdevs(root_);
  ASSERT_TRUE(devices) << devices.error().ToString();
  ASSERT_EQ(devices->size(), 1U);
  const auto& device = devices->front();
  EXPECT_EQ(device.uuid, uuid);
  EXPECT_EQ(device.parent.SysfsName(), "0000:65:00.4");
  EXPECT_EQ(device.type_name, "NVIDIA A100-4C");
  EXPECT_EQ(*device.driver.value(), "nvidia-vgpu-vfio");
  EXPECT_EQ(*device.iommu_group.value(), 133U);
  EXPECT_EQ(CreateMdev(root_, device.parent, "nvidia-474", uuid).error().reason, "MdevExists");
  ASSERT_TRUE(RemoveMdev(root_, uuid));
  EXPECT_EQ(Read(real + "/remove"), "1");
  EXPECT_TRUE(RemoveMdev(root_, "00000000-0000-0000-0000-000000000000")) << "gone already";
}

// /dev/full answers ENOSPC; a folder EISDIR.
TEST_F(DevicesTest, AnErrnoBecomesItsMeaning) {
  const auto full = WriteAttribute("/dev/full", "1", "make a vGPU");
  EXPECT_EQ(full.error().reason, "NoRoomLeft");
  EXPECT_THAT(full.error().message, HasSubstr("cannot make a vGPU (/dev/full): "));
  EXPECT_EQ(WriteAttribute(path_ / "sys/missing", "1", "try").error().reason, "NoSuchAttribute");
  EXPECT_FALSE(fs::exists(path_ / "sys/missing")) << "nothing is made";
  EXPECT_EQ(WriteAttribute(path_, "1", "try").error().reason, "SysfsWriteFailed");
  if (::geteuid() == 0 && fs::exists("/proc/sys/kernel/random/boot_id")) {
    EXPECT_EQ(WriteAttribute("/proc/sys/kernel/random/boot_id", "1", "try").error().code,
              base::Code::kDenied);
  }
}

}  // namespace
}  // namespace pitcrew::host
