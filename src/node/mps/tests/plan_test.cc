#include "node/mps/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "tests/support/inventory_yaml.h"

namespace pitcrew::node::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

gpu::Inventory Inventory(std::string_view yaml) {
  auto inventory = test_support::InventoryFrom(codec::ParseYaml(yaml).value());
  EXPECT_TRUE(inventory.has_value()) << inventory.error().ToString();
  return *std::move(inventory);
}

api::Sharing Mps(std::string_view resources, std::string_view more = "") {
  const auto text = fmt::format("sharing: {{mps: {{{}resources: [{}]}}}}", more, resources);
  auto config = api::ParsePluginConfig(text, "test");
  EXPECT_TRUE(config.has_value()) << config.error().ToString();
  return config->sharing;
}

constexpr std::string_view kTwoGpus = R"(
devices:
- {uuid: GPU-a, name: NVIDIA H100, compute_capability: "9.0", memory_mib: 40960}
- {uuid: GPU-b, name: NVIDIA H100, compute_capability: "9.0", memory_mib: 40960, index: 3}
)";

TEST(Plan, ClientsByComputeCapability) {
  RecordProperty("holds", "device-plugin.md #46");
  EXPECT_EQ(MaxClients({7, 5}), 48);
  EXPECT_EQ(MaxClients({9, 0}), 48);
  EXPECT_EQ(MaxClients({10, 0}), 48);
  EXPECT_EQ(MaxClients({7, 0}), 16);
  EXPECT_EQ(MaxClients({6, 1}), 16);
}

TEST(Plan, MoreReplicasThanClientsAreRefused) {
  RecordProperty("holds", "device-plugin.md #46");
  const auto gpu = [](std::string_view capability) {
    return Inventory(fmt::format(
        "devices: [{{uuid: GPU-a, name: NVIDIA V100, compute_capability: \"{}\"}}]", capability));
  };
  const auto replicas = [](int number) {
    return Mps(fmt::format("{{name: gpu, replicas: {}}}", number));
  };
  EXPECT_TRUE(MakePlan(gpu("7.0"), replicas(16)));
  EXPECT_TRUE(MakePlan(gpu("9.0"), replicas(48)));
  for (const auto& [capability, number, text] :
       {std::tuple{"7.0", 29, "29 > 16"}, std::tuple{"9.0", 49, "49 > 48"}}) {
    const auto plan = MakePlan(gpu(capability), replicas(number));
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().reason, "TooManyReplicas");
    EXPECT_THAT(plan.error().message, HasSubstr(text));
    EXPECT_THAT(plan.error().message, HasSubstr("GPU 0 (NVIDIA V100)"));
  }
}

TEST(Plan, EveryClientGetsAnEqualPart) {
  RecordProperty("holds", "device-plugin.md #48");
  const auto plan = MakePlan(Inventory(kTwoGpus), Mps("{name: nvidia.com/gpu, replicas: 10}"));
  ASSERT_TRUE(plan);
  ASSERT_THAT(plan->resources, SizeIs(1));
  EXPECT_EQ(plan->resources[0].name, "nvidia.com/gpu");
  EXPECT_THAT(LimitCommands(plan->resources[0]),
              ElementsAre("set_default_device_pinned_mem_limit 0 4096M",
                          "set_default_device_pinned_mem_limit 3 4096M",
                          "set_default_active_thread_percentage 10"));
}

// device-plugin.md section 17.1: every division is one of whole numbers.
TEST(Plan, PartsAreRoundedDown) {
  const SharedResource resource{"nvidia.com/gpu", 3, {{"GPU-a", 0, (81559ULL << 20) + 1}}};
  EXPECT_THAT(LimitCommands(resource), ElementsAre("set_default_device_pinned_mem_limit 0 27186M",
                                                   "set_default_active_thread_percentage 33"));
}

TEST(Plan, UnknownMemoryIsNotLimited) {
  const auto inventory =
      Inventory("devices: [{uuid: GPU-a, name: NVIDIA H100, compute_capability: \"9.0\"}]");
  const auto plan = MakePlan(inventory, Mps("{name: gpu, replicas: 4}"));
  ASSERT_TRUE(plan);
  EXPECT_THAT(LimitCommands(plan->resources.at(0)),
              ElementsAre("set_default_active_thread_percentage 25"));
  EXPECT_THAT(plan->warnings, SizeIs(1));
}

TEST(Plan, ARenamedResourceHasTheNameThatIsOffered) {
  const auto plan =
      MakePlan(Inventory(kTwoGpus), Mps("{name: gpu, replicas: 2}", "renameByDefault: true, "));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->resources.at(0).name, "nvidia.com/gpu.shared");
}

TEST(Plan, TimeSlicingNeedsNoServer) {
  const auto config = api::ParsePluginConfig(
      "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}", "test");
  EXPECT_THAT(MakePlan(Inventory(kTwoGpus), config->sharing)->resources, IsEmpty());
  EXPECT_THAT(MakePlan(Inventory(kTwoGpus), api::Sharing())->resources, IsEmpty());
}

TEST(Plan, OfOtherResourcesNothingIsShared) {
  const auto plan = MakePlan(Inventory(kTwoGpus), Mps("{name: mig-1g.10gb, replicas: 2}"));
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->resources, IsEmpty());
  EXPECT_THAT(plan->warnings, SizeIs(1));

  const auto both = MakePlan(Inventory(kTwoGpus),
                             Mps("{name: mig-1g.10gb, replicas: 2}, {name: gpu, replicas: 2}"));
  ASSERT_TRUE(both);
  EXPECT_THAT(both->resources, SizeIs(1)) << "what stands behind it is shared all the same";
  EXPECT_THAT(both->warnings, SizeIs(1));
}

TEST(Plan, OneResourceHasOneSetOfReplicas) {
  const auto plan =
      MakePlan(Inventory(kTwoGpus), Mps("{name: gpu, replicas: 2}, {name: gpu, replicas: 4}"));
  ASSERT_TRUE(plan);
  ASSERT_THAT(plan->resources, SizeIs(1));
  EXPECT_EQ(plan->resources[0].replicas, 4);
}

TEST(Plan, MigIsRefused) {  // device-plugin.md section 17.3
  const auto inventory = Inventory(R"(
devices:
- {uuid: GPU-a, name: NVIDIA A100, compute_capability: "8.0", mig: disabled}
- {uuid: GPU-b, name: NVIDIA A100, compute_capability: "8.0", mig: enabled}
)");
  const auto plan = MakePlan(inventory, Mps("{name: gpu, replicas: 2}"));
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message,
              HasSubstr("sharing using MPS is not supported for MIG devices: GPU 1"));
}

TEST(Plan, AGpuThatCannotBeReadIsLeftOutAndTold) {
  const auto inventory = Inventory(R"(
devices:
- {uuid: GPU-a, name: NVIDIA H100, fault: GpuIsLost}
- {uuid: GPU-b, name: NVIDIA H100, compute_capability: "9.0"}
- {uuid: GPU-c, name: NVIDIA DGX Display}
)");
  const auto plan = MakePlan(inventory, Mps("{name: gpu, replicas: 2}"));
  ASSERT_TRUE(plan);
  ASSERT_THAT(plan->resources.at(0).gpus, SizeIs(1));
  EXPECT_EQ(plan->resources[0].gpus[0].uuid, "GPU-b");
  EXPECT_THAT(plan->warnings.at(0), HasSubstr("GPU 0"));
}

}  // namespace
}  // namespace pitcrew::node::mps
