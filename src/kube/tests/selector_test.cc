#include "kube/selector.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

using codec::Json;

bool Matches(std::string_view selector, const Labels& labels) {
  const auto parsed = LabelSelector::Parse(selector);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed && parsed->Matches(labels);
}

// Semantics: apimachinery, pkg/labels.
TEST(Selector, MatchesLikeTheServer) {
  const Labels labels{{"a", "1"}, {"example.org/b", "x"}, {"empty", ""}};
  EXPECT_TRUE(Matches("", labels));
  EXPECT_TRUE(Matches("a=1", labels));
  EXPECT_TRUE(Matches("a == 1, example.org/b", labels));
  EXPECT_FALSE(Matches("a!=1", labels));
  EXPECT_TRUE(Matches("missing!=1", labels));
  EXPECT_TRUE(Matches("a in (0, 1)", labels));
  EXPECT_FALSE(Matches("a notin (0,1)", labels));
  EXPECT_TRUE(Matches("missing notin (0,1)", labels));
  EXPECT_FALSE(Matches("missing in (0,1)", labels));
  EXPECT_TRUE(Matches("!missing", labels));
  EXPECT_FALSE(Matches("!a", labels));
  EXPECT_TRUE(Matches("empty=", labels));
  EXPECT_FALSE(Matches("a=1,a=2", labels));
}

TEST(Selector, TextReadsBack) {
  for (const char* text : {"", "a=1", "a!=1", "a in (x,y),!b,c", "a notin (z)"}) {
    EXPECT_EQ(LabelSelector::Parse(text)->ToString(), text);
  }
}

TEST(Selector, ErrorsNameThePosition) {
  for (const char* text : {"=1", "a in 1", "a in (1", "a=1,", "a b", "a,,b"}) {
    const auto parsed = LabelSelector::Parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find("at position"), std::string::npos);
  }
}

TEST(Selector, ReadsMetaV1) {
  const auto selector = LabelSelector::FromJson(
      {{"matchLabels", {{"a", "1"}}},
       {"matchExpressions", Json::array({{{"key", "b"}, {"operator", "In"}, {"values", {"x", "y"}}},
                                         {{"key", "c"}, {"operator", "DoesNotExist"}}})}});
  ASSERT_TRUE(selector);
  EXPECT_EQ(selector->ToString(), "a=1,b in (x,y),!c");
  EXPECT_TRUE(LabelSelector::FromJson(nullptr)->empty());
  EXPECT_FALSE(LabelSelector::FromJson("text"));
  EXPECT_FALSE(LabelSelector::FromJson(
      {{"matchExpressions", Json::array({{{"key", "b"}, {"operator", "Near"}}})}}));
  EXPECT_FALSE(LabelSelector::FromJson(
      {{"matchExpressions", Json::array({{{"key", "b"}, {"operator", "In"}}})}}));
}

TEST(Selector, FromLabelsNeedsThemAll) {
  const auto selector = LabelSelector::FromLabels({{"a", "1"}, {"b", "2"}});
  EXPECT_TRUE(selector.Matches({{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  EXPECT_FALSE(selector.Matches({{"a", "1"}}));
  EXPECT_EQ(LabelsOf({{"metadata", {{"labels", {{"a", "1"}}}}}}), (Labels{{"a", "1"}}));
}

}  // namespace
}  // namespace pitcrew::kube
