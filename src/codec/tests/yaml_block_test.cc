// The fast reader against the general one: what it reads must be the same, to the type.
#include "codec/yaml_block.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "codec/yaml.h"

namespace pitcrew::codec {
namespace {

// By the general reader: one that also notes places.
base::Result<Json> General(std::string_view text) {
  YamlPlaces places;
  return ParseYaml(text, "text", places);
}

// Whether the fast reader knows the text; then both must agree.
bool Agrees(std::string_view text) {
  const auto fast = ReadBlockYaml(text);
  if (!fast) return false;
  const auto general = General(text);
  EXPECT_TRUE(general) << general.error().message << "\n" << text;
  if (!general) return true;
  if (fast->empty()) {
    EXPECT_TRUE(general->is_null()) << text;
    return true;
  }
  EXPECT_EQ(fast->size(), 1U) << text;
  EXPECT_EQ(ToJsonText(fast->front()), ToJsonText(*general)) << text;
  return true;
}

TEST(YamlBlock, WhatKubectlPrintsIsRead) {
  for (
      const char* text : {
          "apiVersion: v1\nitems:\n- a: 1\n  b: [] \n- a: -2.5\n  b: {}\nkind: List\n",
          "a:\n  b:\n    - x\n    - 'y: z'\n    - \"t\\tq\\u00e9\"\n    - null\n    - ~\n",
          "a: true\nb: 'true'\nc: \"1\"\nd: 0x10\ne: 1e3\nf: 2026-01-01T00:00:00Z\ng: \"\"\n",
          "script: |\n  one\n    two\n\n  three # no comment\nnext: |-\n  end\nlast: x\n",
          "f:metadata:\n  f:labels:\n    .: {}\n    f:a.b/c: {}\n  k:{\"type\":\"Ready\"}:\n    .: "
          "{}\n",
          "message: a text that is\n  folded by the writer\n  twice\nother: 'quoted and\n  folded, "
          "it''s so'\nthird: \"double and\n  folded\"\n",
          "# comment\n\na:\n  # inside\n  b: 1\n\n# behind\nc:\n",
          "- - 1\n  - 2\n- a: b\n  c:\n  - d\n-\n  e: f\n- g\n",
          "'quoted key': 1\n\"other\": 2\nurl: https://a.b:80/c\n",
          "---\na: 1\n",
          "",
          "# nothing\n",
          "a:\n- b: |\n    text\n  c: d\n",
      }) {
    EXPECT_TRUE(Agrees(text)) << text;
  }
}

TEST(YamlBlock, EverythingElseIsLeftToTheGeneralReader) {
  for (const char* text : {"a: &x 1\n",         "a: *x\n",
                           "a: !!str 1\n",      "a: {b: c}\n",
                           "a: [1, 2]\n",       "a: >\n  folded\n",
                           "a: |2\n  x\n",      "a: |+\n  x\n",
                           "a: 1 # comment\n",  "a:\tb\n",
                           "a: 1\na: 2\n",      "a: b: c\n",
                           "? a\n: b\n",        "%YAML 1.2\n---\na: 1\n",
                           "--- text\n",        "<<: x\n",
                           "null: x\n",         "text\n",
                           "a: \"x\\\n  y\"\n", "a: 'open\n",
                           "a: 1\n  b: 2\n",    "a:\n  b: 1\n c: 2\n",
                           "a: @x\n",           "a: 1\r\n",
                           "- a\nb: c\n",       "a: text\n\n  more\n",
                           "a: \"\\x41\"\n",    "a: |\n\n  x\n"}) {
    EXPECT_FALSE(ReadBlockYaml(text)) << text;
  }
}

TEST(YamlBlock, StreamsAreSplit) {
  const auto documents = ParseYamlStream("a: 1\n---\n---\nb: 2\n---\n");
  ASSERT_TRUE(documents);
  EXPECT_EQ(*documents, (std::vector<Json>{{{"a", 1}}, {{"b", 2}}}));
  ASSERT_TRUE(ReadBlockYaml("a: 1\n---\nb: 2\n"));
}

// Every YAML file of this repository, and what the emitter makes of it.
TEST(YamlBlock, AgreesOverTheRepository) {
  std::size_t read = 0;
  for (const char* folder : {"src", "deploy", "simulation", "cluster"}) {
    const auto root = std::filesystem::path(PITCREW_SOURCE_DIR) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".yaml") continue;
      const auto text = base::ReadFile(entry.path());
      ASSERT_TRUE(text);
      if (text->find("\n---") != std::string::npos) continue;
      read += Agrees(*text) ? 1 : 0;
      if (const auto value = General(*text); value && value->is_structured()) {
        const std::string again = ToYamlText(*value);
        Agrees(again);
      }
    }
  }
  EXPECT_GT(read, 100U);
}

// Damaged texts: never another value than the general reader's, and nothing that it refuses.
TEST(YamlBlock, AgreesOverDamagedTexts) {
  const std::string good =
      "a:\n  b: 'x y'\n  c: \"q\\n\"\n  d:\n  - e: 1\n    f: |\n      t\n      u\n  - g\n  h: "
      "plain "
      "text\n    goes on\ni: {}\nj: null\n";
  const std::string letters = " \n-:#'\"|>[]{}&*!\\a1~?,";
  std::mt19937 random(7);
  std::size_t read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (unsigned j = 0; j <= random() % 3; ++j) {
      const std::size_t place = random() % text.size();
      const char letter = letters[random() % letters.size()];
      switch (random() % 3) {
        case 0:
          text[place] = letter;
          break;
        case 1:
          text.insert(place, 1, letter);
          break;
        default:
          text.erase(place, 1);
      }
    }
    const auto fast = ReadBlockYaml(text);
    if (!fast) continue;
    ++read;
    YamlPlaces places;
    const auto general = ParseYaml(text, "text", places);
    ASSERT_TRUE(general) << general.error().message << "\n" << text;
    ASSERT_EQ(ToJsonText(fast->empty() ? Json() : fast->front()), ToJsonText(*general)) << text;
  }
  EXPECT_GT(read, 1000U);
}

}  // namespace
}  // namespace pitcrew::codec
