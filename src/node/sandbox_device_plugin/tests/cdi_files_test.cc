#include "node/sandbox_device_plugin/cdi_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cdi/format.h"
#include "cdi/registry.h"
#include "codec/yaml.h"
#include "node/sandbox_device_plugin/allocation.h"
#include "support_node_tree.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CdiFilesTest : public ::testing::Test {
 protected:
  Naming naming_{.client = Client::kKata,
                 .names = testing::ImageNames(),
                 .gpu_alias = "pgpu",
                 .switch_alias = "nvswitch"};
  testing::NodeTree tree_{*codec::ParseYaml(R"(
pci:
- {at: "0000:05:00.0", is: "10de:2330", driver: vfio-pci, group: 10, numa: 0}
- {at: "0000:06:00.0", is: "10de:2330", driver: vfio-pci, group: 9, numa: 0}
- {at: "0000:06:00.1", is: "10de:2330", driver: vfio-pci, group: 9, numa: 0}
- {at: "0000:07:00.0", is: "10de:22a3", class: "0680", driver: vfio-pci, group: 11, numa: 0}
)")};
  std::filesystem::path folder_ = tree_.folder().path() / "cdi";
  CdiFiles files_{folder_};
  Resources resources_;

  std::map<std::string, base::Error> Update() {
    const auto machine = *ReadMachine(tree_.root(), tree_.root());
    resources_ = ListOffers(machine, naming_, {}).resources;
    return files_.Update(resources_, machine);
  }
  std::vector<std::string> Names() const {
    const auto registry = cdi::Registry::Load({folder_});
    EXPECT_THAT(registry.errors(), IsEmpty());
    return registry.DeviceNames();
  }
};

TEST_F(CdiFilesTest, NamesAreResourcesWithTheirIds) {
  RecordProperty("holds", "virtualisation-and-olm.md #56, #57");
  EXPECT_THAT(Update(), IsEmpty());
  std::vector<std::string> expected;
  for (const auto& [resource, devices] : resources_) {
    for (const auto& device : devices) expected.push_back(resource + "=" + device.id);
  }
  EXPECT_THAT(Names(), ::testing::UnorderedElementsAreArray(expected));
  const auto spec = cdi::ParseSpec(*base::ReadFile(folder_ / "nvidia.com-pgpu.yaml"), "file");
  ASSERT_TRUE(spec) << spec.error().ToString();
  EXPECT_EQ(spec->version, "0.5.0");
  EXPECT_EQ(spec->kind, "nvidia.com/pgpu");
  ASSERT_EQ(spec->devices.size(), 2U);
  EXPECT_EQ(spec->devices[0].name, "9") << "by number, not by text";
  std::vector<std::string> nodes;
  for (const auto& node : spec->devices[0].edits.device_nodes) nodes.push_back(node.path);
  EXPECT_THAT(nodes, ElementsAre("/dev/vfio/vfio", "/dev/vfio/9"));
}

TEST_F(CdiFilesTest, FollowTheDevices) {
  EXPECT_THAT(Update(), IsEmpty());
  tree_.Bind("0000:07:00.0", "");
  tree_.RemovePci("0000:05:00.0");
  EXPECT_THAT(Update(), IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("nvidia.com/pgpu=9"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nvidia.com-nvswitch.yaml"));
}

TEST_F(CdiFilesTest, LeaveOthersAlone) {
  tree_.folder().Write("cdi/nvidia.com-gpu.yaml", "not ours");
  tree_.Bind("0000:07:00.0", "");
  tree_.folder().Write("cdi/nvidia.com-nvswitch.yaml", "of before");
  EXPECT_THAT(Update(), IsEmpty());
  EXPECT_EQ(*base::ReadFile(folder_ / "nvidia.com-gpu.yaml"), "not ours");
  EXPECT_EQ(*base::ReadFile(folder_ / "nvidia.com-nvswitch.yaml"), "of before");
}

TEST_F(CdiFilesTest, AFolderThatCannotBeWrittenIsTold) {
  tree_.folder().Write("cdi", "a file");
  EXPECT_THAT(Update(), ElementsAre(::testing::Key("nvidia.com/nvswitch"),
                                    ::testing::Key("nvidia.com/pgpu")));
}

}  // namespace
}  // namespace pitcrew::node::sandbox_device_plugin
