#include "cdi/generate/tegra.h"

#include <gtest/gtest.h>

#include "cdi/format.h"

namespace pitcrew::cdi_generate {
namespace {

using Strings = std::vector<std::string>;

constexpr const char* kOrinUuid = "54d0709b-558d-5a59-9c65-0c5fc14a21a4";

gpu::Device IntegratedGpu(unsigned index = 0) {
  gpu::Device device;
  device.index = index;
  device.uuid = kOrinUuid;
  device.name = "Orin (nvgpu)";
  device.fault = base::Error{base::Code::kUnsupported, "NotSupported", "no PCI address"};
  return device;
}

gpu::Device DiscreteGpu(unsigned index = 1) {
  gpu::Device device;
  device.index = device.minor_number = index;
  device.uuid = "GPU-discrete";
  device.name = "NVIDIA RTX 6000";
  device.pci = *gpu::PciAddress::Parse("0005:03:00.0");
  return device;
}

class TegraTest : public ::testing::Test {
 protected:
  TegraTest() {
    inventory_.cuda_version = 12060;
    inventory_.devices = {IntegratedGpu(), DiscreteGpu()};
    options_.naming = {Naming::kIndex};
    options_.merged_device = false;
    tegra_.nodes = {Node{"/dev/nvidia0", 195, 0, 0666, 0}, Node{"/dev/nvidia1", 195, 1, 0666, 0},
                    Node{"/dev/nvmap", 240, 2, 0666, 0}};
    files_.nodes = {Node{"/dev/nvidia1", 195, 1, 0666, 0}};
  }

  // Device names, then the reason for one device; or the reason of the failure.
  [[nodiscard]] Strings Names() const {
    const auto generated = GenerateTegra(&inventory_, tegra_, files_, options_, tegra_options_);
    if (!generated) return {generated.error().reason};
    Strings names;
    for (const auto& device : generated->spec.devices) names.push_back(device.name);
    if (generated->undivided) names.push_back(generated->undivided->reason);
    return names;
  }
  [[nodiscard]] Strings CompatArguments(const gpu::Inventory* inventory) const {
    const auto generated = GenerateTegra(inventory, tegra_, files_, options_, tegra_options_);
    for (const auto& hook : generated->spec.edits.hooks) {
      if (hook.args[1] == "enable-cuda-compat") return {hook.args.begin() + 2, hook.args.end()};
    }
    return {};
  }

  gpu::Inventory inventory_;
  TegraFiles tegra_;
  DriverFiles files_;
  Options options_;
  TegraOptions tegra_options_;
};

TEST_F(TegraTest, EveryFormOfAnIdNamesItsGpu) {
  EXPECT_EQ(Names(), (Strings{"0", "1"}));
  options_.ids = {kOrinUuid};
  EXPECT_EQ(Names(), Strings{"0"});
  options_.ids = {"GPU-discrete"};
  EXPECT_EQ(Names(), Strings{"1"});
  options_.ids = {"1", "all"};
  EXPECT_EQ(Names(), (Strings{"0", "1"}));
}

TEST_F(TegraTest, WithoutKnowledgeOfTheGpusThereIsOneDevice) {
  inventory_.devices = {DiscreteGpu(0), DiscreteGpu()};  // neither is known at these places
  EXPECT_EQ(Names(), (Strings{"0", "UnknownTegraSystem"}));
  inventory_.devices = {IntegratedGpu(), DiscreteGpu()};
  inventory_.devices[1].fault = base::Unavailable("GpuIsLost", "lost");
  EXPECT_EQ(Names(), (Strings{"0", "GpuIsLost"}));
  inventory_.devices = {IntegratedGpu(0)};
  EXPECT_EQ(Names(), Strings{"0"});
  inventory_.devices = {IntegratedGpu(), DiscreteGpu()};
  tegra_options_.one_device = true;
  EXPECT_EQ(Names(), Strings{"0"});
}

TEST_F(TegraTest, TheOneDeviceHasNoOtherNames) {
  tegra_options_.one_device = true;
  options_.ids = {"1"};
  EXPECT_EQ(Names(), Strings{"BadDeviceId"});
  options_.ids = {"0", "all"};
  EXPECT_EQ(Names(), Strings{"0"});
  options_.naming = {Naming::kTypeIndex, Naming::kUuid};
  EXPECT_EQ(Names(), Strings{"gpu0"});
  options_.naming = {Naming::kUuid};
  EXPECT_EQ(Names(), Strings{"BadUsage"});
}

TEST_F(TegraTest, OnlyADiscreteGpuTellsOfItsMemory) {
  options_.coherent_annotations = true;
  const auto generated = GenerateTegra(&inventory_, tegra_, files_, options_, {});
  ASSERT_TRUE(generated);
  EXPECT_TRUE(generated->spec.devices[0].annotations.empty());
  EXPECT_EQ(generated->spec.devices[1].annotations,
            (cdi::Annotations{{"gpu.nvidia.com/coherent", "false"}}));
}

TEST_F(TegraTest, MigDevicesAreNoneOfThem) {
  gpu::MigDevice mig;
  mig.uuid = "MIG-1";
  inventory_.devices[1].mig_devices = {mig};
  options_.ids = {"MIG-1"};
  EXPECT_EQ(Names(), Strings{"MigNotSupported"});
}

TEST_F(TegraTest, ADeviceIsNeverEmpty) {
  tegra_.nodes.clear();
  EXPECT_EQ(GenerateTegra(nullptr, tegra_, files_, options_, {}).error().reason, "NoDeviceNodes");
  tegra_.has_release_file = true;
  const auto generated = GenerateTegra(nullptr, tegra_, files_, options_, {});
  ASSERT_TRUE(generated);
  EXPECT_TRUE(cdi::Validate(generated->spec));
}

TEST_F(TegraTest, TheVersionOfCudaIsForCompatibility) {
  RecordProperty("holds", "container-toolkit.md #70");
  EXPECT_EQ(CompatArguments(&inventory_),
            (Strings{"--host-cuda-version=12.6",
                     "--cuda-compat-container-root=/usr/local/cuda/compat_orin"}));
  tegra_options_.orin_compat_root = "/another/root";
  EXPECT_EQ(CompatArguments(&inventory_).back(), "--cuda-compat-container-root=/another/root");
  inventory_.devices[0].name = "NVIDIA Thor";
  EXPECT_EQ(CompatArguments(&inventory_), Strings{"--host-cuda-version=12.6"});
  EXPECT_EQ(CompatArguments(nullptr), Strings{});
  inventory_.cuda_version = 0;
  EXPECT_EQ(CompatArguments(&inventory_), Strings{});
}

// Device nodes are made by root alone: those that every machine has.
TEST(LocateTegra, DevicesByPathByNameAndByPattern) {
  host::TegraLists lists;
  lists.devices = {"/dev/nul?", "zero", "/dev", "/dev/none"};
  const auto found = LocateTegra(LocateOptions(), lists, {});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->nodes.size(), 2u);
  EXPECT_EQ(found->nodes[0].path, "/dev/null");
  EXPECT_EQ(found->nodes[0].major, 1u);
  EXPECT_EQ(found->nodes[1].path, "/dev/zero");
  EXPECT_EQ(found->missing, (Strings{"/dev", "/dev/none"}));
}

}  // namespace
}  // namespace pitcrew::cdi_generate
