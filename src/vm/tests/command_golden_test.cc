// `pitcrew vm` over clusters from files: one folder per case below data.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "codec/yaml.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/temporary_folder.h"
#include "vm/command.h"

namespace pitcrew::vm {
namespace {

using codec::Json;

// input.yaml: args, cluster (a list of objects). expected.yaml: exit, machine (what was printed, as
// a value), said (lines on standard error).
TEST(VmGolden, Cases) {
  for (const auto& one : test_support::ReadGoldenCases(test_support::TestData())) {
    SCOPED_TRACE(one.name + ": " + one.input.value("checks", std::string()));
    const test_support::TemporaryFolder folder;
    std::string cluster;
    for (const auto& object : one.input.value("cluster", Json::array())) {
      cluster += "---\n" + codec::ToYamlText(object);
    }
    const auto file = folder.Write("cluster.yaml", cluster).string();
    auto args = one.input.at("args").get<std::vector<std::string>>();
    args.insert(args.begin(), "vm");
    if (!one.input.value("live", false)) {
      args.insert(args.end(), {"--cluster", file});
    }
    std::vector<char*> words;
    for (auto& arg : args) words.push_back(arg.data());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Json result = {{"exit", Command(static_cast<int>(words.size()), words.data())}};
    const auto out = ::testing::internal::GetCapturedStdout();
    const auto said = base::SplitTrimmed(::testing::internal::GetCapturedStderr(), '\n');
    if (!out.empty()) result["machine"] = codec::ParseYaml(out).value_or(Json(out));
    if (!said.empty()) result["said"] = said;
    EXPECT_EQ(codec::ToYamlText(result), codec::ToYamlText(one.expected));
  }
}

}  // namespace
}  // namespace pitcrew::vm
