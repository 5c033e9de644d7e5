// Every folder tests/data/configuration/<case>/ has a config.yaml and an expected.yaml: either
// `error`, words of the message, with `place` (line:column) where it matters, or `writes`, what the
// same configuration is written as. tests/data/checkpoint/<case>/ likewise: `error`, or whether the
// file is written byte for byte. Expectations come from mig-manager.md sections 3, 6 and 7.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/file.h"
#include "codec/yaml.h"
#include "node/mig/checkpoint.h"
#include "node/mig/configuration.h"
#include "tests/support/folders.h"

namespace pitcrew::node::mig {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<fs::path> Cases(const std::string& kind) {
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(test_support::TestData() / kind)) {
    cases.push_back(entry.path());
  }
  std::ranges::sort(cases);
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<fs::path>& golden) {
  std::string name = golden.param.filename().string();
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class FileTest : public ::testing::TestWithParam<fs::path> {
 protected:
  [[nodiscard]] std::string Read(const char* name) const {
    auto text = base::ReadFile(GetParam() / name);
    EXPECT_TRUE(text) << text.error().ToString();
    return text.value_or("");
  }
  [[nodiscard]] codec::Json Expected() const {
    auto expected = codec::ParseYaml(Read("expected.yaml"));
    EXPECT_TRUE(expected) << expected.error().ToString();
    return expected.value_or(codec::Json::object());
  }
};

class ConfigurationFileTest : public FileTest {};

TEST_P(ConfigurationFileTest, IsReadAsExpected) {
  const auto expected = Expected();
  const auto configuration = ParseConfiguration(Read("config.yaml"), "config.yaml");
  if (expected.contains("error")) {
    ASSERT_FALSE(configuration);
    EXPECT_EQ(configuration.error().code, base::Code::kInvalid);
    EXPECT_THAT(configuration.error().message, HasSubstr(expected["error"].get<std::string>()));
    EXPECT_THAT(configuration.error().message,
                HasSubstr("config.yaml:" + expected.value("place", "")));
    return;
  }
  ASSERT_TRUE(configuration) << configuration.error().ToString();
  const auto written = ToYamlText(*configuration);
  EXPECT_EQ(written, expected.at("writes").get<std::string>());
  if (configuration->version.empty()) return;  // nothing that a reader would take
  EXPECT_EQ(*ParseConfiguration(written, "again"), *configuration);
  EXPECT_EQ(*ParseConfiguration(ToJsonText(*configuration), "JSON"), *configuration);
}

INSTANTIATE_TEST_SUITE_P(Files, ConfigurationFileTest, ::testing::ValuesIn(Cases("configuration")),
                         NameOf);

class CheckpointFileTest : public FileTest {};

TEST_P(CheckpointFileTest, IsReadAsExpected) {
  const auto expected = Expected();
  const auto text = Read("checkpoint.json");
  const auto checkpoint = ParseCheckpoint(text, "checkpoint.json");
  if (expected.contains("error")) {
    ASSERT_FALSE(checkpoint);
    EXPECT_EQ(checkpoint.error().reason, "InvalidCheckpoint");
    EXPECT_THAT(checkpoint.error().message, HasSubstr(expected["error"].get<std::string>()));
    return;
  }
  ASSERT_TRUE(checkpoint) << checkpoint.error().ToString();
  const auto written = ToJsonText(*checkpoint);
  EXPECT_EQ(written == text, expected.at("written-the-same").get<bool>()) << written;
  EXPECT_EQ(*ParseCheckpoint(written, "again"), *checkpoint);
}

INSTANTIATE_TEST_SUITE_P(Files, CheckpointFileTest, ::testing::ValuesIn(Cases("checkpoint")),
                         NameOf);

}  // namespace
}  // namespace pitcrew::node::mig
