#include "node/node_feature/node_feature.h"

#include <gtest/gtest.h>

#include "codec/yaml.h"

namespace pitcrew::node::node_feature {
namespace {

using codec::Json;

Json Yaml(const char* text) { return *codec::ParseYaml(text); }

constexpr const char* kDesired = R"(
metadata: {labels: {a: b}, ownerReferences: []}
spec: {labels: {x: "1"}, features: {flags: {}, attributes: {}, instances: {}}})";

TEST(NodeFeature, MissingAndEmptyAreEqual) {  // node-feature-discovery.md 3.2
  EXPECT_TRUE(
      IsUpToDate(Yaml("{metadata: {labels: {a: b}}, spec: {labels: {x: \"1\"}}}"), Yaml(kDesired)));
}

TEST(NodeFeature, EveryMemberOfTheWriterCounts) {
  for (const auto* live :
       {"{metadata: {labels: {a: c}}, spec: {labels: {x: \"1\"}}}",
        "{metadata: {labels: {a: b}}, spec: {labels: {x: \"1\", y: \"2\"}}}",
        "{metadata: {labels: {a: b}}, spec: {}}",
        "{metadata: {labels: {a: b}, ownerReferences: [{name: n}]}, spec: {labels: {x: \"1\"}}}",
        "{metadata: {labels: {a: b}}, spec: {labels: {x: \"1\"}, features: {flags: {f: {}}}}}",
        "{metadata: {labels: {a: b}}, spec: {labels: {x: \"1\"}, features: {attributes: {f: 1}}}}",
        "{metadata: {labels: {a: b}}, spec: {labels: {x: \"1\"}, features: {instances: {f: "
        "1}}}}"}) {
    EXPECT_FALSE(IsUpToDate(Yaml(live), Yaml(kDesired))) << live;
  }
}

TEST(NodeFeature, AnnotationsCountWhereTheWriterHasAny) {
  Json live = Yaml(kDesired);
  live["metadata"]["annotations"]["of"] = "others";
  EXPECT_TRUE(IsUpToDate(live, Yaml(kDesired)));
  Json desired = Yaml(kDesired);
  desired["metadata"]["annotations"]["mine"] = "1";
  EXPECT_FALSE(IsUpToDate(live, desired));
}

}  // namespace
}  // namespace pitcrew::node::node_feature
