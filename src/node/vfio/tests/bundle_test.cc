// Which devices are meant, and what changes hands together (vfio-manager.md sections 3 and 6).
#include "node/vfio/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support_tree.h"

namespace pitcrew::node::vfio {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Tree;

std::vector<std::string> NamesOf(const std::vector<host::PciDevice>& devices) {
  std::vector<std::string> names;
  for (const auto& device : devices) names.push_back(device.address.SysfsName());
  return names;
}

std::vector<std::vector<std::string>> Bundles(const Node& node, const Selection& selection = {}) {
  std::vector<std::vector<std::string>> all;
  for (const auto& bundle : MakeBundles(node, *SelectDevices(node, selection))) {
    all.push_back(NamesOf(bundle.functions()));
  }
  return all;
}

TEST(Selection, AllIsGpusAndSwitchesOnlyWhenAskedFor) {
  RecordProperty("holds", "vfio-manager.md #13, #14");
  const Tree tree;
  tree.Add({.address = "0000:07:00.0", .class_code = "0x068000", .device = "0x22a3", .group = 3});
  tree.Add({.address = "0000:65:00.0", .group = 12});
  tree.Add({.address = "0000:66:00.0", .class_code = "0x030000", .group = 13});
  tree.Add({.address = "0000:65:00.4", .group = 14});
  tree.Link("sys/bus/pci/devices/0000:65:00.4/physfn", "../0000:65:00.0");
  tree.Add({.address = "0000:01:00.0", .class_code = "0x030000", .vendor = "0x1a03", .group = 1});
  const auto node = tree.ReadAll();
  EXPECT_THAT(NamesOf(*SelectDevices(node, {})), ElementsAre("0000:65:00.0", "0000:66:00.0"));
  EXPECT_THAT(NamesOf(*SelectDevices(node, {.device = {}, .switches = true})),
              ElementsAre("0000:65:00.0", "0000:66:00.0", "0000:07:00.0"));
}

TEST(Selection, OneDeviceIsMeantWhateverItIs) {
  const Tree tree;
  tree.Add({.address = "0000:07:00.0", .class_code = "0x068000", .group = 3});
  tree.Add({.address = "0000:65:00.4", .group = 14});
  tree.Link("sys/bus/pci/devices/0000:65:00.4/physfn", "../0000:65:00.0");
  tree.Add({.address = "0000:01:00.0", .vendor = "0x1a03", .group = 1});
  const auto node = tree.ReadAll();
  const auto select = [&](const char* address, bool switches) {
    return SelectDevices(node, {.device = Tree::At(address), .switches = switches});
  };
  EXPECT_THAT(NamesOf(*select("0000:65:00.4", false)), ElementsAre("0000:65:00.4"))
      << "a virtual function too (section 3)";
  EXPECT_THAT(NamesOf(*select("0000:07:00.0", true)), ElementsAre("0000:07:00.0"));
  EXPECT_THAT(NamesOf(*select("0000:07:00.0", false)), IsEmpty());
  EXPECT_THAT(NamesOf(*select("0000:01:00.0", true)), IsEmpty()) << "not NVIDIA's";
  EXPECT_EQ(select("0000:99:00.0", true).error().reason, "NoSuchDevice");
}

TEST(Companions, AreConsumersOfGraphicsAndFunctionsOfTheBoard) {
  RecordProperty("holds", "vfio-manager.md #17");
  const Tree tree;
  tree.Add({.address = "0000:65:00.0", .class_code = "0x030000", .group = 12});
  tree.Add({.address = "0000:65:00.1", .class_code = "0x040300", .group = 15});
  tree.Folder("sys/bus/pci/devices/0000:65:00.0/consumer:pci:0000:65:00.1");
  tree.Add({.address = "0000:65:00.2", .class_code = "0x0c0330", .group = 12});
  tree.Add({.address = "0000:65:00.3", .class_code = "0x0c8000", .group = 16});
  EXPECT_THAT(Bundles(tree.ReadAll()),
              ElementsAre(ElementsAre("0000:65:00.0", "0000:65:00.1", "0000:65:00.2")));
}

TEST(Companions, A3DControllerHasNoConsumers) {
  RecordProperty("holds", "vfio-manager.md #17");
  const Tree tree;
  tree.Add({.address = "0000:65:00.0", .class_code = "0x030200", .group = 12});
  tree.Add({.address = "0000:65:00.1", .class_code = "0x040300", .group = 15});
  tree.Folder("sys/bus/pci/devices/0000:65:00.0/consumer:pci:0000:65:00.1");
  EXPECT_THAT(Bundles(tree.ReadAll()), ElementsAre(ElementsAre("0000:65:00.0")));
}

TEST(Bundles, GpusOfOneGroupGoTogether) {
  const Tree tree;
  for (const auto& [address, group] : {std::pair("0000:65:00.0", 12), std::pair("0000:66:00.0", 13),
                                       std::pair("0000:67:00.0", 12)}) {
    tree.Add({.address = address, .group = group});
  }
  const auto node = tree.ReadAll();
  EXPECT_THAT(Bundles(node), ElementsAre(ElementsAre("0000:66:00.0"),
                                         ElementsAre("0000:65:00.0", "0000:67:00.0")));
  EXPECT_EQ(MakeBundles(node, *SelectDevices(node, {})).back().Name(),
            "0000:65:00.0 and 0000:67:00.0");
}

TEST(Bundles, ACompanionThatTwoGroupsShareJoinsThem) {
  const Tree tree;
  tree.Add({.address = "0000:65:00.0", .class_code = "0x030000", .group = 12});
  tree.Add({.address = "0000:66:00.0", .class_code = "0x030000", .group = 13});
  tree.Add({.address = "0000:67:00.0", .class_code = "0x030000", .group = 14});
  tree.Add({.address = "0000:67:00.1", .class_code = "0x040300", .group = 12});
  tree.Add({.address = "0000:67:00.2", .class_code = "0x0c0330", .group = 13});
  tree.Folder("sys/bus/pci/devices/0000:67:00.0/consumer:pci:0000:67:00.1");
  tree.Folder("sys/bus/pci/devices/0000:67:00.0/consumer:pci:0000:67:00.2");
  EXPECT_THAT(Bundles(tree.ReadAll()),
              ElementsAre(ElementsAre("0000:65:00.0", "0000:66:00.0", "0000:67:00.0",
                                      "0000:67:00.1", "0000:67:00.2")));
}

TEST(Nodes, AnNvidiaDeviceThatCannotBeReadIsToldAForeignOneIsNot) {
  const Tree tree;
  tree.Add({.address = "0000:65:00.0", .group = 12});
  tree.Add({.address = "0000:66:00.0", .class_code = "rubbish", .group = 13});
  tree.Add({.address = "0000:01:00.0", .class_code = "rubbish", .vendor = "0x8086", .group = 1});
  const auto node = tree.ReadAll();
  ASSERT_EQ(node.unread.size(), 1U);
  EXPECT_THAT(node.unread.front().message, ::testing::HasSubstr("0000:66:00.0"));
  EXPECT_THAT(NamesOf(*SelectDevices(node, {})), ElementsAre("0000:65:00.0"));
}

}  // namespace
}  // namespace pitcrew::node::vfio
