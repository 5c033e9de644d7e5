// Every folder tests/data/<case>/ is a case: cluster.yaml is what differs from the healthy cluster
// of tests/data/base, object by object (tests/support/patched_cluster.h). expected.yaml names
// what must be found (by hand, from the references): `findings: [{id, object, stage}]`, and what is
// asked for: `nodes`, `pods`. expected.txt is what doctor says, and status.txt (where it stands)
// what status says; PITCREW_UPDATE_GOLDEN=1 rewrites those two: read every line before you commit
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "doctor/command.h"
#include "doctor/report_json.h"
#include "doctor/source.h"
#include "doctor/text.h"
#include "fleet/rules.h"
#include "support/patched_cluster.h"
#include "support/temporary_folder.h"
#include "tests/support/folders.h"

namespace pitcrew::doctor {
namespace {

using codec::Json;

const std::filesystem::path kData = test_support::TestData();

std::vector<Json> Objects(const std::string& name) {
  return test_support::PatchedObjects(
      kData / "base" / "cluster.yaml",
      name == "base" ? std::filesystem::path() : kData / name / "cluster.yaml");
}

fleet::Cluster ReadCase(const std::string& name) {
  const test_support::TemporaryFolder folder;
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", Objects(name)}};
  const auto file = folder.Write("cluster.json", codec::ToJsonText(list));
  auto cluster = FromFile(file.string(), "");
  if (!cluster) {
    ADD_FAILURE() << cluster.error().ToString();
    std::exit(1);
  }
  return *std::move(cluster);
}

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

Json Expected(const std::string& name) {
  return test_support::ReadStream(kData / name / "expected.yaml").at(0);
}

fleet::Question QuestionOf(const Json& expected) {
  fleet::Question question;
  for (const Json& node : expected.value("nodes", Json::array())) {
    question.nodes.push_back(node.get<std::string>());
  }
  for (const Json& pod : expected.value("pods", Json::array())) {
    const auto parts = base::Split(pod.get<std::string>(), '/');
    question.pods.push_back({parts.at(0), parts.at(1)});
  }
  return question;
}

std::string Line(const fleet::Finding& finding) {
  return finding.id + " of " + finding.object + " at " + std::string(ToString(finding.stage));
}

std::vector<std::string> Lines(const fleet::Report& report) {
  std::vector<std::string> lines;
  for (const auto& node : report.nodes) {
    if (node.broken) lines.push_back(Line(*node.broken));
  }
  for (const auto& finding : report.pods) lines.push_back(Line(finding));
  for (const auto& finding : report.cluster) lines.push_back(Line(finding));
  return lines;
}

void ExpectText(const std::filesystem::path& file, const std::string& actual) {
  if (std::getenv("PITCREW_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(base::WriteFileAtomically(file, actual));
  }
  const auto expected = base::ReadFile(file);
  ASSERT_TRUE(expected) << expected.error().ToString();
  EXPECT_EQ(actual, *expected) << file;
}

class DoctorGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(DoctorGoldenTest, FindsWhatIsBroken) {
  const Json expected = Expected(GetParam());
  const fleet::Question question = QuestionOf(expected);
  const fleet::Report report = fleet::MakeReport(ReadCase(GetParam()), question);
  std::vector<std::string> lines;
  for (const Json& finding : expected["findings"]) {
    lines.push_back(codec::FindString(finding, {"id"}) + " of " +
                    codec::FindString(finding, {"object"}) + " at " +
                    codec::FindString(finding, {"stage"}, "ready"));
  }
  EXPECT_THAT(Lines(report), ::testing::ElementsAreArray(lines));
  const std::string text = DoctorText(report, {}, !question.empty());
  // Every word of a fix is filled in.
  EXPECT_THAT(text, ::testing::Not(::testing::ContainsRegex("[{][a-z-]+[}]")));
  ExpectText(kData / GetParam() / "expected.txt", text);
  const auto status = kData / GetParam() / "status.txt";
  if (std::filesystem::exists(status)) ExpectText(status, StatusText(report, {.wide = true}));
  const auto json = kData / GetParam() / "report.yaml";
  if (std::filesystem::exists(json)) ExpectText(json, codec::ToYamlText(ToJson(report)));
}

INSTANTIATE_TEST_SUITE_P(Cases, DoctorGoldenTest, ::testing::ValuesIn(Cases()),
                         [](const auto& golden) {
                           return base::ReplaceAll(golden.param, "-", "_");
                         });

TEST(DoctorGoldenCasesTest, HaveEveryFinding) {
  std::set<std::string> seen;
  for (const std::string& name : Cases()) {
    const Json expected = Expected(name);
    for (const Json& finding : expected["findings"]) {
      seen.insert(codec::FindString(finding, {"id"}));
    }
  }
  for (const std::string_view id : fleet::FindingIds()) {
    EXPECT_TRUE(seen.contains(std::string(id))) << "no case finds " << id;
  }
}

TEST(DoctorDocumentationTest, TellsEveryFinding) {
  const auto text = base::ReadFile(test_support::SourceFolder() / "docs" / "troubleshooting.md");
  ASSERT_TRUE(text) << text.error().ToString();
  std::set<std::string_view> ids;
  for (const std::string_view id : fleet::FindingIds()) {
    EXPECT_TRUE(fleet::Contains(*text, "`" + std::string(id) + "`")) << id << " is not documented";
    EXPECT_TRUE(ids.insert(id).second) << id << " stands for two findings";
  }
}

// A node that is asked for is shown although it is ready; without a question only what is broken
// is.
TEST(DoctorCommandTest, ANodeThatIsAskedForIsShown) {
  const test_support::TemporaryFolder folder;
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", Objects("base")}};
  const auto file = folder.Write("cluster.json", codec::ToJsonText(list)).string();
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"doctor", "--cluster", file});
    std::vector<char*> arguments;
    for (auto& one : words) arguments.push_back(one.data());
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(DoctorCommand(static_cast<int>(arguments.size()), arguments.data()), 0);
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(run({"gpu-a"}), ::testing::StartsWith("Node gpu-a"));
  EXPECT_THAT(run({}), ::testing::EndsWith("1 of 1 GPU nodes are ready; nothing is broken.\n"));
}

// Wrong words end it before anything is printed.
TEST(DoctorCommandTest, WhatIsNeitherNodeNorPodIsNamed) {
  const test_support::TemporaryFolder folder;
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", Objects("base")}};
  const auto file = folder.Write("cluster.json", codec::ToJsonText(list)).string();
  const auto run = [&](std::string word) {
    std::vector<std::string> words = {"doctor", "--cluster", file, std::move(word)};
    std::vector<char*> arguments;
    for (auto& one : words) arguments.push_back(one.data());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = DoctorCommand(static_cast<int>(arguments.size()), arguments.data());
    const auto out = ::testing::internal::GetCapturedStdout();
    return std::tuple(code, !out.empty(), ::testing::internal::GetCapturedStderr());
  };
  EXPECT_EQ(run("gpu-a"), std::tuple(0, true, ""));
  EXPECT_EQ(
      run("gpu-z"),
      std::tuple(1, false, "pitcrew doctor: there is no node gpu-z and no pod default/gpu-z\n"));
  EXPECT_EQ(std::get<0>(run("elsewhere/pod")), 1);
}

}  // namespace
}  // namespace pitcrew::doctor
