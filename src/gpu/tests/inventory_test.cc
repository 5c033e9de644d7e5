#include "gpu/inventory.h"

#include <gtest/gtest.h>

namespace pitcrew::gpu {
namespace {

// feature-discovery.md section 13: busId carries an 8-digit domain, consumers strip four zeros.
TEST(PciAddress, SpellingsOfNvmlAndSysfs) {
  const auto address = PciAddress::Parse("00000000:1B:00.0");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->SysfsName(), "0000:1b:00.0");
  EXPECT_EQ(address->BusId(), "00000000:1B:00.0");
  EXPECT_EQ(*PciAddress::Parse("0000:1b:00.0"), *address);
  EXPECT_EQ(*PciAddress::Parse("1b:00"), *address);
  EXPECT_EQ(PciAddress::Parse("65:1F.7")->SysfsName(), "0000:65:1f.7");
  EXPECT_EQ(PciAddress::Parse("00010000:07:00.0")->SysfsName(), "10000:07:00.0");
}

TEST(PciAddress, RefusesWhatIsNone) {
  for (const char* text : {"", "1b", "0000:1b:00.8", "0000:1bb:00.0", "0000:1b:20.0", "x:1b:00.0",
                           "0000:1b:00.", "0000:1b:"}) {
    EXPECT_FALSE(PciAddress::Parse(text)) << text;
  }
}

// CUDA 12040 is 12.4.
TEST(Inventory, CudaVersionParts) {
  RecordProperty("holds", "feature-discovery.md #19");
  Inventory inventory;
  inventory.cuda_version = 12040;
  EXPECT_EQ(inventory.CudaMajor(), 12);
  EXPECT_EQ(inventory.CudaMinor(), 4);
}

// feature-discovery.md section 4.5
TEST(Fabric, AttachedOnlyWhenCompletedWithAClusterUuid) {
  Fabric fabric;
  fabric.state = 3;
  EXPECT_FALSE(fabric.IsAttached());
  fabric.cluster_uuid[0] = 0xab;
  EXPECT_TRUE(fabric.IsAttached());
  fabric.state = 2;
  EXPECT_FALSE(fabric.IsAttached());
  EXPECT_EQ(fabric.ClusterUuidText(), "ab000000-0000-0000-0000-000000000000");
}

TEST(Inventory, FindsDevicesByUuid) {
  Inventory inventory;
  inventory.devices.resize(2);
  inventory.devices[1].uuid = "GPU-1";
  EXPECT_EQ(inventory.FindDevice("GPU-1"), &inventory.devices[1]);
  EXPECT_EQ(inventory.FindDevice("GPU-2"), nullptr);
}

// device-plugin.md section 7
TEST(Inventory, DisplayAdaptersAreSkippedByExactName) {
  EXPECT_TRUE(IsSkippedDeviceName("NVIDIA DGX Display"));
  EXPECT_FALSE(IsSkippedDeviceName("NVIDIA H100 80GB HBM3"));
}

}  // namespace
}  // namespace pitcrew::gpu
