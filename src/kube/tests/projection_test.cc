#include "kube/projection.h"

#include <gtest/gtest.h>

#include <map>

namespace pitcrew::kube {
namespace {

std::string Padded(std::string text) {
  text.reserve(text.size() + kReadablePadding);
  return text;
}

TEST(Projection, CutsAPage) {
  const std::string page = Padded(
      R"({"kind":"PodList","items":[{"metadata":{"name":"a","namespace":"n","uid":"1",)"
      R"("resourceVersion":"5","managedFields":[{"x":{"name":"no"}}]},"spec":{"name":"no"}},)"
      R"({"metadata":{"name":"b \"quoted\"","resourceVersion":"6"}}],)"
      R"("metadata":{"remainingItemCount":3,"resourceVersion":"7","selfLink":"","continue":"t"}})");
  const auto read = ReadPage(page);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->resource_version, "7");
  EXPECT_EQ(read->continue_token, "t");
  ASSERT_EQ(read->objects.size(), 2U);
  EXPECT_EQ(read->objects[0].first,
            (ObjectMeta{
                .key = {.namespace_name = "n", .name = "a"}, .uid = "1", .resource_version = "5"}));
  EXPECT_EQ(read->objects[1].first.key.name, "b \"quoted\"");
  EXPECT_TRUE(codec::ParseJson(read->objects[0].second));
}

TEST(Projection, ReadsAnEmptyPageInBothForms) {
  EXPECT_TRUE(ReadPage(Padded(R"({"items":[],"metadata":{"resourceVersion":"7"}})")));
  EXPECT_TRUE(ReadPage(Padded(R"({"items":null,"metadata":{"resourceVersion":"7"}})")));
}

TEST(Projection, RefusesPagesThatAreNone) {
  for (const char* text :
       {"", "[]", "{", R"({"items":[]})", R"({"items":[{}],"metadata":{"resourceVersion":"7"}})",
        R"({"items":[{"metadata":{"name":"a"}}],"metadata":{"resourceVersion":"7"})",
        R"({"items":[7],"metadata":{"resourceVersion":"7"}})"}) {
    const auto read = ReadPage(Padded(text));
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().reason, "UnreadableObject");
  }
}

struct NodeLabels {
  std::map<std::string, std::string> labels;
};

TEST(Projection, OnDemandReadsOnlyWhatIsAskedFor) {
  const auto project = ProjectOnDemand<NodeLabels>(
      [](simdjson::ondemand::object& object, NodeLabels& view) -> simdjson::error_code {
        simdjson::ondemand::object labels;
        const auto error = object["metadata"]["labels"].get(labels);
        if (error == simdjson::NO_SUCH_FIELD) return simdjson::SUCCESS;
        if (error) return error;
        for (auto label : labels) {
          std::string_view key;
          std::string_view value;
          if (const auto problem = label.unescaped_key().get(key)) return problem;
          if (const auto problem = label.value().get(value)) return problem;
          view.labels.emplace(key, value);
        }
        return simdjson::SUCCESS;
      });
  const auto view = project(Padded(R"({"metadata":{"name":"n","labels":{"a":"1","b":""}}})"));
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->labels, (std::map<std::string, std::string>{{"a", "1"}, {"b", ""}}));
  EXPECT_TRUE(project(Padded(R"({"metadata":{"name":"n"}})")));
  EXPECT_FALSE(project(Padded(R"({"metadata":{"labels":{"a":1}}})")));
  EXPECT_FALSE(project(Padded("nonsense")));
}

TEST(Projection, ReadersMayBeNested) {
  const std::string outer = Padded(R"({"a":"outer","b":"later"})");
  const std::string inner = Padded(R"({"metadata":{"name":"inner"}})");
  std::string later;
  const auto status = ReadOnDemand(outer, [&](simdjson::ondemand::object& object) {
    EXPECT_EQ(ReadMeta(inner)->key.name, "inner");
    std::string_view text;
    const auto error = object["b"].get(text);
    later = text;
    return error;
  });
  EXPECT_TRUE(status);
  EXPECT_EQ(later, "later");
}

TEST(Projection, JsonProjectionsSeeTheWholeValue) {
  const auto project = ProjectJson<int>(
      [](const codec::Json& value) -> base::Result<int> { return value["n"].get<int>(); });
  EXPECT_EQ(project(R"({"n":3})"), 3);
  EXPECT_FALSE(project("{"));
}

}  // namespace
}  // namespace pitcrew::kube
