#include "node/device_plugin/mps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::node::device_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

OfferedDevice Device(const std::string& id, const std::string& uuid, bool mig = false) {
  OfferedDevice device;
  device.id = id;
  device.uuid = uuid;
  if (mig) device.gpu_instance = 1;
  return device;
}

api::Sharing Sharing(bool mps) {
  api::ReplicatedResources resources;
  resources.resources = {{.name = "nvidia.com/gpu", .rename = {}, .replicas = 2}};
  api::Sharing sharing;
  (mps ? sharing.mps : sharing.time_slicing) = resources;
  return sharing;
}

const ResourceMap kShared = {{"nvidia.com/gpu", {Device("GPU-a::0", "GPU-a")}},
                             {"nvidia.com/other", {Device("GPU-b", "GPU-b")}}};

TEST(MpsResources, AreThoseWithReplicas) {
  EXPECT_THAT(*MpsResources(kShared, Sharing(true)), ElementsAre("nvidia.com/gpu"));
  EXPECT_THAT(*MpsResources(kShared, Sharing(false)), IsEmpty()) << "time-slicing";
  EXPECT_THAT(*MpsResources(kShared, {}), IsEmpty());
}

TEST(MpsResources, MigDevicesAreRefused) {  // device-plugin.md section 17.3
  const auto refused =
      MpsResources({{"nvidia.com/gpu", {Device("MIG-a::0", "MIG-a", true)}}}, Sharing(true));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::kInvalid);
  EXPECT_THAT(refused.error().message,
              HasSubstr("sharing using MPS is not supported for MIG devices"));
  EXPECT_THAT(refused.error().message, HasSubstr("MIG-a"));
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
