#include "cdi/generate/coherence.h"

#include <gtest/gtest.h>

#include "cdi/format.h"

namespace pitcrew::cdi_generate {
namespace {

using Strings = std::vector<std::string>;

Strings NamesOf(const std::vector<cdi::Device>& devices) {
  Strings names;
  for (const auto& device : devices) names.push_back(device.name);
  return names;
}

TEST(SplitByAnnotation, ByValueAndWithoutTheKey) {
  RecordProperty("holds", "container-toolkit.md #60");
  std::vector<cdi::Device> devices = {{"a", {{"key", "1"}, {"other", "x"}}, {}},
                                      {"b", {{"key", "2"}}, {}},
                                      {"c", {{"other", "y"}}, {}},
                                      {"d", {{"key", "1"}}, {}}};
  const auto groups = SplitByAnnotation(devices, "key");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(NamesOf(groups.at("key=1")), (Strings{"a", "d"}));
  EXPECT_EQ(NamesOf(groups.at("key=2")), Strings{"b"});
  EXPECT_EQ(groups.at("key=1")[0].annotations, (cdi::Annotations{{"other", "x"}}));
  EXPECT_EQ(NamesOf(devices), (Strings{"a", "b", "c", "d"}));
  EXPECT_EQ(devices[0].annotations, (cdi::Annotations{{"other", "x"}}));
  EXPECT_TRUE(devices[1].annotations.empty());
  EXPECT_EQ(devices[2].annotations, (cdi::Annotations{{"other", "y"}}));
}

class CoherentTest : public ::testing::Test {
 protected:
  CoherentTest() {
    for (unsigned i = 0; i < 4; ++i) {
      gpu::Device device;
      device.index = device.minor_number = i;
      device.uuid = "GPU-" + std::to_string(i);
      inventory_.devices.push_back(device);
      files_.nodes.push_back(Node{"/dev/nvidia" + std::to_string(i), 195, i, 0666, 0});
    }
    inventory_.devices[0].coherent_memory = base::Observed<bool>::Present(true);
    inventory_.devices[1].coherent_memory = base::Observed<bool>::Present(false);
    inventory_.devices[2].coherent_memory =
        base::Observed<bool>::Unknown(base::Unavailable("GpuIsLost", "lost"));
    // The library of the last one cannot tell.
    options_.naming = {Naming::kIndex};
    options_.coherent_annotations = true;
  }
  gpu::Inventory inventory_;
  DriverFiles files_;
  Options options_;
};

TEST_F(CoherentTest, EachKindOfMemoryHasAClass) {
  auto generated = GenerateGpus(inventory_, files_, options_);
  ASSERT_TRUE(generated);
  auto& spec = generated->spec;
  const auto parts = SplitByCoherence(spec, true);
  EXPECT_EQ(NamesOf(spec.devices), (Strings{"0", "1", "2", "3", "all"}));
  for (const auto& device : spec.devices) EXPECT_TRUE(device.annotations.empty());
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].suffix, ".coherent");
  EXPECT_EQ(parts[0].spec.kind, "nvidia.com/gpu.coherent");
  EXPECT_EQ(NamesOf(parts[0].spec.devices), (Strings{"0", "all"}));
  EXPECT_EQ(parts[1].suffix, ".noncoherent");
  EXPECT_EQ(parts[1].spec.kind, "nvidia.com/gpu.noncoherent");
  EXPECT_EQ(NamesOf(parts[1].spec.devices), (Strings{"1", "3", "all"}));
  EXPECT_EQ(parts[1].spec.devices[2].edits.device_nodes.size(), 2u);
  EXPECT_TRUE(cdi::Validate(parts[1].spec));
  EXPECT_EQ(parts[1].spec.edits, spec.edits);
}

TEST_F(CoherentTest, WithoutTheFeatureThereIsOneClass) {
  options_.coherent_annotations = false;
  auto generated = GenerateGpus(inventory_, files_, options_);
  ASSERT_TRUE(generated);
  EXPECT_TRUE(SplitByCoherence(generated->spec, true).empty());
}

}  // namespace
}  // namespace pitcrew::cdi_generate
