#include "node/node_feature/node_feature.h"

#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "loopback/scripted_server.h"

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

// What the writer decides is replaced as a whole, also what it does not have any more; annotations
// are others' where it has none.
TEST(NodeFeature, AnUpdateReplacesWhatIsTheWritersAndLeavesTheRest) {
  Json live = Yaml(R"(
metadata:
  name: features
  namespace: nfd
  resourceVersion: "7"
  labels: {old: "1"}
  annotations: {of: others}
  ownerReferences: [{name: old-pod}]
spec: {labels: {old: "1"}})");
  Json sent;
  auto server = pitcrew::testing::ScriptedServer::Start(
      [&](const auto& request, auto& reply, const io::StopToken&) {
        if (request.method == "PUT") sent = *codec::ParseJson(request.body, "request");
        reply.Send(200, request.method == "PUT" ? request.body : live.dump());
      });
  ASSERT_TRUE(server);
  const auto client = kube::Client::Create({.server = (*server)->url()});
  ASSERT_TRUE(client);
  const Writer writer(*client, {.namespace_name = "nfd", .name = "features"});
  Json desired = Yaml(R"(
metadata: {name: features, namespace: nfd, labels: {new: "1"}}
spec: {labels: {new: "1"}})");
  const auto published = writer.Publish(desired, {});
  ASSERT_TRUE(published) << published.error().ToString();
  EXPECT_EQ(*published, Outcome::kUpdated);
  Json expected = Yaml(R"(
name: features
namespace: nfd
resourceVersion: "7"
labels: {new: "1"}
annotations: {of: others})");
  EXPECT_EQ(sent["metadata"], expected);
  EXPECT_EQ(sent["spec"], desired["spec"]);

  desired["metadata"]["annotations"]["mine"] = "1";
  ASSERT_TRUE(writer.Publish(desired, {}));
  expected["annotations"] = {{"mine", "1"}};
  EXPECT_EQ(sent["metadata"], expected);
}

}  // namespace
}  // namespace pitcrew::node::node_feature
