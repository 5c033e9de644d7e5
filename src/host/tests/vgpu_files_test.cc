// Attributes of the vendor-specific VFIO framework, and who uses VFIO devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/device_users.h"
#include "host/vendor_vgpu.h"
#include "host/vfio_device.h"
#include "tests/support/vgpu_tree.h"

namespace pitcrew::host {
namespace {

using test_support::VgpuTree;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST(VendorVgpuTest, CreatableTypes) {
  RecordProperty("holds", "virtualisation-and-olm.md #32");
  EXPECT_THAT(ParseCreatableVgpuTypes("ID    : vGPU Name\n"
                                      "1428  : NVIDIA H200X-141C\n"
                                      "a line of a later driver\n"
                                      "x : y\n"
                                      "0 : none\n"
                                      "1414 : NVIDIA H200X-1-18C\n"),
              ElementsAre(VendorVgpuType{1414, "NVIDIA H200X-1-18C"},
                          VendorVgpuType{1428, "NVIDIA H200X-141C"}));
  EXPECT_THAT(ParseCreatableVgpuTypes("ID    : vGPU Name\n"), IsEmpty());
  EXPECT_THAT(ParseCreatableVgpuTypes(""), IsEmpty());
}

TEST(VendorVgpuTest, OneAFunction) {
  const VgpuTree tree;
  const Root root(tree.root());
  tree.AddGpu("0000:41:00.0", "2335");
  tree.AddVendorFunction("0000:41:00.0", "0000:41:00.1", 20, "1414 : NVIDIA H200X-1-18C\n");
  const auto function = gpu::PciAddress::Parse("0000:41:00.1").value();
  EXPECT_TRUE(HasVendorVgpus(root, function).value());
  EXPECT_FALSE(HasVendorVgpus(root, gpu::PciAddress::Parse("0000:41:00.0").value()).value());
  EXPECT_EQ(CurrentVgpuType(root, function).value(), 0U);
  ASSERT_TRUE(SetVgpuType(root, function, 1414));
  EXPECT_EQ(tree.VendorType("0000:41:00.1"), "1414");
  EXPECT_EQ(CurrentVgpuType(root, function).value(), 1414U);
  ASSERT_TRUE(SetVgpuType(root, function, 0));
  EXPECT_EQ(CurrentVgpuType(root, function).value(), 0U);
  tree.SetVendorType("0000:41:00.1", "none");
  EXPECT_EQ(CurrentVgpuType(root, function).error().reason, "InvalidVgpuTypeId");
}

TEST(VfioUsersTest, AreFoundByWhatTheyHaveOpen) {
  const VgpuTree tree;
  tree.AddVfioUser(31, "12", "qemu-kvm -name guest=default_vm,debug-threads=on -m 1024");
  tree.AddVfioUser(7, "devices/vfio3", "cloud-hypervisor");
  tree.Write("proc/99/comm", "bash\n");
  tree.Write("proc/99/fd/.keep", "");
  tree.Write("proc/uptime", "1");
  const auto users = ListVfioUsers(tree.root() / "proc");
  ASSERT_TRUE(users) << users.error().ToString();
  ASSERT_THAT(*users,
              UnorderedElementsAre(Pair("12", SizeIs(1)), Pair("devices/vfio3", SizeIs(1))));
  const auto& machine = users->at("12").front();
  EXPECT_EQ(machine.pid, 31);
  EXPECT_EQ(machine.ToString(), "qemu-kvm (process 31, virtual machine default_vm)");
  EXPECT_EQ(users->at("devices/vfio3").front().ToString(), "qemu-kvm (process 7)");
  EXPECT_EQ(ListVfioUsers(tree.root() / "nowhere").error().code, base::Code::kNotFound);
}

TEST(VfioUsersTest, ADeviceHasAGroupAndACharacterDevice) {
  const VgpuTree tree;
  tree.AddGpu("0000:41:00.0", "2335");
  tree.AddFunction("0000:41:00.0", "0000:41:00.1", 20);
  const auto folder = tree.root() / "sys/bus/pci/devices";
  EXPECT_THAT(VfioNodes(folder / "0000:41:00.0").value(), IsEmpty());
  EXPECT_THAT(VfioNodes(folder / "0000:41:00.1").value(), ElementsAre("20"));
  tree.Write("sys/bus/pci/devices/0000:41:00.1/vfio-dev/vfio4/dev", "511:4\n");
  EXPECT_THAT(VfioNodes(folder / "0000:41:00.1").value(), ElementsAre("20", "devices/vfio4"));
}

TEST(VfioUsersTest, GuestsAreNamed) {
  const std::string zero(1, '\0');
  EXPECT_EQ(GuestName("qemu" + zero + "-name" + zero + "guest=ns_vm,debug-threads=on" + zero),
            "ns_vm");
  EXPECT_EQ(GuestName("qemu" + zero + "-name" + zero + "plain" + zero), "plain");
  EXPECT_EQ(GuestName("qemu" + zero + "-name"), "");
  EXPECT_EQ(GuestName("qemu" + zero + "-name" + zero + "debug-threads=on" + zero), "");
  EXPECT_EQ(GuestName(""), "");
}

}  // namespace
}  // namespace pitcrew::host
