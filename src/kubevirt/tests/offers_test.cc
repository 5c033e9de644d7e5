#include "kubevirt/offers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::kubevirt {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// vgpu-device-manager.md: names of types, of MIG-backed ones and with attributes, too.
TEST(EntriesFor, VgpusAreTheTypesThatTheyAreCalledAfter) {
  const std::pair<const char*, const char*> types[] = {
      {"nvidia.com/NVIDIA_A10-24Q", "NVIDIA A10-24Q"},
      {"nvidia.com/GRID_T4-1B", "GRID T4-1B"},
      {"nvidia.com/NVIDIA_A100-1-5CME", "NVIDIA A100-1-5CME"},
      {"nvidia.com/NVIDIA_H200X-1-18C", "NVIDIA H200X-1-18C"},
      {"nvidia.com/NVIDIA_RTX_Pro_6000_Blackwell_DC-24Q", "NVIDIA RTX Pro 6000 Blackwell DC-24Q"}};
  for (const auto& [resource, type] : types) {
    const auto entries = EntriesFor(resource, {});
    ASSERT_EQ(entries.size(), 1U) << resource;
    EXPECT_EQ(entries[0],
              (Entry{List::kMediated, type, resource, /*external=*/true, /*disabled=*/false}));
  }
}

TEST(EntriesFor, NothingIsGuessed) {
  for (const char* resource : {"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb",
                               "nvidia.com/pgpu", "nvidia.com/a-b", "nvidia.com/-24Q",
                               "nvidia.com/A10-", "intel.com/A10-24Q", "NVIDIA_A10-24Q", ""}) {
    EXPECT_THAT(EntriesFor(resource, {}), IsEmpty()) << resource;
  }
}

TEST(NamedResources, OfMachinesAndInstances) {
  const Json devices = {
      {"gpus",
       {{{"name", "a"}, {"deviceName", "nvidia.com/B"}}, {{"name", "claim"}, {"claimName", "c"}}}},
      {"hostDevices", {{{"name", "b"}, {"deviceName", "intel.com/qat"}}}}};
  const Json domain = {{"domain", {{"devices", devices}}}};
  EXPECT_THAT(ReadNamedResources({{"spec", domain}}), ElementsAre("intel.com/qat", "nvidia.com/B"));
  EXPECT_THAT(ReadNamedResources({{"spec", {{"template", {{"spec", domain}}}}}}),
              ElementsAre("intel.com/qat", "nvidia.com/B"));
  EXPECT_THAT(ReadNamedResources(Json::object()), IsEmpty());
}

TEST(Selectors, MeanTheSameToKubeVirt) {
  RecordProperty("holds", "virtualisation-and-olm.md #5");
  EXPECT_TRUE(SameSelector(List::kPci, "10DE:2236", "10de:2236"));
  EXPECT_FALSE(SameSelector(List::kPci, "10DE:2236", "10DE:2237"));
  EXPECT_TRUE(SameSelector(List::kMediated, "NVIDIA A10-24Q", "NVIDIA_A10-24Q"));
  EXPECT_FALSE(SameSelector(List::kMediated, "NVIDIA A10-24Q", "nvidia A10-24Q"));
}

}  // namespace
}  // namespace pitcrew::kubevirt
