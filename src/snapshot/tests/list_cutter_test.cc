// Large lists are read item by item, with the same result as a whole.
#include "snapshot/list_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "snapshot/file.h"
#include "snapshot/snapshot.h"

namespace pitcrew::snapshot {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Names of the objects in a text, in order; what is wrong comes last.
std::vector<std::string> Names(std::string_view text) {
  std::vector<std::string> names;
  const auto visited = VisitText(text, "cluster", [&](const Json& object) {
    names.push_back(codec::FindString(object, {"kind"}) + " " +
                    codec::FindString(object, {"metadata", "name"}));
    return base::Status();
  });
  if (!visited) names.push_back("error: " + visited.error().message);
  return names;
}

Json Node(const std::string& name, Json extra = {}) {
  Json node = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}}}};
  if (!extra.is_null()) node["extra"] = std::move(extra);
  return node;
}

// Texts that a careless knife would cut at the wrong place.
std::vector<Json> HardNodes() {
  return {Node("a", "}], \"items\": [{"),
          Node("b", "a quote \" and a backslash \\ and both \\\""),
          Node("c", {{"items", {1, 2, "items:"}}, {"kind", "List"}}),
          Node("d", "first\n- second\n\n- third\nitems:\n"),
          Node("e", "---\n- x"),
          Node("f", Json::array({Json::array(), Json::object(), nullptr, true, -1.5})),
          Node("g", "é # no comment"),
          Node("h", "")};
}

std::vector<Json> Visited(std::string_view text) {
  std::vector<Json> objects;
  const auto visited = VisitText(text, "cluster", [&](Json object) {
    objects.push_back(std::move(object));
    return base::Status();
  });
  EXPECT_TRUE(visited) << visited.error().ToString();
  return objects;
}

TEST(ListCutter, JsonInEveryLayout) {
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", HardNodes()}};
  for (const int indent : {-1, 0, 4}) {
    const std::string text = list.dump(indent);
    const auto cut = CutJsonList(text);
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->items.size(), HardNodes().size());
    EXPECT_EQ(Visited(text), HardNodes());
  }
}

TEST(ListCutter, YamlAsKubectlPrintsIt) {
  std::string text = "apiVersion: v1\nitems:\n";
  for (const Json& node : HardNodes()) text += codec::ToYamlText(Json::array({node}));
  text += "kind: List\nmetadata:\n  resourceVersion: \"\"\n";
  const auto cut = CutYamlList(text);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->items.size(), HardNodes().size());
  EXPECT_EQ(Visited(text), HardNodes());
  EXPECT_EQ(Visited("---\n" + text + "---\n" + codec::ToYamlText(Node("z"))).size(),
            HardNodes().size() + 1);
}

// Anything that is not plainly a list is left to the reader, who knows what is wrong.
TEST(ListCutter, OnlyListsAreCut) {
  EXPECT_EQ(CutJsonList(R"({"items": [1, [2], {"a": 3}], "kind": "List"})")->items,
            (std::vector<std::string_view>{"1", "[2]", R"({"a": 3})"}));
  EXPECT_EQ(CutJsonList(R"( { "kind" : "List" , "items" : [ ] , "v" : 1 } )")->rest,
            R"({"kind":"List","v":1 })");
  for (const char* text :
       {"", "{", "{}", "[1]", "7", R"({"kind": "List"})", R"({items: [1]})", R"({"items" [1]})",
        R"({"items": 1})", R"({"items": [1})", R"({"items": [1,]})", R"({"items": [1]} 2)",
        R"({"items": [1], "items": [2]})", R"({"items": [1], "a"})", R"({"items": [1], "a": })",
        R"({"items": [{"a": 1])", R"({"items": ["a])", R"({"items": [1],})"}) {
    EXPECT_FALSE(CutJsonList(text)) << text;
  }
}

TEST(ListCutter, TheKindOfATypedListIsItsItems) {
  for (const char* text :
       {R"({"items": [{"metadata": {"name": "a"}}], "kind": "NodeList", "apiVersion": "v1"})",
        "items:\n- metadata:\n    name: a\nkind: NodeList\napiVersion: v1\n"}) {
    EXPECT_THAT(Names(text), ElementsAre("Node a")) << text;
  }
}

TEST(ListCutter, EmptyLists) {
  EXPECT_THAT(Names(R"({"apiVersion": "v1", "items": [], "kind": "List"})"), IsEmpty());
  EXPECT_THAT(Names("apiVersion: v1\nitems: []\nkind: List\n"), IsEmpty());
}

// An object with a member `items` is no list.
TEST(ListCutter, AnObjectMayHaveItems) {
  EXPECT_THAT(Names(R"({"apiVersion": "x/v1", "items": [{"a": 1}], "kind": "Basket",
                        "metadata": {"name": "b"}})"),
              ElementsAre("Basket b"));
  EXPECT_THAT(
      Names("apiVersion: x/v1\nitems:\n- a: 1\n- a: 2\nkind: Basket\nmetadata: {name: b}\n"),
      ElementsAre("Basket b"));
}

// YAML that looks otherwise is read as a whole, each object once.
TEST(ListCutter, OtherFormsAreReadAsAWhole) {
  constexpr const char* kA = "{apiVersion: v1, kind: Node, metadata: {name: a}}";
  constexpr const char* kB = "{apiVersion: v1, kind: Node, metadata: {name: b}}";
  const std::string head = "apiVersion: v1\nkind: List\nitems:\n";
  EXPECT_THAT(Names(head + "  - " + kA + "\n  - " + kB + "\n"), ElementsAre("Node a", "Node b"));
  EXPECT_THAT(Names(head + "# first\n- " + kA + "\n\n# second\n- " + kB + "\n# end\n"),
              ElementsAre("Node a", "Node b"));
  // An alias of another item.
  EXPECT_THAT(Names(head + "- {apiVersion: &v v1, kind: Node, metadata: {name: a}}\n"
                           "- {apiVersion: *v, kind: Node, metadata: {name: b}}\n"),
              ElementsAre("Node a", "Node b"));
  // Quoted text that goes on at the beginning of a line.
  EXPECT_THAT(Names(head + "- {apiVersion: v1, kind: Node, metadata: {name: a}, x: \"1\n- 2\"}\n"),
              ElementsAre("Node a"));
  // YAML in the braces of JSON.
  EXPECT_THAT(Names(std::string(R"({"apiVersion": "v1", "kind": "List", "items": [
      {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},)") +
                    kB + "]}"),
              ElementsAre("Node a", "Node b"));
  // Several JSON texts.
  EXPECT_THAT(Names(R"({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
---
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}]}
)"),
              ElementsAre("Node a", "Node b"));
}

TEST(ListCutter, WhatIsWrongIsToldAsEver) {
  const std::string head = "apiVersion: v1\nkind: List\nitems:\n";
  const std::string a = "- {apiVersion: v1, kind: Node, metadata: {name: a}}\n";
  EXPECT_THAT(Names(head + a + "- {apiVersion: v1, kind: Node, metadata: [}\n"),
              ElementsAre("Node a", HasSubstr("error: cluster:5:")));
  EXPECT_THAT(Names(head + a + "- 7\n"), ElementsAre("Node a", " "));
  const std::string list = R"({"apiVersion": "v1", "kind": "List", "items": [)";
  const std::string node = R"({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})";
  EXPECT_THAT(Names(list + node + ", " + node.substr(0, 30)),
              ElementsAre(HasSubstr("error: cluster:1:")));
  EXPECT_THAT(Names(list + node + " " + node + "]}"), ElementsAre(HasSubstr("error: cluster:1:")));
  EXPECT_THAT(Names(list + node + "]} trailing"), ElementsAre(HasSubstr("error: cluster:1:")));
  // What the visitor does not want.
  const auto refused = VisitText(list + node + "," + node + "]}", "cluster",
                                 [names = 0](const Json& object) mutable -> base::Status {
                                   if (++names < 2) return {};
                                   return base::Fail(StandsTwice(object));
                                 });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "cluster, item 2: Node a stands here a second time");
  EXPECT_EQ(refused.error().code, base::Code::kInvalid);
}

// Whatever bytes a file has, reading it ends, and gives what the whole would give.
TEST(ListCutter, DamagedTexts) {
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", HardNodes()}};
  const std::string text = list.dump(1);
  for (std::size_t place = 0; place < text.size(); place += 3) {
    for (const char byte : {'"', '}', '[', ',', '\\', '\0'}) {
      std::string damaged = text;
      damaged[place] = byte;
      const auto whole = codec::ParseJson(damaged);
      if (!whole || !whole->contains("items") || codec::FindString(*whole, {"kind"}) != "List") {
        continue;
      }
      std::vector<Json> objects;
      const auto visited = VisitText(damaged, "cluster", [&](Json object) {
        objects.push_back(std::move(object));
        return base::Status();
      });
      ASSERT_TRUE(visited) << damaged;
      EXPECT_EQ(Json(objects), (*whole)["items"]) << damaged;
    }
  }
}

}  // namespace
}  // namespace pitcrew::snapshot
