#include "node/node_feature/node_feature.h"

#include <gtest/gtest.h>

#include <algorithm>

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

constexpr const char* kObject =
    R"({"metadata": {"name": "features", "namespace": "nfd"}, "spec": {"labels": {"a": "1"}}})";

std::string Refusal(int code, const std::string& reason) {
  return Json{{"kind", "Status"},
              {"status", "Failure"},
              {"reason", reason},
              {"code", code},
              {"details", {{"name", "features"}, {"kind", "nodefeatures"}}}}
      .dump();
}

// A server that gives these answers, one after the other and the last again and again, and what it
// was asked.
class Script {
 public:
  explicit Script(std::vector<std::pair<int, std::string>> answers) : answers_(std::move(answers)) {
    server_ = *pitcrew::testing::ScriptedServer::Start(
        [this](const auto& request, auto& reply, const io::StopToken&) {
          asked_ += asked_.empty() ? request.method : " " + request.method;
          const auto& answer = answers_[std::min(next_++, answers_.size() - 1)];
          reply.Send(answer.first, answer.second);
        });
    client_ = *kube::Client::Create({.server = server_->url()});
  }
  [[nodiscard]] Writer writer() const {
    return {client_, {.namespace_name = "nfd", .name = "features"}};
  }
  [[nodiscard]] const std::string& asked() const { return asked_; }

 private:
  std::vector<std::pair<int, std::string>> answers_;
  std::size_t next_ = 0;
  std::string asked_;
  std::shared_ptr<kube::Client> client_;
  std::unique_ptr<pitcrew::testing::ScriptedServer> server_;  // last: uses what is above
};

TEST(NodeFeature, WhoComesSecondLooksAgain) {
  const std::string old = R"({"metadata": {"name": "features", "namespace": "nfd"}})";
  const Script race({{404, Refusal(404, "NotFound")},
                     {409, Refusal(409, "AlreadyExists")},
                     {200, old},
                     {409, Refusal(409, "Conflict")},
                     {200, old},
                     {200, kObject}});
  const auto published = race.writer().Publish(Yaml(kObject), {});
  ASSERT_TRUE(published) << published.error().ToString();
  EXPECT_EQ(*published, Outcome::kUpdated);
  EXPECT_EQ(race.asked(), "GET POST GET PUT GET PUT");
  const Script busy({{404, Refusal(404, "NotFound")},
                     {409, Refusal(409, "AlreadyExists")},
                     {404, Refusal(404, "NotFound")},
                     {409, Refusal(409, "AlreadyExists")},
                     {404, Refusal(404, "NotFound")},
                     {409, Refusal(409, "AlreadyExists")},
                     {404, Refusal(404, "NotFound")},
                     {409, Refusal(409, "AlreadyExists")},
                     {404, Refusal(404, "NotFound")},
                     {409, Refusal(409, "AlreadyExists")},
                     {200, kObject}});
  EXPECT_EQ(busy.writer().Publish(Yaml(kObject), {}).error().code, base::Code::kExists);
  EXPECT_EQ(busy.asked(), "GET POST GET POST GET POST GET POST GET POST") << "five times";
}

TEST(NodeFeature, WhatMayNotBeReadIsNotMadeAnew) {
  const Script refused({{403, Refusal(403, "Forbidden")}});
  EXPECT_EQ(refused.writer().Publish(Yaml(kObject), {}).error().code, base::Code::kDenied);
  EXPECT_EQ(refused.asked(), "GET");
  EXPECT_EQ(refused.writer().CurrentSpec({}).error().code, base::Code::kDenied);
}

TEST(NodeFeature, TheSpecThatStands) {
  EXPECT_EQ(*Script({{200, kObject}}).writer().CurrentSpec({}), Yaml("{labels: {a: \"1\"}}"));
  EXPECT_TRUE(
      Script({{200, R"({"metadata": {"name": "features"}})"}}).writer().CurrentSpec({})->is_null());
  EXPECT_TRUE(Script({{404, Refusal(404, "NotFound")}}).writer().CurrentSpec({})->is_null());
}

}  // namespace
}  // namespace pitcrew::node::node_feature
