// What the components of virtual machines look at, over values and trees (validator.md section 6).
#include "node/validator/sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "desired/node_labels.h"
#include "node/validator/options.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::validator {
namespace {

using host::PciDevice;
using ::testing::HasSubstr;

template <class T>
base::Observed<T> There(T value) {
  return base::Observed<T>::Present(std::move(value));
}

PciDevice Gpu(const char* driver = nullptr) {
  static std::uint8_t bus = 0;
  PciDevice gpu;
  gpu.address.bus = ++bus;
  gpu.vendor = host::kVendorNvidia;
  gpu.class_code = 0x030200;
  if (driver != nullptr) gpu.driver = There<std::string>(driver);
  return gpu;
}

PciDevice Physical(std::uint32_t total, std::uint32_t there) {
  PciDevice gpu = Gpu("nvidia");
  gpu.sriov_total_vfs = There(total);
  gpu.sriov_vfs = There(there);
  return gpu;
}

host::PciScan ScanOf(std::vector<PciDevice> devices) {
  return {.devices = std::move(devices), .failures = {}};
}

codec::Json NodeWith(const codec::Json& labels) { return {{"metadata", {{"labels", labels}}}}; }

TEST(Workloads, TheLabelThenTheDefaultThenPassthrough) {
  RecordProperty("holds", "validator.md #27");
  constexpr const char* kLabel = "nvidia.com/gpu.workload.config";
  EXPECT_EQ(WorkloadOf(NodeWith({{kLabel, "container"}}), "vm-vgpu"),
            desired::Workload::kContainer);
  EXPECT_EQ(WorkloadOf(NodeWith({{kLabel, "bogus"}}), "vm-vgpu"), desired::Workload::kVgpu);
  EXPECT_EQ(WorkloadOf(NodeWith({{kLabel, ""}}), "vm-vgpu"), desired::Workload::kVgpu);
  EXPECT_EQ(WorkloadOf(NodeWith(codec::Json::object()), "bogus"), desired::Workload::kPassthrough);
  // The operator has left it as it is.
  const auto misspelt =
      NodeWith({{kLabel, "vm-passthru"}, {"nvidia.com/gpu.deploy.vfio-manager", "true"}});
  EXPECT_EQ(WorkloadOf(misspelt, "container"), desired::Workload::kPassthrough);
}

TEST(BoundToVfio, EveryGpuByWhicheverVariant) {  // validator.md 6.2
  EXPECT_TRUE(CheckBoundToVfio(ScanOf({})));
  EXPECT_TRUE(CheckBoundToVfio(
      ScanOf({Gpu("vfio-pci"), Gpu("nvgrace_gpu_vfio_pci"), Gpu("another_vfio_pci")})));
  auto function = Gpu("nvidia");
  function.physical_function = There(gpu::PciAddress{});
  EXPECT_TRUE(CheckBoundToVfio(ScanOf({Gpu("vfio-pci"), function}))) << "not virtual functions";
  for (const char* driver : {"nvidia", "nouveau"}) {
    const auto checked = CheckBoundToVfio(ScanOf({Gpu("vfio-pci"), Gpu(driver)}));
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message,
                HasSubstr(std::string("device not bound to 'vfio-pci'; device: ")));
    EXPECT_THAT(checked.error().message, HasSubstr(std::string("driver: '") + driver + "'"));
  }
  EXPECT_THAT(CheckBoundToVfio(ScanOf({Gpu()})).error().message, HasSubstr("driver: ''"));
}

TEST(BoundToVfio, OnADividedNodeOnlyThoseForVirtualMachines) {
  const auto scan = ScanOf({Gpu("vfio-pci"), Gpu("nvidia")});
  EXPECT_TRUE(CheckBoundToVfio(scan, {scan.devices[0].address}));
  const auto checked = CheckBoundToVfio(scan, {scan.devices[0].address, scan.devices[1].address});
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr(scan.devices[1].address.SysfsName()));
}

TEST(BoundToVfio, TheGpusThatANodeNames) {
  const auto named = [](const std::string& list) {
    return MachineGpusOf(
        {{"metadata", {{"annotations", {{std::string(desired::kMachineGpus), list}}}}}});
  };
  EXPECT_THAT(named("0000:65:00.0, 00000000:B3:00.0"),
              ::testing::ElementsAre(*gpu::PciAddress::Parse("0000:65:00.0"),
                                     *gpu::PciAddress::Parse("0000:b3:00.0")));
  EXPECT_THAT(named("0000:65:00.0,gpu1"), ::testing::IsEmpty());
  EXPECT_THAT(MachineGpusOf(NodeWith(codec::Json::object())), ::testing::IsEmpty());
}

TEST(VirtualFunctions, AreUsedWhereAGpuHasSome) {
  RecordProperty("holds", "validator.md #8");
  EXPECT_FALSE(UsesVirtualFunctions(ScanOf({})));
  EXPECT_FALSE(UsesVirtualFunctions(ScanOf({Gpu("nvidia")})));
  EXPECT_FALSE(UsesVirtualFunctions(ScanOf({Physical(16, 0)})));
  EXPECT_TRUE(UsesVirtualFunctions(ScanOf({Physical(16, 16)})));
  EXPECT_TRUE(UsesVirtualFunctions(ScanOf({Gpu("nvidia"), Physical(16, 4)})));
}

TEST(VirtualFunctions, AreAllThereWhenNoGpuLacksOne) {
  RecordProperty("holds", "validator.md #9");
  EXPECT_FALSE(HasAllVirtualFunctions(ScanOf({})));
  EXPECT_FALSE(HasAllVirtualFunctions(ScanOf({Gpu("nvidia")})));
  EXPECT_FALSE(HasAllVirtualFunctions(ScanOf({Physical(16, 4)})));
  EXPECT_FALSE(HasAllVirtualFunctions(ScanOf({Physical(16, 16), Physical(16, 0)})));
  EXPECT_TRUE(HasAllVirtualFunctions(ScanOf({Physical(16, 16)})));
  EXPECT_TRUE(HasAllVirtualFunctions(ScanOf({Physical(16, 16), Physical(8, 8)})));
}

// A node with one A100 at 0000:65:00.0.
class VgpuNode : public ::testing::Test {
 protected:
  VgpuNode() { Device("0000:65:00.0"); }
  void Device(const std::string& address) const {
    const auto inside = "sys/bus/pci/devices/" + address + "/";
    folder_.Write(inside + "vendor", "0x10de\n");
    folder_.Write(inside + "device", "0x20b5\n");
    folder_.Write(inside + "class", "0x030200\n");
  }
  void Function(const std::string& address) const {
    Device(address);
    std::filesystem::create_symlink("../0000:65:00.0",
                                    folder_.path() / "sys/bus/pci/devices" / address / "physfn");
  }
  test_support::TemporaryFolder folder_;
  host::Root root_{folder_.path()};
};

TEST_F(VgpuNode, AParentOfMediatedDevicesIsEnough) {
  RecordProperty("holds", "validator.md #10");
  EXPECT_EQ(CheckVgpuParents(root_).error().reason, "NoVgpuParents");
  std::filesystem::create_directories(folder_.path() / "sys/class/mdev_bus/0000:65:00.0");
  EXPECT_TRUE(CheckVgpuParents(root_));
}

TEST_F(VgpuNode, WithVirtualFunctionsAllOfThemAreWaitedFor) {  // validator.md 6.3
  const std::string gpu = "sys/bus/pci/devices/0000:65:00.0/";
  folder_.Write(gpu + "sriov_totalvfs", "16\n");
  folder_.Write(gpu + "sriov_numvfs", "4\n");
  std::filesystem::create_directories(folder_.path() / "sys/class/mdev_bus/0000:65:00.0");
  EXPECT_THAT(CheckVgpuParents(root_).error().message, HasSubstr("not all virtual functions"));
  folder_.Write(gpu + "sriov_numvfs", "16\n");
  EXPECT_TRUE(CheckVgpuParents(root_));
}

TEST_F(VgpuNode, AMediatedDeviceOfNvidiasIsAVgpu) {  // validator.md 6.4
  EXPECT_EQ(CheckVgpus(root_).error().reason, "NoVgpus");
  const auto make = [&](const std::string& parent, const std::string& uuid) {
    const auto real = "sys/devices/pci0000:60/" + parent + "/" + uuid;
    folder_.Write(real + "/mdev_type/name", "NVIDIA A100-4C\n");
    std::filesystem::create_directories(folder_.path() / "sys/bus/mdev/devices");
    std::filesystem::create_symlink("../../../../" + real,
                                    folder_.path() / "sys/bus/mdev/devices" / uuid);
  };
  make("0000:99:00.0", "11111111-1111-4111-8111-111111111111");
  EXPECT_FALSE(CheckVgpus(root_)) << "of another vendor's device";
  make("0000:65:00.0", "c73f1fa6-489e-4834-9476-d70dabd98c40");
  EXPECT_TRUE(CheckVgpus(root_));
}

TEST_F(VgpuNode, AVirtualFunctionWithATypeIsAVgpu) {
  RecordProperty("holds", "virtualisation-and-olm.md #40");
  Function("0000:65:00.4");
  const std::string type = "sys/bus/pci/devices/0000:65:00.4/nvidia/current_vgpu_type";
  EXPECT_FALSE(CheckVgpus(root_));
  folder_.Write(type, "0\n");
  EXPECT_FALSE(CheckVgpus(root_));
  folder_.Write(type, "1414\n");
  EXPECT_TRUE(CheckVgpus(root_));
}

TEST_F(VgpuNode, ADeviceThatCannotBeReadIsNotPassedOver) {
  folder_.Write("sys/bus/pci/devices/0000:66:00.0/vendor", "rubbish\n");
  EXPECT_EQ(CheckVgpuParents(root_).error().reason, "MalformedSysfsAttribute");
  EXPECT_EQ(CheckVgpus(root_).error().reason, "MalformedSysfsAttribute");
}

}  // namespace
}  // namespace pitcrew::node::validator
