#include "codec/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace pitcrew::codec {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ConfigDocument Parse(std::string_view text) {
  auto document = ConfigDocument::Parse(text, "config.yaml");
  EXPECT_TRUE(document) << document.error().ToString();
  return *std::move(document);
}

TEST(ConfigReader, ReadsEveryKindAndLeavesWhatIsUnset) {
  const auto document = Parse(
      "flag: true\ntext: hello\nnumber: -7\nlist: [a, b]\nwait: 1m30s\nnanoseconds: 5\n"
      "nothing: null\n");
  const auto root = *document.Root();
  bool flag = false;
  std::string text;
  int number = 0;
  std::vector<std::string> list;
  std::chrono::nanoseconds wait{};
  std::optional<std::chrono::nanoseconds> nanoseconds;
  ASSERT_TRUE(root.Read("flag", flag));
  ASSERT_TRUE(root.Read("text", text));
  ASSERT_TRUE(root.Read("number", number));
  ASSERT_TRUE(root.Read("list", list));
  ASSERT_TRUE(root.Read("wait", wait));
  ASSERT_TRUE(root.Read("nanoseconds", nanoseconds));
  EXPECT_TRUE(flag);
  EXPECT_EQ(text, "hello");
  EXPECT_EQ(number, -7);
  EXPECT_THAT(list, ElementsAre("a", "b"));
  EXPECT_EQ(wait, 90s);
  EXPECT_EQ(nanoseconds, 5ns);
  for (const auto* name : {"nothing", "missing"}) {
    ASSERT_TRUE(root.Read(name, text));
    EXPECT_EQ(text, "hello") << name;
    std::optional<std::string> unset;
    ASSERT_TRUE(root.Read(name, unset));
    EXPECT_FALSE(unset) << name;
  }
  EXPECT_TRUE(root.Has("nothing"));
  EXPECT_FALSE(root.Has("missing"));
}

TEST(ConfigReader, ErrorsTellPlacePathAndWhatStandsThere) {
  const auto document = Parse("sharing:\n  resources:\n  - name: gpu\n  - name: 7\n");
  const auto sharing = *document.Root()->Object("sharing");
  const auto entries = sharing.List("resources");
  ASSERT_TRUE(entries);
  const auto name = (*entries)[1].RequiredText("name");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().reason, "InvalidConfiguration");
  EXPECT_EQ(name.error().message,
            "config.yaml:4:11: sharing.resources[1].name must be a text, not 7");
  EXPECT_EQ((*entries)[0].RequiredText("replicas").error().message,
            "config.yaml:3:5: sharing.resources[0].replicas is required")
      << "what is missing has the place of its mapping";
}

TEST(ConfigReader, JsonHasPlacesToo) {
  const auto document = Parse("{\n  \"a\": {\n    \"b\": []\n  }\n}\n");
  std::string text;
  EXPECT_EQ(document.Root()->Object("a")->Read("b", text).error().message,
            "config.yaml:3:10: a.b must be a text, not []");
}

TEST(ConfigReader, NamesMatchAsGosDecoderDoes) {
  const auto document = Parse("Name: first\nname: second\nOther: third\n");
  EXPECT_EQ(document.Root()->RequiredText("name"), "second") << "an exact match comes first";
  EXPECT_EQ(document.Root()->RequiredText("other"), "third");
  EXPECT_FALSE(document.Root(Names::kExact)->RequiredText("other"));
}

TEST(ConfigReader, WhatIsNoMappingIsRefused) {
  EXPECT_FALSE(Parse("[a]").Root());
  EXPECT_TRUE(Parse("# only a comment\n").empty());
  const auto document = Parse("list: [a, {b: c}]\nmap: [x]\n");
  EXPECT_THAT(document.Root()->List("list").error().message,
              HasSubstr("config.yaml:1:8: list[0] must be a mapping"));
  EXPECT_FALSE(document.Root()->Object("map"));
  EXPECT_FALSE(document.Root()->RequiredObject("missing"));
  EXPECT_TRUE(document.Root()->Object("missing"));
  EXPECT_THAT(document.Root()->Members().error().message, HasSubstr("list must be a mapping"));
}

TEST(ConfigReader, MembersAreNamedMappings) {
  const auto document = Parse("b: {x: 1}\na: {x: 2}\n");
  const auto members = document.Root()->Members();
  ASSERT_TRUE(members);
  ASSERT_EQ(members->size(), 2U);
  EXPECT_EQ((*members)[0].first, "a");
  EXPECT_EQ((*members)[1].second.PathOf("x"), "b.x");
}

TEST(ConfigReader, UnknownMembersAreRefusedByNameWhenAsked) {
  const auto document = Parse("version: v1\nmig-configss: {}\n");
  EXPECT_TRUE(document.Root()->RefuseOthers({"version", "mig-configss"}));
  EXPECT_EQ(document.Root()->RefuseOthers({"version", "mig-configs"}).error().message,
            "config.yaml:2:15: mig-configss is not known; there are version, mig-configs");
}

TEST(ConfigReader, NumbersThatDoNotFitAreRefused) {
  const auto document = Parse(
      "big: 2147483648\nsmall: -2147483649\nhuge: 18446744073709551615\nhalf: 1.5\n"
      "biggest: 2147483647\nsmallest: -2147483648\n");
  int number = 0;
  for (const auto* name : {"big", "small", "huge", "half"}) {
    EXPECT_FALSE(document.Root()->Read(name, number)) << name;
  }
  ASSERT_TRUE(document.Root()->Read("biggest", number));
  EXPECT_EQ(number, std::numeric_limits<int>::max());
  ASSERT_TRUE(document.Root()->Read("smallest", number));
  EXPECT_EQ(number, std::numeric_limits<int>::min());
}

TEST(ConfigDocument, AMissingFileIsNotFound) {
  EXPECT_EQ(ConfigDocument::Load("/nonexistent/config.yaml").error().code, base::Code::kNotFound);
  EXPECT_THAT(ConfigDocument::Parse("a: [", "config.yaml").error().message,
              HasSubstr("config.yaml:2:1:"));
}

}  // namespace
}  // namespace pitcrew::codec
