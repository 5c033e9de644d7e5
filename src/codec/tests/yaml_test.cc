#include "codec/yaml.h"

#include <gtest/gtest.h>

namespace pitcrew::codec {
namespace {

TEST(Yaml, PlainScalarsGetTheirTypesAndQuotedOnesStayText) {
  const auto value =
      ParseYaml("a: 1\nb: \"1\"\nc: true\nd: 'true'\ne: 1.5\nf: ~\ng: 1.2.3\nh: 0x10\n");
  ASSERT_TRUE(value) << value.error().message;
  const auto expected =
      ParseJson(R"({"a":1,"b":"1","c":true,"d":"true","e":1.5,"f":null,"g":"1.2.3","h":16})");
  EXPECT_EQ(*value, *expected);
}

TEST(Yaml, ErrorsNameSourceLineAndColumn) {
  const auto value = ParseYaml("a: 1\nb: [1, 2\nc: 3\n", "node.yaml");
  ASSERT_FALSE(value);
  EXPECT_TRUE(value.error().message.starts_with("node.yaml:3:")) << value.error().message;
  EXPECT_TRUE(value.error().message.ends_with(
      ": did not find expected ',' or ']' while parsing a flow sequence that begins in line 2"))
      << value.error().message;
}

TEST(Yaml, AKeyThatStandsTwiceIsAnError) {
  const auto value = ParseYaml("a: 1\na: 2\n", "policy.yaml");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message, "policy.yaml:2:1: key \"a\" stands here twice");
}

TEST(Yaml, WordsAndNumbersAreThoseOfKubernetes) {
  const auto value =
      ParseYaml("a: 0644\nb: yes\nc: off\nd: 1e3\ne: 2001-01-01\nf: !!binary aGk=\n");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(ToJsonText(*value),
            R"({"a":420,"b":true,"c":false,"d":1000,"e":"2001-01-01","f":"hi"})");
}

TEST(Yaml, MappingsAreMerged) {
  const auto value = ParseYaml("a: &a {c: 1, d: 2}\nb: {<<: *a, d: 3}\n");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ((*value)["b"], Json({{"c", 1}, {"d", 3}}));
}

TEST(Yaml, AnchorsAreRead) {
  const auto value = ParseYaml("a: &one {b: [1]}\nc: *one\n");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(*value, *ParseJson(R"({"a":{"b":[1]},"c":{"b":[1]}})"));
  const auto unknown = ParseYaml("a: *none\n", "x.yaml");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "x.yaml:1:4: there is no anchor \"none\"");
}

TEST(Yaml, TextsThatWouldUseUpTheMachineAreRefused) {
  const auto deep = ParseYaml(std::string(5000, '['));
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("nested too deeply"), std::string::npos);
  for (const std::string level : {"{a: ", "{<<: "}) {
    std::string text;
    for (int i = 0; i < 900; ++i) text += level;
    const auto refused = ParseYaml(text);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("nested too deeply"), std::string::npos)
        << refused.error().message;
  }
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    laughs += "]\n";
  }
  const auto many = ParseYaml(laughs);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("aliases make too many values"), std::string::npos);
}

TEST(Yaml, AMillionAliasedValuesAreNotTooMany) {
  std::string text = "thousand: &thousand [";  // the list is one of them
  for (int i = 0; i < 999; ++i) text += "1,";
  text += "]\nmillion: [";
  for (int i = 0; i < 1000; ++i) text += "*thousand,";
  EXPECT_TRUE(ParseYaml(text + "]\n"));
  const auto more = ParseYaml(text + "*thousand]\n");
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("aliases make too many values"), std::string::npos);
}

TEST(Yaml, ScalarsOfEveryStyle) {
  const auto value = ParseYaml(
      "plain: a b\nfolded: >\n  one\n  two\nliteral: |\n  one\n  two\ntagged: !!str 1\n"
      "double: \"a\\tb\"\nempty:\nspread: one\n  two\n");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(*value, Json({{"plain", "a b"},
                          {"folded", "one two\n"},
                          {"literal", "one\ntwo\n"},
                          {"tagged", "1"},
                          {"double", "a\tb"},
                          {"empty", nullptr},
                          {"spread", "one two"}}));
}

TEST(Yaml, StreamDropsEmptyDocuments) {
  const auto documents = ParseYamlStream("---\n---\na: 1\n---\nb: 2\n");
  ASSERT_TRUE(documents);
  EXPECT_EQ(documents->size(), 2U);
}

TEST(Yaml, WrittenTextReadsBackEqual) {
  const Json value = {{"text", "yes"},
                      {"octal", "0644"},
                      {"grouped", "1_000"},
                      {"merge", "<<"},
                      {"infinity", ".inf"},
                      {"number", "12"},
                      {"lines", "a\nb\n"},
                      {"odd", "a\n\tb"},
                      {"empty", ""},
                      {"list", {1, "2", nullptr}},
                      {"none", Json::object()},
                      {"colon", "a: b"},
                      {"dash", "- x"},
                      {"hash", "a #b"},
                      {"line separator", "a\u2028b \u00e9\U0001F600"},
                      {"next line, among lines", "a\u0085b\n\u2029c\n"},
                      {"nested", {{"x", {{"y", true}}}}}};
  const auto text = ToYamlText(value);
  const auto back = ParseYaml(text);
  ASSERT_TRUE(back) << back.error().message << "\n" << text;
  EXPECT_EQ(*back, value) << text;
}

TEST(Yaml, PlacesNameTheLineOfAValueOrOfItsNearestParent) {
  YamlPlaces places;
  const auto value = ParseYaml("a: 1\nlist:\n- name: x\n- name: y\n", "file.yaml", places);
  ASSERT_TRUE(value);
  EXPECT_EQ(places.Of("/list/1/name"), "file.yaml:4:9");
  EXPECT_EQ(places.Of("/list/1/missing"), "file.yaml:4:3");
  EXPECT_EQ(places.Of("/none"), "file.yaml:1:1");
}

}  // namespace
}  // namespace pitcrew::codec
