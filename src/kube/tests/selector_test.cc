#include "kube/selector.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

TEST(Selector, NamesEveryLabelWithItsValue) {
  EXPECT_EQ(SelectorOf({{"app", "x"}, {"example.com/tier", ""}}), "app=x,example.com/tier=");
  EXPECT_EQ(SelectorOf({}), "");
}

bool Selects(std::string_view selector, const codec::Json& labels) {
  const auto parsed = LabelSelector::Parse(selector);
  EXPECT_TRUE(parsed) << parsed.error().ToString();
  return parsed && parsed->Selects({{"metadata", {{"labels", labels}}}});
}

// The grammar of Kubernetes:
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels
TEST(Selector, IsFollowedWithoutAServer) {
  const codec::Json labels = {{"app", "x"}, {"example.com/tier", ""}, {"size", "12"}};
  for (const char* one : {"", " ", "app=x", "app == x", "app!=y", "none!=y", "app in (w, x)",
                          "app notin (y)", "none notin (y)", "app", "!none", "! none", "size>11",
                          "size < 13", "example.com/tier=", "example.com/tier in ()",
                          "app=x,size>1 , !none", "app in (a,x),size"}) {
    EXPECT_TRUE(Selects(one, labels)) << one;
  }
  for (const char* one : {"app=y", "app!=x", "app in (y,z)", "app notin (x)", "none", "!app",
                          "none=", "size>12", "size<12", "app>1", "none<1", "app=x,none"}) {
    EXPECT_FALSE(Selects(one, labels)) << one;
  }
  EXPECT_TRUE(LabelSelector::Parse("!a")->Selects({{"metadata", codec::Json::object()}}));
}

TEST(Selector, WhatIsNoneIsAnError) {
  for (const char* one : {"=x", ",", "app=x,", "app in x", "app in (x", "app of (x)", "a b", "!a=b",
                          "app=a b", "size>much", "a{b=c"}) {
    const auto parsed = LabelSelector::Parse(one);
    ASSERT_FALSE(parsed) << one;
    EXPECT_EQ(parsed.error().code, base::Code::kInvalid) << one;
  }
}

}  // namespace
}  // namespace pitcrew::kube
