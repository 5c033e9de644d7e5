// Every folder tests/data/<case>/ is a case: args holds command lines of `pitcrew plan`, one a
// line, that read the folder's files (policy.yaml, cluster.yaml, ...); expected.txt is the
// transcript of what they print and return. PITCREW_UPDATE_GOLDEN=1 writes it: check every line of
// the difference against the reference before committing it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "desired/operand_table.h"
#include "plan/run.h"
#include "tests/support/folders.h"

namespace pitcrew::plan {
namespace {

std::vector<std::filesystem::path> Cases() {
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(test_support::TestData())) {
    cases.push_back(entry.path());
  }
  std::ranges::sort(cases);
  return cases;
}

// The operator's environment in these tests: an image for every variable.
std::optional<std::string> Environment(const std::string& name) {
  for (const auto variable : desired::Operands().image_variables()) {
    if (variable == name) return fmt::format("registry.test/{}:v1", base::ToLower(name));
  }
  return std::nullopt;
}

std::string Transcript(const std::string& command) {
  std::vector<std::string> words{"pitcrew plan"};
  for (const std::string& word : base::SplitTrimmed(command, ' ')) words.push_back(word);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::string text = fmt::format("$ pitcrew plan {}\n", command);
  const auto arguments = ReadArguments(static_cast<int>(argv.size()), argv.data(), Environment);
  if (!arguments) return text + arguments.error().message + "\n[2]\n";
  const Answer answer = Run(**arguments);
  text += answer.output;
  if (!answer.errors.empty()) text += "[standard error]\n" + answer.errors;
  return text + fmt::format("[{}]\n", answer.status);
}

class PlanGoldenTest : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(GetParam());
  }
  void TearDown() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

TEST_P(PlanGoldenTest, PrintsAsExpected) {
  const auto args = base::ReadFile("args");
  ASSERT_TRUE(args) << args.error().ToString();
  std::string actual;
  for (const std::string& command : base::SplitTrimmed(*args, '\n')) {
    actual += Transcript(command);
  }
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomically("expected.txt", actual));
  }
  const auto expected = base::ReadFile("expected.txt");
  ASSERT_TRUE(expected) << expected.error().ToString();
  EXPECT_EQ(actual, *expected);
}

INSTANTIATE_TEST_SUITE_P(Clusters, PlanGoldenTest, ::testing::ValuesIn(Cases()),
                         [](const auto& golden) {
                           std::string name = golden.param.filename().string();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace pitcrew::plan
