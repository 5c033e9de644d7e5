// Every folder tests/data/<operand>/<case>/ is a case, <operand> being a state without "state-":
// policy.yaml (the whole object, or only spec:), cluster.yaml (optional, merged over a plain
// cluster), expected.yaml (the stream of objects, or error: text). PITCREW_UPDATE_GOLDEN=1 rewrites
// expected.yaml; check the difference against the reference before committing it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "codec/yaml.h"
#include "desired/testing/render_cluster.h"
#include "tests/support/folders.h"

namespace pitcrew::desired::testing {
namespace {

using codec::Json;

struct Case {
  std::filesystem::path folder;
  std::string state;
  std::string name;
};

// What the test's name ends with, instead of the bytes of the value.
void PrintTo(const Case& golden, std::ostream* out) { *out << golden.name; }

// The folder of an operand's cases.
std::string_view FolderOf(const Operand& operand) {
  std::string_view folder = operand.state;
  if (folder.starts_with("state-")) folder.remove_prefix(std::string_view("state-").size());
  return folder;
}

std::filesystem::path Data() { return test_support::TestData(); }

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Operand& operand : Operands()) {
    const std::filesystem::path root = Data() / FolderOf(operand);
    if (!std::filesystem::exists(root)) continue;  // a test of its own misses it
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      std::string name = fmt::format("{}_{}", FolderOf(operand), entry.path().filename().string());
      for (char& letter : name) {
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
      }
      cases.push_back({entry.path(), std::string(operand.state), name});
    }
  }
  return cases;
}

TEST(RenderGolden, EveryOperandHasACaseAndEveryFolderIsRun) {
  std::set<std::string> operands;
  for (const Operand& operand : Operands()) operands.emplace(FolderOf(operand));
  std::set<std::string> folders;
  for (const auto& folder : std::filesystem::directory_iterator(Data())) {
    folders.insert(folder.path().filename().string());
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      EXPECT_TRUE(std::filesystem::exists(entry.path() / "policy.yaml")) << entry.path();
    }
  }
  EXPECT_EQ(folders, operands);
}

std::string ToStream(const Json& rendered) {
  if (rendered.is_object()) return codec::ToYamlText(rendered);
  std::string text;
  for (const Json& object : rendered) {
    if (!text.empty()) text += "---\n";
    text += codec::ToYamlText(object);
  }
  return text;
}

// Hash annotations are opaque; what they are computed from stands beside them.
void DropHashes(Json& rendered) {
  if (!rendered.is_array()) return;
  for (Json& object : rendered) {
    Json& metadata = object["metadata"];
    metadata["annotations"].erase("nvidia.com/last-applied-hash");
    if (metadata["annotations"].empty()) metadata.erase("annotations");
  }
}

class RenderGoldenTest : public ::testing::TestWithParam<Case> {};

TEST_P(RenderGoldenTest, RendersAsExpected) {
  const auto& folder = GetParam().folder;
  const auto policy_text = base::ReadFile(folder / "policy.yaml");
  ASSERT_TRUE(policy_text) << policy_text.error().ToString();
  auto policy = codec::ParseYaml(*policy_text, (folder / "policy.yaml").string());
  ASSERT_TRUE(policy) << policy.error().ToString();
  if (!policy->contains("kind")) policy = MinimalPolicy(policy->value("spec", Json::object()));
  Json cluster = PlainCluster();
  if (const auto text = base::ReadFile(folder / "cluster.yaml")) {
    const auto changes = codec::ParseYaml(*text, (folder / "cluster.yaml").string());
    ASSERT_TRUE(changes) << changes.error().ToString();
    codec::ApplyMergePatch(cluster, *changes);
  }
  Json rendered = RenderState(*policy, cluster, GetParam().state);
  DropHashes(rendered);
  const std::string actual = ToStream(rendered);
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomically(folder / "expected.yaml", actual));
  }
  const auto expected = base::ReadFile(folder / "expected.yaml");
  ASSERT_TRUE(expected) << expected.error().ToString();
  EXPECT_EQ(actual, *expected);
}

INSTANTIATE_TEST_SUITE_P(Operands, RenderGoldenTest, ::testing::ValuesIn(Cases()),
                         [](const auto& golden) { return golden.param.name; });

}  // namespace
}  // namespace pitcrew::desired::testing
