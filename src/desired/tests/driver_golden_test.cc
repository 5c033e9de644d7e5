// Every folder tests/driver_objects/<case>/ is a case: driver.yaml (the NVIDIADriver), cluster.yaml
// (optional, merged over a plain cluster; its nodes belong to the driver), expected.yaml (the
// stream of objects, or error: text). PITCREW_UPDATE_GOLDEN=1 rewrites expected.yaml; check the
// difference against the reference before committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "api/labels.h"
#include "base/file.h"
#include "codec/yaml.h"
#include "desired/driver_objects/render.h"
#include "desired/testing/render_cluster.h"
#include "tests/support/folders.h"

namespace pitcrew::desired::testing {
namespace {

using codec::Json;

std::filesystem::path DriverData() {
  return test_support::TestData().parent_path() / "driver_objects";
}

std::vector<std::filesystem::path> DriverCases() {
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(DriverData())) {
    cases.push_back(entry.path());
  }
  return cases;
}

Json ReadYaml(const std::filesystem::path& path) {
  const auto text = base::ReadFile(path);
  if (!text) return Json::object();
  const auto parsed = codec::ParseYaml(*text, path.string());
  EXPECT_TRUE(parsed) << parsed.error().ToString();
  return parsed ? *parsed : Json::object();
}

std::string RenderCase(const std::filesystem::path& folder) {
  const auto driver = api::ReadNvidiaDriver(ReadYaml(folder / "driver.yaml"));
  EXPECT_TRUE(driver) << driver.error().ToString();
  Json cluster = PlainCluster();
  codec::ApplyMergePatch(cluster, ReadYaml(folder / "cluster.yaml"));
  LabelKeys keys;
  if (driver->node_selector) {
    for (const auto& [key, value] : *driver->node_selector) keys.insert(key);
  }
  std::vector<std::shared_ptr<const Node>> nodes;
  for (Json& node : cluster["nodes"]) {
    node["metadata"]["labels"][std::string(api::kDriverOwner)] = driver->name;
    nodes.push_back(std::make_shared<const Node>(*ReadNode(node, keys)));
  }
  const Facts facts = ReadCluster(cluster);
  const DefaultImages images = TestImages();
  const auto objects = RenderDriver(*driver, PoolsOf(nodes, *driver, facts.openshift()),
                                    {.facts = facts,
                                     .images = images,
                                     .operator_namespace = "gpu-operator",
                                     .host_root = cluster.value("hostRoot", std::string("/"))});
  if (!objects) return codec::ToYamlText({{"error", objects.error().message}});
  std::string text;
  for (Json object : *objects) {
    Json& metadata = object["metadata"];
    // Opaque; what it is computed from stands beside it.
    metadata["annotations"].erase("nvidia.com/last-applied-hash");
    if (metadata["annotations"].empty()) metadata.erase("annotations");
    text += (text.empty() ? "" : "---\n") + codec::ToYamlText(object);
  }
  return text;
}

class DriverGoldenTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(DriverGoldenTest, RendersAsExpected) {
  const std::string actual = RenderCase(GetParam());
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomically(GetParam() / "expected.yaml", actual));
  }
  ASSERT_FALSE(actual.empty());
  const auto expected = base::ReadFile(GetParam() / "expected.yaml");
  ASSERT_TRUE(expected) << expected.error().ToString();
  EXPECT_EQ(actual, *expected);
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverGoldenTest, ::testing::ValuesIn(DriverCases()),
                         [](const auto& golden) {
                           std::string name = golden.param.filename().string();
                           for (char& letter : name) {
                             if (letter == '-') letter = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace pitcrew::desired::testing
