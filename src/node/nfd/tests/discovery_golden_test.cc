// Golden cases of the worker: data/discovery/<case>/input.yaml describes a node's tree and the
// worker's configuration, expected.yaml what is published. Expected "features" are compared one by
// one; those that are not named there may be anything, except those in "absent_features".
#include <gtest/gtest.h>

#include "node/nfd/collector.h"
#include "support_tree.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::nfd {
namespace {

using codec::Json;
using test_support::GoldenCase;

// A feature as the expectation writes it: a list of flags, a map, or a list of maps.
Json Shortened(const std::string& kind, const Json& feature) {
  const auto& elements = feature.at("elements");
  if (kind == "attributes") return elements;
  Json list = Json::array();
  if (kind == "flags") {
    for (const auto& [name, unused] : elements.items()) list.push_back(name);
  } else {
    for (const auto& element : elements) list.push_back(element.at("attributes"));
  }
  return list;
}

class DiscoveryGolden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(DiscoveryGolden, PublishesWhatIsExpected) {
  const auto& golden = GetParam();
  const test_support::TemporaryFolder root;
  MakeTree(golden.input, root.path());
  const auto config = MakeWorkerConfig(
      {.file = golden.input.value("config", Json::object()), .options = Json::object()}, {});
  ASSERT_TRUE(config) << config.error().ToString();
  const auto now = base::ParseRfc3339(golden.input.value("now", "2026-01-01T00:00:00Z"));
  ASSERT_TRUE(now);

  Collector collector(*config, HostPaths::Below(root.path()), "node-a");
  collector.DiscoverAll(*now);
  const auto spec = collector.Spec();

  EXPECT_EQ(spec.at("labels"), golden.expected.at("labels")) << spec.dump(2);
  const auto expected_features = golden.expected.value("features", Json::object());
  for (const auto& [kind, features] : expected_features.items()) {
    for (const auto& [name, expected] : features.items()) {
      ASSERT_TRUE(spec["features"][kind].contains(name)) << name << " in " << spec.dump(2);
      EXPECT_EQ(Shortened(kind, spec["features"][kind][name]), expected) << name;
    }
  }
  const auto absent = golden.expected.value("absent_features", Json::array());
  for (const auto& name : absent) {
    for (const auto* kind : {"flags", "attributes", "instances"}) {
      EXPECT_FALSE(spec["features"][kind].contains(name.get<std::string>())) << name;
    }
  }
  Json troubles = Json::array();
  for (const auto& [source, error] : collector.troubles()) troubles.push_back(source);
  EXPECT_EQ(troubles, golden.expected.value("troubles", Json::array()));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DiscoveryGolden,
    ::testing::ValuesIn(test_support::ReadGoldenCases(test_support::TestData() / "discovery")),
    [](const auto& case_info) {
      std::string name = case_info.param.name;
      for (auto& c : name) {
        if (c == '-') c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace pitcrew::node::nfd
