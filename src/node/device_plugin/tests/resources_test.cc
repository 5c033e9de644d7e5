#include "node/device_plugin/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/device_plugin/plugin.h"
#include "support_inventory.h"

namespace pitcrew::node::device_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kTwoGpus = R"(
devices:
- {uuid: GPU-a, name: NVIDIA H100, pci: "0000:1b:00.0", minor_number: 4}
- {uuid: GPU-b, name: NVIDIA H100, pci: "0000:1c:00.0"}
)";

// One whole GPU, and one divided into 1g.5gb and 3g.20gb.
constexpr std::string_view kMixed = R"(
devices:
- {uuid: GPU-a, name: NVIDIA A100, mig: disabled}
- uuid: GPU-b
  name: NVIDIA A100
  mig: enabled
  mig_devices:
  - {uuid: MIG-1, gpu_instance: 9, profile: 1g.5gb, attributes: {memory_mib: 4864}}
  - {uuid: MIG-2, gpu_instance: 2, profile: 3g.20gb, attributes: {memory_mib: 19968}}
)";

NodeFacts Facts() {
  NodeFacts facts;
  for (unsigned gpu = 0; gpu < 2; ++gpu) {
    for (const unsigned instance : {2U, 9U}) {
      facts.mig_minors.gpu_instances[{gpu, instance}] = 100 * gpu + 10 * instance;
      facts.mig_minors.compute_instances[{gpu, instance, 0}] = 100 * gpu + 10 * instance + 1;
    }
  }
  return facts;
}

TEST(Resources, WholeGpus) {  // device-plugin.md section 8.3
  auto facts = Facts();
  facts.numa_nodes[gpu::PciAddress::Parse("0000:1b:00.0").value()] = 1;
  const auto resources = ListResources(Inventory(kTwoGpus), gpu::MigStrategy::kNone, {}, facts);
  ASSERT_TRUE(resources.has_value()) << resources.error().ToString();
  ASSERT_THAT(resources->devices, SizeIs(1));
  const auto& gpus = resources->devices.at("nvidia.com/gpu");
  ASSERT_THAT(Ids(gpus), ElementsAre("GPU-a", "GPU-b"));
  EXPECT_EQ(gpus[0].index, "0");
  EXPECT_THAT(gpus[0].paths, ElementsAre("/dev/nvidia4"));
  EXPECT_EQ(gpus[0].numa_node, 1);
  EXPECT_EQ(gpus[1].numa_node, std::nullopt);
  EXPECT_THAT(gpus[1].paths, ElementsAre("/dev/nvidia1"));
}

TEST(Resources, SkippedDisplaysLeaveGapsInTheIndex) {
  RecordProperty("holds", "device-plugin.md #24");
  const auto resources = ListResources(Inventory(R"(
devices:
- {uuid: GPU-a, name: NVIDIA A100}
- {uuid: GPU-b, name: NVIDIA DGX Display}
- {uuid: GPU-c, name: NVIDIA A100}
)"),
                                       gpu::MigStrategy::kNone, {}, Facts());
  const auto& gpus = resources->devices.at("nvidia.com/gpu");
  ASSERT_THAT(Ids(gpus), ElementsAre("GPU-a", "GPU-c"));
  EXPECT_EQ(gpus[1].index, "2");
}

TEST(Resources, NoneCountsMigEnabledGpusAsWhole) {
  RecordProperty("holds", "device-plugin.md #22");
  const auto resources = ListResources(Inventory(kMixed), gpu::MigStrategy::kNone, {}, Facts());
  EXPECT_THAT(Ids(resources->devices.at("nvidia.com/gpu")), ElementsAre("GPU-a", "GPU-b"));
}

TEST(Resources, MixedOffersOneResourcePerProfile) {
  RecordProperty("holds", "device-plugin.md #21");
  const auto resources = ListResources(Inventory(kMixed), gpu::MigStrategy::kMixed, {}, Facts());
  ASSERT_TRUE(resources.has_value()) << resources.error().ToString();
  ASSERT_THAT(resources->devices, SizeIs(3));
  EXPECT_THAT(Ids(resources->devices.at("nvidia.com/gpu")), ElementsAre("GPU-a"));
  const auto& part = resources->devices.at("nvidia.com/mig-1g.5gb");
  ASSERT_THAT(Ids(part), ElementsAre("MIG-1"));
  EXPECT_EQ(part[0].index, "1:0");
  EXPECT_THAT(part[0].paths, ElementsAre("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap190",
                                         "/dev/nvidia-caps/nvidia-cap191"));
  EXPECT_THAT(Ids(resources->devices.at("nvidia.com/mig-3g.20gb")), ElementsAre("MIG-2"));
  EXPECT_EQ(SocketName("nvidia.com/mig-1g.5gb"), "nvidia-mig-1g.5gb.sock");
}

TEST(Resources, MixedLeavesOutWhatHasNoNameAndKeepsTheRest) {  // section 22 number 11
  const auto resources = ListResources(Inventory(R"(
devices:
- uuid: GPU-a
  mig: enabled
  mig_devices:
  - {uuid: MIG-1, gpu_instance: 2, profile: 1c.2g.10gb}
  - {uuid: MIG-2, gpu_instance: 9, profile: 1g.5gb}
- {uuid: GPU-b, mig: enabled}
)"),
                                       gpu::MigStrategy::kMixed, {}, Facts());
  ASSERT_TRUE(resources.has_value());
  ASSERT_THAT(resources->devices, SizeIs(1));
  EXPECT_THAT(Ids(resources->devices.at("nvidia.com/mig-1g.5gb")), ElementsAre("MIG-2"));
  EXPECT_THAT(resources->warnings, SizeIs(2));
}

TEST(Resources, SingleOffersMigDevicesAsGpus) {
  RecordProperty("holds", "device-plugin.md #20");
  const auto resources = ListResources(Inventory(R"(
devices:
- {uuid: GPU-a, mig: enabled, mig_devices: [{uuid: MIG-1, gpu_instance: 2, profile: 3g.20gb}]}
- {uuid: GPU-b, mig: enabled, mig_devices: [{uuid: MIG-2, gpu_instance: 2, profile: 3g.20gb}]}
)"),
                                       gpu::MigStrategy::kSingle, {}, Facts());
  ASSERT_TRUE(resources.has_value()) << resources.error().ToString();
  ASSERT_THAT(resources->devices, SizeIs(1));
  EXPECT_THAT(Ids(resources->devices.at("nvidia.com/gpu")), ElementsAre("MIG-1", "MIG-2"));
}

TEST(Resources, SingleRefusesWhatIsNotDividedAlike) {
  RecordProperty("holds", "device-plugin.md #20");
  const auto reason = [](std::string_view yaml) {
    const auto resources = ListResources(Inventory(yaml), gpu::MigStrategy::kSingle, {}, Facts());
    return resources ? std::string("accepted") : resources.error().reason;
  };
  EXPECT_EQ(reason("devices: [{uuid: GPU-a, mig: enabled}]"), "MigGpuWithoutDevices");
  EXPECT_EQ(reason("devices: [{uuid: GPU-a, mig: enabled, mig_devices: [{uuid: MIG-1, "
                   "gpu_instance: 2, profile: 3g.20gb}]}, {uuid: GPU-b, mig: disabled}]"),
            "MixedMigModes");
  EXPECT_EQ(reason(kMixed), "MixedMigTypes");
  EXPECT_EQ(reason(kTwoGpus), "accepted");
}

TEST(Resources, MigDevicesNeedTheirCapabilities) {  // device-plugin.md section 8.3
  const auto resources =
      ListResources(Inventory(kMixed), gpu::MigStrategy::kMixed, {}, NodeFacts());
  ASSERT_FALSE(resources.has_value());
  EXPECT_EQ(resources.error().reason, "MigMinorMissing");
}

api::Sharing TimeSlicing(bool rename) {
  api::Sharing sharing;
  sharing.time_slicing.emplace();
  sharing.time_slicing->resources = {
      {.name = "nvidia.com/gpu", .rename = rename ? "nvidia.com/gpu.shared" : "", .replicas = 4},
      {.name = "nvidia.com/absent", .rename = "", .replicas = 2}};
  return sharing;
}

TEST(Resources, Replicas) {
  RecordProperty("holds", "device-plugin.md #23");
  const auto resources =
      ListResources(Inventory(kTwoGpus), gpu::MigStrategy::kNone, TimeSlicing(false), Facts());
  ASSERT_THAT(resources->devices, SizeIs(1));
  const auto& gpus = resources->devices.at("nvidia.com/gpu");
  EXPECT_THAT(Ids(gpus), ElementsAre("GPU-a::0", "GPU-a::1", "GPU-a::2", "GPU-a::3", "GPU-b::0",
                                     "GPU-b::1", "GPU-b::2", "GPU-b::3"));
  EXPECT_EQ(gpus[3].uuid, "GPU-a");
  EXPECT_TRUE(gpus[3].IsReplica());
  EXPECT_THAT(gpus[3].paths, ElementsAre("/dev/nvidia4"));

  const auto renamed =
      ListResources(Inventory(kTwoGpus), gpu::MigStrategy::kNone, TimeSlicing(true), Facts());
  ASSERT_THAT(renamed->devices, SizeIs(1));
  EXPECT_THAT(renamed->devices.at("nvidia.com/gpu.shared"), SizeIs(8));
  EXPECT_EQ(SocketName("nvidia.com/gpu.shared"), "nvidia-gpu.shared.sock");
}

TEST(Resources, AResourceThatIsSharedTwiceHasTheLastEntrysReplicas) {
  auto sharing = TimeSlicing(false);
  sharing.time_slicing->resources[1] = {.name = "nvidia.com/gpu", .rename = "", .replicas = 2};
  const auto resources =
      ListResources(Inventory(kTwoGpus), gpu::MigStrategy::kNone, sharing, Facts());
  EXPECT_THAT(Ids(resources->devices.at("nvidia.com/gpu")),
              ElementsAre("GPU-a::0", "GPU-a::1", "GPU-b::0", "GPU-b::1"));
}

TEST(Resources, AGpuThatCannotBeReadIsListedUnfit) {
  const auto resources = ListResources(Inventory(R"(
devices:
- {uuid: GPU-a, name: NVIDIA A100, fault: GpuIsLost}
- {fault: GpuIsLost}
- {uuid: GPU-c, name: NVIDIA A100}
)"),
                                       gpu::MigStrategy::kNone, {}, Facts());
  const auto& gpus = resources->devices.at("nvidia.com/gpu");
  ASSERT_THAT(Ids(gpus), ElementsAre("GPU-a", "unidentified-gpu-1", "GPU-c"));
  EXPECT_NE(gpus[0].unfit, "");
  EXPECT_NE(gpus[1].unfit, "");
  EXPECT_EQ(gpus[2].unfit, "");
  EXPECT_THAT(resources->warnings, SizeIs(2));
}

// Whether it is divided is not known, so it must not be given away whole.
TEST(Resources, AGpuOfUnknownMigModeIsListedUnfit) {
  auto inventory = Inventory(kMixed);
  inventory.devices[0].mig_mode =
      base::Observed<gpu::MigMode>::Unknown(base::Internal("NvmlUnknownError", "?"));
  inventory.devices[1].mig_devices.pop_back();
  for (const auto strategy : {gpu::MigStrategy::kMixed, gpu::MigStrategy::kSingle}) {
    const auto resources = ListResources(inventory, strategy, {}, Facts());
    ASSERT_TRUE(resources.has_value()) << resources.error().ToString();
    const auto& gpus = resources->devices.at("nvidia.com/gpu");
    EXPECT_EQ(gpus[0].id, "GPU-a");
    EXPECT_NE(gpus[0].unfit, "");
  }
}

// The driver may have taken the instances of a GPU that is away; the others must not pay for it.
TEST(Resources, MigDevicesOfALostGpuNeedNoCapabilities) {
  auto inventory = Inventory(kMixed);
  inventory.devices[1].fault = base::Unavailable("GpuIsLost", "gone");
  const auto resources = ListResources(inventory, gpu::MigStrategy::kMixed, {}, NodeFacts());
  ASSERT_TRUE(resources.has_value()) << resources.error().ToString();
  EXPECT_THAT(Ids(resources->devices.at("nvidia.com/gpu")), ElementsAre("GPU-a"));
}

TEST(Resources, AListThatNoKubeletTakesIsRefused) {
  auto sharing = TimeSlicing(false);
  const auto offer = [&](int replicas) {
    sharing.time_slicing->resources[0].replicas = replicas;
    return ListResources(Inventory(kTwoGpus), gpu::MigStrategy::kNone, sharing, Facts());
  };
  const auto refused = offer(1'000'000'000);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason, "ListTooLong");
  EXPECT_NE(refused.error().message.find("nvidia.com/gpu"), std::string::npos);
  // The number that it names fits, and one more does not.
  const auto& message = refused.error().message;
  const auto at = message.find("ask for ") + 8;
  const int fits = std::stoi(message.substr(at));
  EXPECT_GT(fits, 10'000);
  const auto accepted = offer(fits);
  ASSERT_TRUE(accepted.has_value()) << accepted.error().ToString();
  std::vector<rpc::PluginDevice> list;
  for (const auto& device : accepted->devices.at("nvidia.com/gpu")) {
    list.push_back({.id = device.id, .healthy = false, .numa_node = device.numa_node});
  }
  EXPECT_LE(rpc::ListSize(list), rpc::kLargestList);
  EXPECT_EQ(offer(fits + 1).error().reason, "ListTooLong");
}

TEST(Resources, NoGpusIsNoResource) {
  EXPECT_THAT(ListResources({}, gpu::MigStrategy::kMixed, TimeSlicing(false), {})->devices,
              IsEmpty());
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
