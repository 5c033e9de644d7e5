// Preferred devices, and devices whose state nobody knows.
#include "node/sandbox_device_plugin/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "node/sandbox_device_plugin/machine.h"
#include "support_node_tree.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

OfferedDevice OnNode(const std::string& id, std::optional<int> node) {
  return {.id = id, .numa_node = node, .functions = {}, .unfit = ""};
}

const std::vector<OfferedDevice> kFour = {OnNode("gpu0", 0), OnNode("gpu1", 0), OnNode("gpu2", 1),
                                          OnNode("gpu3", 1)};

TEST(Prefer, FillsTheNodeOfWhatMustBeIncluded) {
  RecordProperty("holds", "kubevirt-device-plugin.md #12, #13, #14");
  const std::vector<std::string> all = {"gpu0", "gpu1", "gpu2", "gpu3"};
  EXPECT_THAT(*Prefer(kFour, {all, {"gpu2"}, 2}), ElementsAre("gpu2", "gpu3"));
  EXPECT_THAT(*Prefer(kFour, {all, {"gpu0", "gpu2"}, 3}), ElementsAre("gpu0", "gpu2", "gpu1"));
  EXPECT_THAT(*Prefer(kFour, {all, {"gpu0", "gpu1"}, 2}), ElementsAre("gpu0", "gpu1"));
  const auto too_many = Prefer(kFour, {all, {"gpu0", "gpu1"}, 1});
  EXPECT_EQ(too_many.error().message,
            "number of MustIncludeDeviceIDs (2) exceeds allocation size (1)");
}

TEST(Prefer, TakesTheFirstNodeWithEnough) {
  EXPECT_THAT(*Prefer(kFour, {{"gpu1", "gpu2", "gpu3"}, {}, 2}), ElementsAre("gpu2", "gpu3"));
  EXPECT_THAT(*Prefer(kFour, {{"gpu3", "gpu0", "gpu2", "gpu1"}, {}, 2}),
              ElementsAre("gpu3", "gpu2"));
  EXPECT_THAT(*Prefer(kFour, {{"gpu3", "gpu0"}, {}, 2}), ElementsAre("gpu3", "gpu0"));
  EXPECT_THAT(*Prefer(kFour, {{"gpu3"}, {}, 2}), ElementsAre("gpu3")) << "there are no more";
  EXPECT_THAT(*Prefer(kFour, {{"gpu3"}, {"gpu3", "gpu3"}, 1}), ElementsAre("gpu3"));
  EXPECT_THAT(*Prefer(kFour, {{}, {}, 0}), IsEmpty());
}

// An unknown node is not a node that devices share.
TEST(Prefer, UnknownNodesAreNotOne) {
  const std::vector<OfferedDevice> devices = {OnNode("a", std::nullopt), OnNode("b", std::nullopt),
                                              OnNode("c", 1), OnNode("d", 1)};
  EXPECT_THAT(*Prefer(devices, {{"a", "b", "c", "d", "x"}, {}, 2}), ElementsAre("c", "d"));
  EXPECT_THAT(*Prefer(devices, {{"a", "x", "c"}, {}, 2}), ElementsAre("a", "x"));
}

codec::Json Yaml(const std::string& text) { return *codec::ParseYaml(text); }

class UnknownDevices : public ::testing::Test {
 protected:
  Naming naming_{.client = Client::kKubevirt,
                 .names = testing::ImageNames(),
                 .gpu_alias = "",
                 .switch_alias = ""};
  testing::NodeTree tree_{Yaml(R"(
pci:
- {at: "0000:65:00.0", is: "10de:2236", driver: vfio-pci, group: 1, numa: 0}
- {at: "0000:66:00.0", is: "10de:2236", driver: vfio-pci, group: 2, numa: 0}
mdev:
- {uuid: 11111111-0000-4000-8000-000000000001, type: NVIDIA A10-24Q, parent: "0000:66:00.0"}
)")};
  Resources before_ = Look({}).resources;

  Offers Look(const Resources& before) const {
    return ListOffers(*ReadMachine(tree_.root(), tree_.root()), naming_, before);
  }
};

// Only evidence takes a device away.
TEST_F(UnknownDevices, StayAndAreUnfit) {
  // A link that cannot be read, and an attribute that cannot.
  const auto driver = tree_.PciFolder("0000:65:00.0") / "driver";
  std::filesystem::remove(driver);
  std::filesystem::create_directory(driver);
  const auto vendor = tree_.PciFolder("0000:66:00.0") / "vendor";
  std::filesystem::remove(vendor);
  std::filesystem::create_directory(vendor);
  const auto now = Look(before_);
  const auto& gpus = now.resources.at("nvidia.com/GA102GL_A10");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].id, "0000:65:00.0");
  EXPECT_THAT(gpus[0].unfit, HasSubstr("cannot be read"));
  EXPECT_THAT(gpus[1].unfit, HasSubstr("cannot be read"));
  EXPECT_THAT(now.resources.at("nvidia.com/NVIDIA_A10-24Q").front().unfit,
              HasSubstr("its PCI device 0000:66:00.0 is not known"));
  const auto refused = Allocate("nvidia.com/GA102GL_A10", gpus, {"0000:65:00.0"},
                                *ReadMachine(tree_.root(), tree_.root()), Client::kKubevirt);
  EXPECT_EQ(refused.error().reason, "DeviceUnfit");
  EXPECT_THAT(Look({}).resources, IsEmpty()) << "what was never known is not offered";
}

// Nobody is told to take a vGPU from its driver because a file could not be read.
TEST_F(UnknownDevices, AMemberOfTheGroupThatMayBeAVgpuIsNotCalledAnObstacle) {
  tree_.AddPci(
      Yaml("{at: '0000:65:00.4', is: '10de:2236', driver: nvidia, group: 1, "
           "physfn: '0000:66:00.0', vgpu: 0}"));
  const auto unfit = [&] { return Look({}).resources.at("nvidia.com/GA102GL_A10").front().unfit; };
  ASSERT_EQ(unfit(), "");
  const auto vgpu = tree_.PciFolder("0000:65:00.4") / "nvidia";
  std::filesystem::remove_all(vgpu);
  std::filesystem::create_symlink("nvidia", vgpu);
  EXPECT_THAT(unfit(), ::testing::AllOf(HasSubstr("0000:65:00.4"), HasSubstr("cannot be read"),
                                        ::testing::Not(HasSubstr("take it from that driver"))));
  std::filesystem::remove(vgpu);
  EXPECT_THAT(unfit(), HasSubstr("take it from that driver"));
}

TEST_F(UnknownDevices, GoWithEvidence) {
  tree_.Bind("0000:65:00.0", "nvidia");
  tree_.RemovePci("0000:66:00.0");
  std::filesystem::remove(tree_.folder().path() /
                          "sys/bus/mdev/devices/11111111-0000-4000-8000-000000000001");
  EXPECT_THAT(Look(before_).resources, IsEmpty());
}

TEST(Machine, OnesThatCannotBeListedAreNotNone) {
  const testing::NodeTree tree(Yaml("{links: {sys/bus/pci/devices: devices}}"));
  EXPECT_FALSE(ReadMachine(tree.root(), tree.root()));
  const testing::NodeTree other(Yaml("{links: {dev: dev}}"));
  const auto iommufd = ReadMachine(other.root(), other.root());
  EXPECT_THAT(iommufd.error().message, HasSubstr("could not determine iommufd support"));
}

}  // namespace
}  // namespace pitcrew::node::sandbox_device_plugin
