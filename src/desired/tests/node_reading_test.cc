// What is kept of a Node.
#include <gtest/gtest.h>

#include "desired/node.h"
#include "kube/projection.h"

namespace pitcrew::desired {
namespace {

// The two readers of a Node, which must not differ.
void ExpectSameFromText(const codec::Json& object, const LabelKeys& keys, const Node& from_value) {
  std::string text = object.dump();
  const std::size_t length = text.size();
  text.resize(length + kube::kReadablePadding);
  const auto from_text = ReadNodeText(std::string_view(text).substr(0, length), keys);
  ASSERT_TRUE(from_text) << from_text.error().ToString();
  EXPECT_EQ(*from_text, from_value);
}

// driver-lifecycle.md section 1.1: what the upgrade controller reads of a node.
TEST(NodeReading, CordonsAndUpgradesAreKept) {
  codec::Json object = {
      {"metadata",
       {{"name", "gpu-1"},
        {"annotations",
         {{"nvidia.com/gpu-driver-upgrade-enabled", "true"},
          {"nvidia.com/gpu-driver-upgrade-requested", "true"},
          {"nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable", "true"},
          {"other", "x"}}}}},
      {"spec", {{"unschedulable", true}, {"podCIDR", "10.0.0.0/24"}}}};
  const auto cordoned = ReadNode(object);
  ASSERT_TRUE(cordoned);
  EXPECT_TRUE(cordoned->unschedulable);
  EXPECT_EQ(cordoned->UpgradeNotes(),
            (UpgradeAnnotations{
                {"nvidia.com/gpu-driver-upgrade-requested", "true"},
                {"nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable", "true"}}));
  ExpectSameFromText(object, {}, *cordoned);

  object["spec"] = {{"podCIDR", "10.0.0.0/24"}};
  object["metadata"]["annotations"] = {{"nvidia.com/gpu-driver-upgrade-enabled", "true"}};
  const auto calm = ReadNode(object);
  EXPECT_FALSE(calm->unschedulable);
  // Most nodes of a fleet: nothing is allocated for them.
  EXPECT_EQ(calm->upgrade, nullptr);
  EXPECT_FALSE(*calm == *cordoned);
  ExpectSameFromText(object, {}, *calm);
}

// docs/virtual-machines.md: an annotation with nothing in it divides no node.
TEST(NodeReading, GpusForMachinesAreThoseThatAreNamed) {
  const auto divided = [](const char* list) {
    const codec::Json object = {
        {"metadata", {{"name", "gpu-1"}, {"annotations", {{std::string(kMachineGpus), list}}}}}};
    const auto node = ReadNode(object);
    ExpectSameFromText(object, {}, *node);
    return node->has_machine_gpus;
  };
  EXPECT_TRUE(divided("0000:65:00.0"));
  EXPECT_FALSE(divided(""));
  EXPECT_FALSE(divided(" \n"));
}

TEST(NodeReading, ANodeThatSaysSoIsNotReady) {
  const auto not_ready = [](const codec::Json& conditions) {
    const codec::Json object = {{"metadata", {{"name", "gpu-1"}}},
                                {"status",
                                 {{"allocatable", {{"nvidia.com/gpu", "8"}}},
                                  {"conditions", conditions},
                                  {"nodeInfo", {{"containerRuntimeVersion", "cri-o://1"}}}}}};
    const auto node = ReadNode(object);
    ExpectSameFromText(object, {}, *node);
    EXPECT_TRUE(node->offers_gpu);
    return node->not_ready;
  };
  const codec::Json other = {{"type", "MemoryPressure"}, {"status", "False"}};
  const auto ready = [](const char* status) {
    return codec::Json{
        {"lastHeartbeatTime", "2026-01-02T03:04:05Z"}, {"status", status}, {"type", "Ready"}};
  };
  EXPECT_FALSE(not_ready(codec::Json::array()));
  EXPECT_FALSE(not_ready({other}));
  EXPECT_FALSE(not_ready({other, ready("True")}));
  EXPECT_TRUE(not_ready({ready("False"), other}));
  EXPECT_TRUE(not_ready({other, ready("Unknown")}));
}

// A fleet has 10,000 of them.
TEST(NodeReading, AProjectionStaysSmall) { EXPECT_LE(sizeof(Node), 104U); }

TEST(NodeReading, LabelsAreKeptOnDemand) {
  const codec::Json object = {
      {"metadata", {{"name", "gpu-1"}, {"labels", {{"example.com/pool", "a"}, {"rest", "b"}}}}}};
  EXPECT_TRUE(ReadNode(object)->labels.All().empty());
  const LabelKeys keys = {"example.com/pool"};
  const auto asked = ReadNode(object, keys);
  EXPECT_EQ(asked->labels.Get("example.com/pool"), "a");
  EXPECT_FALSE(asked->labels.Has("rest"));
  ExpectSameFromText(object, keys, *asked);
}

// The projection of the watch and the reader of whole objects agree.
TEST(NodeReading, TextAndValueGiveTheSameNode) {
  const codec::Json object = {
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata",
       {{"name", "gpu-1"},
        {"labels",
         {{"feature.node.kubernetes.io/pci-10de.present", "true"},
          {"kubernetes.io/hostname", "gpu-1"},
          {"nvidia.com/gpu.deploy.driver", "true"},
          {"nvidia.com/gpu.present", "true"}}},
        {"annotations",
         {{"nvidia.com/gpu-driver-upgrade-enabled", "true"}, {"other", "a \"quoted\" one"}}}}},
      {"status", {{"nodeInfo", {{"containerRuntimeVersion", "containerd://2.2.0"}}}}}};
  std::string text = object.dump();
  const std::size_t length = text.size();
  text.resize(length + kube::kReadablePadding);
  const auto from_text = ReadNodeText(std::string_view(text).substr(0, length));
  const auto from_value = ReadNode(object);
  ASSERT_TRUE(from_text) << from_text.error().ToString();
  ASSERT_TRUE(from_value);
  EXPECT_EQ(*from_text, *from_value);
  EXPECT_EQ(from_text->runtime, "containerd");
  EXPECT_TRUE(from_text->nfd_labels);
  EXPECT_EQ(from_text->labels.All().size(), 3U);
}

}  // namespace
}  // namespace pitcrew::desired
