// Our reader against sigs.k8s.io/yaml itself (go-yaml/), over a corpus: each scalar of
// data/yaml/scalars.txt as a value, as a key and in lists, the documents of
// data/yaml/documents.txt, and every YAML file that the project ships. Nothing is expected but what
// the Go library makes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "support/go_program.h"
#include "tests/support/folders.h"

namespace pitcrew::codec {
namespace {

namespace fs = std::filesystem;

// Where ours differs on purpose. The Go library stops to read where the first value ends, and takes
// what follows for nothing; and it does not know the escape that JSON has for a slash.
bool IsDeliberatelyOther(const std::string& document) {
  const auto list = {"[]: x\n", "{}: x\n", "[]]\n", "{}: }}\n", "a: \"\\/\"\n"};
  return std::ranges::find(list, document) != list.end();
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The pieces between lines that begin with `line`.
std::vector<std::string> Pieces(const std::string& text, const std::string& line) {
  std::vector<std::string> pieces(1);
  for (const auto& each : Lines(text)) {
    if (each.starts_with(line)) {
      pieces.emplace_back();
    } else {
      pieces.back() += each + "\n";
    }
  }
  return pieces;
}

std::vector<std::string> Scalars() {
  std::vector<std::string> documents;
  const auto text = base::ReadFile(test_support::TestData() / "yaml/scalars.txt");
  EXPECT_TRUE(text);
  for (const auto& scalar : Lines(text.value_or(""))) {
    documents.push_back(scalar + "\n");
    documents.push_back("a: " + scalar + "\n");
    documents.push_back("- " + scalar + "\n- x\n");
    documents.push_back(scalar + ": x\n");
    documents.push_back("[" + scalar + "]\n");
    documents.push_back("{" + scalar + ": " + scalar + "}\n");
    for (const auto* type : {"str", "int", "float", "bool", "null", "timestamp", "binary"}) {
      documents.push_back(fmt::format("a: !!{} {}\n", type, scalar));
      documents.push_back(fmt::format("a: !!{} \"{}\"\n", type, scalar));
    }
  }
  return documents;
}

std::vector<std::string> Documents() {
  const auto text = base::ReadFile(test_support::TestData() / "yaml/documents.txt");
  EXPECT_TRUE(text);
  return Pieces(text.value_or(""), "=====");
}

std::vector<std::string> Shipped() {
  std::vector<std::string> documents;
  for (const auto* folder : {"deploy", "src", "tests", "simulation"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(test_support::SourceFolder() / folder)) {
      if (entry.path().extension() != ".yaml") continue;
      const auto text = base::ReadFile(entry.path());
      EXPECT_TRUE(text) << entry.path();
      for (auto& piece : Pieces(text.value_or(""), "---")) documents.push_back(std::move(piece));
    }
  }
  return documents;
}

class GoYaml : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto program = testing::BuildGoProgram("src/codec/tests/go-yaml", "go-yaml");
    ASSERT_TRUE(program) << program.error().message;
    program_ = *program;
  }

  static void Compare(const std::vector<std::string>& documents) {
    const auto output = testing::RunWithInput(program_, ToJsonText(documents));
    ASSERT_TRUE(output) << output.error().message;
    const auto outcomes = ParseJson(*output, "go-yaml");
    ASSERT_TRUE(outcomes) << outcomes.error().message;
    ASSERT_EQ(outcomes->size(), documents.size());
    for (std::size_t i = 0; i < documents.size(); ++i) {
      if (!IsDeliberatelyOther(documents[i])) CompareOne(documents[i], (*outcomes)[i]);
    }
  }

  static void CompareOne(const std::string& document, const Json& theirs) {
    const auto ours = ParseYaml(document);
    const std::string what = ours ? ToJsonText(*ours) : ours.error().message;
    const std::string error = theirs["error"];
    const std::string strict = theirs["strict"];
    if (!error.empty()) {
      EXPECT_FALSE(ours) << document << "is " << what << ", but to them " << error;
      return;
    }
    // The one deliberate difference: a key that stands twice is refused, as by YAMLToJSONStrict,
    // which also refuses to replace what was merged.
    if (!strict.empty() && document.find("<<") == std::string::npos) {
      EXPECT_FALSE(ours) << document << "is " << what << ", but to them " << strict;
      return;
    }
    ASSERT_TRUE(ours) << document << what << ", but to them it is " << theirs["json"];
    EXPECT_EQ(*ours, theirs["json"]) << document;
    EXPECT_EQ(ToJsonText(*ours), ToJsonText(theirs["json"])) << document;
  }

  static fs::path program_;
};
fs::path GoYaml::program_;

TEST_F(GoYaml, Scalars) { Compare(Scalars()); }

TEST_F(GoYaml, Documents) { Compare(Documents()); }

TEST_F(GoYaml, WhatTheProjectShips) {
  const auto documents = Shipped();
  EXPECT_GT(documents.size(), 100U);
  Compare(documents);
}

}  // namespace
}  // namespace pitcrew::codec
