#include "node/device_plugin/known_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support_inventory.h"

namespace pitcrew::node::device_plugin {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view kThree = R"(
devices:
- {uuid: GPU-a, name: A, pci: "0000:1a:00.0"}
- {uuid: GPU-b, name: B, pci: "0000:1b:00.0", mig: enabled, mig_devices: [{uuid: MIG-1, profile: 1g.5gb}]}
- {uuid: GPU-c, name: C, pci: "0000:1c:00.0"}
)";

const std::optional<std::set<gpu::PciAddress>> kNotLooked;

std::vector<std::string> Uuids(const gpu::Inventory& inventory) {
  std::vector<std::string> uuids;
  for (const auto& device : inventory.devices) uuids.push_back(device.uuid);
  return uuids;
}

std::set<gpu::PciAddress> Addresses(std::initializer_list<const char*> texts) {
  std::set<gpu::PciAddress> addresses;
  for (const auto* text : texts) addresses.insert(gpu::PciAddress::Parse(text).value());
  return addresses;
}

TEST(KnownGpus, OneThatCannotBeReadStaysWhatItWas) {
  KnownGpus known;
  known.Update(Inventory(kThree), kNotLooked);
  for (int times = 0; times < 2; ++times) {
    const auto view = known.Update(Inventory(R"(
devices: [{uuid: GPU-a, name: A}, {fault: GpuIsLost}, {uuid: GPU-c, name: C}])"),
                                   kNotLooked);
    ASSERT_THAT(Uuids(view.now), ElementsAre("GPU-a", "GPU-b", "GPU-c"));
    const auto& lost = view.now.devices[1];
    EXPECT_EQ(lost.fault->reason, "GpuIsLost");
    EXPECT_TRUE(lost.IsMigEnabled());
    EXPECT_EQ(lost.mig_devices.at(0).uuid, "MIG-1");
    EXPECT_FALSE(view.last_read.devices[1].fault);
  }
  const auto back = known.Update(Inventory(kThree), kNotLooked);
  EXPECT_FALSE(back.now.devices[1].fault);
}

TEST(KnownGpus, APartlyReadOneIsWhatItWas) {
  KnownGpus known;
  known.Update(Inventory(kThree), kNotLooked);
  const auto view = known.Update(Inventory(R"(
devices: [{uuid: GPU-a}, {uuid: GPU-b, fault: NvmlUnknownError}, {uuid: GPU-c}])"),
                                 kNotLooked);
  EXPECT_TRUE(view.now.devices[1].IsMigEnabled());
  EXPECT_TRUE(view.now.devices[1].fault);
}

TEST(KnownGpus, OneThatIsNoLongerListedIsThereWhileItsAddressIs) {
  const auto two = "devices: [{uuid: GPU-a, name: A}, {uuid: GPU-c, name: C}]";
  KnownGpus known;
  known.Update(Inventory(kThree), kNotLooked);
  const auto kept = known.Update(Inventory(two), kNotLooked);
  EXPECT_THAT(Uuids(kept.now), ElementsAre("GPU-a", "GPU-c", "GPU-b"));
  EXPECT_EQ(kept.now.devices[2].fault->reason, "GpuNotListed");
  const auto on_the_bus = Addresses({"0000:1a:00.0", "0000:1b:00.0", "0000:1c:00.0"});
  EXPECT_THAT(Uuids(known.Update(Inventory(two), on_the_bus).now),
              ElementsAre("GPU-a", "GPU-c", "GPU-b"));
  const auto taken_out = Addresses({"0000:1a:00.0", "0000:1c:00.0"});
  EXPECT_THAT(Uuids(known.Update(Inventory(two), taken_out).now), ElementsAre("GPU-a", "GPU-c"));
  // And stays forgotten.
  EXPECT_THAT(Uuids(known.Update(Inventory(two), kNotLooked).now), ElementsAre("GPU-a", "GPU-c"));
}

TEST(KnownGpus, OneThatWasNeverReadHasNoName) {
  KnownGpus known;
  const auto view =
      known.Update(Inventory("devices: [{uuid: GPU-a, name: A}, {fault: GpuIsLost}]"), kNotLooked);
  EXPECT_THAT(Uuids(view.now), ElementsAre("GPU-a", ""));
  EXPECT_TRUE(view.last_read.devices[1].fault);
  // When it can be read, nothing of the nameless one is left.
  const auto back = known.Update(
      Inventory("devices: [{uuid: GPU-a, name: A}, {uuid: GPU-b, name: A}]"), kNotLooked);
  EXPECT_THAT(Uuids(back.now), ElementsAre("GPU-a", "GPU-b"));
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
