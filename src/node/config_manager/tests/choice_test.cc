#include "node/config_manager/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "node/config_manager/options.h"
#include "node/config_manager/process.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::config_manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReasonOf(const std::vector<std::string>& available, const Wanted& wanted) {
  const auto chosen = Choose(available, wanted);
  return chosen ? "chosen: " + *chosen : chosen.error().reason;
}

TEST(Choice, TheLabelCountsBeforeTheDefault) {
  RecordProperty("holds", "device-plugin.md #52");
  const std::vector<std::string> files = {"a", "b"};
  EXPECT_EQ(Choose(files, {.label = "a", .default_config = "b", .fallback_strategies = {}}), "a");
  EXPECT_EQ(Choose(files, {.label = "", .default_config = "b", .fallback_strategies = {"empty"}}),
            "b");
  const auto missing =
      Choose(files, {.label = "c", .default_config = "b", .fallback_strategies = {"empty"}});
  EXPECT_EQ(missing.error().reason, "ConfigurationMissing");
  EXPECT_THAT(missing.error().message, HasSubstr("\"c\""));
  EXPECT_THAT(missing.error().message, HasSubstr("a, b"));
  EXPECT_EQ(ReasonOf(files, {.label = "", .default_config = "c", .fallback_strategies = {}}),
            "ConfigurationMissing");
}

TEST(Choice, FallbackStrategiesAreTriedInOrder) {
  RecordProperty("holds", "device-plugin.md #52");
  const auto fall_back = [](const std::vector<std::string>& files,
                            std::vector<std::string> strategies) {
    return ReasonOf(
        files, {.label = "", .default_config = "", .fallback_strategies = std::move(strategies)});
  };
  EXPECT_EQ(fall_back({"a", "default"}, {"named", "single", "empty"}), "chosen: default");
  EXPECT_EQ(fall_back({"a"}, {"named", "single", "empty"}), "chosen: a");
  EXPECT_EQ(fall_back({"a", "b"}, {"named", "single", "empty"}), "chosen: ");
  EXPECT_EQ(fall_back({"a", "b"}, {"named", "single"}), "NothingToFallBackOn");
  EXPECT_EQ(fall_back({"a", "b"}, {}), "NothingToFallBackOn");
  EXPECT_EQ(fall_back({"a"}, {""}), "UnknownFallbackStrategy");
  EXPECT_EQ(fall_back({"a"}, {"magic", "single"}), "UnknownFallbackStrategy");
}

TEST(Choice, AMountedConfigMapHasItsFilesOnly) {
  RecordProperty("holds", "device-plugin.md #52");
  const test_support::TemporaryFolder folder;
  EXPECT_EQ(ListConfigurations(folder.path()).error().reason, "NoConfigurations");
  // As the kubelet lays it out.
  std::filesystem::create_directory(folder.path() / "..2026");
  folder.Write("..2026/four", "");
  std::filesystem::create_directory_symlink("..2026", folder.path() / "..data");
  std::filesystem::create_symlink("..data/four", folder.path() / "four");
  std::filesystem::create_directory(folder.path() / "folder");
  folder.Write("a", "");
  EXPECT_THAT(ListConfigurations(folder.path()).value(), ElementsAre("a", "four"));
}

TEST(Choice, TheLinkIsReplacedInOneStep) {  // device-plugin.md section 22 number 4
  const test_support::TemporaryFolder folder;
  const auto link = folder.path() / "config.yaml";
  const auto first = folder.Write("first", "1");
  EXPECT_EQ(PointLink(link, first), true);
  EXPECT_EQ(PointLink(link, first), false);
  EXPECT_EQ(PointLink(link, "/dev/null"), true);
  EXPECT_EQ(std::filesystem::read_symlink(link), "/dev/null");
  // A link into nothing is no obstacle, nor is a file.
  std::filesystem::remove(link);
  std::filesystem::create_symlink("/nonexistent/there", link);
  EXPECT_EQ(PointLink(link, first), true);
  std::filesystem::remove(link);
  ASSERT_TRUE(base::WriteFileAtomically(link, "a file"));
  EXPECT_EQ(PointLink(link, first), true);
  EXPECT_EQ(base::ReadFile(link), "1");
  EXPECT_FALSE(PointLink("/nonexistent/link", first).has_value());
}

class Processes : public ::testing::Test {
 protected:
  void Add(int pid, std::string words, const std::string& group) {
    std::ranges::replace(words, ' ', '\0');
    folder_.Write(std::to_string(pid) + "/cmdline", words);
    folder_.Write(std::to_string(pid) + "/cgroup", "0::" + group + "\n");
  }
  void SetUp() override { folder_.Write("self/cgroup", "0::/kubepods/pod7/manager\n"); }
  test_support::TemporaryFolder folder_;
};

TEST_F(Processes, AreFoundByNameWithAndWithoutFolder) {
  RecordProperty("holds", "device-plugin.md #52");
  Add(9, "sh -c nvidia-device-plugin", "/kubepods/pod7/plugin");
  Add(11, "nvidia-device-plugin --x", "/kubepods/pod7/plugin");
  Add(100, "nvidia-device-plugin", "/kubepods/pod7/plugin");
  Add(12, "/usr/bin/mps-control-daemon", "/kubepods/pod7/mps");
  EXPECT_EQ(FindProcess("nvidia-device-plugin", folder_.path()), 11);
  EXPECT_EQ(FindProcess("/usr/bin/nvidia-device-plugin", folder_.path()), 11);
  EXPECT_EQ(FindProcess("mps-control-daemon", folder_.path()), 12);
  EXPECT_EQ(FindProcess("plugin", folder_.path()).error().reason, "ProcessNotFound");
}

TEST_F(Processes, ThoseOfThePodComeFirst) {  // device-plugin.md section 22 number 3
  Add(11, "mps-control-daemon", "/kubepods/pod6/mps");
  EXPECT_EQ(FindProcess("mps-control-daemon", folder_.path()), 11);
  Add(12, "mps-control-daemon", "/kubepods/pod7/mps");
  EXPECT_EQ(FindProcess("mps-control-daemon", folder_.path()), 12);
  folder_.Write("self/cgroup", "0::/\n");
  Add(12, "mps-control-daemon", "/../mps");
  EXPECT_EQ(FindProcess("mps-control-daemon", folder_.path()), 12);
}

base::Result<std::optional<Options>> Parse(std::map<std::string, std::string> environment) {
  const char* argv[] = {"config-manager"};
  return ParseOptions(1, argv, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Options, AreThoseOfTheOperatorsManifests) {  // device-plugin.md sections 2 and 19
  const auto options = Parse({{"ONESHOT", "false"},
                              {"KUBECONFIG", ""},
                              {"NODE_NAME", "n"},
                              {"NODE_LABEL", "nvidia.com/device-plugin.config"},
                              {"CONFIG_FILE_SRCDIR", "/available-configs"},
                              {"CONFIG_FILE_DST", "/config/config.yaml"},
                              {"DEFAULT_CONFIG", ""},
                              {"FALLBACK_STRATEGIES", "empty"},
                              {"SEND_SIGNAL", "false"},
                              {"SIGNAL", ""},
                              {"PROCESS_TO_SIGNAL", ""}});
  ASSERT_TRUE(options.has_value()) << options.error().ToString();
  EXPECT_EQ((*options)->signal, 1);
  EXPECT_THAT((*options)->fallback_strategies, ElementsAre("empty"));
  for (const auto* missing : {"NODE_NAME", "CONFIG_FILE_SRCDIR", "CONFIG_FILE_DST"}) {
    std::map<std::string, std::string> environment = {
        {"NODE_NAME", "n"}, {"CONFIG_FILE_SRCDIR", "/a"}, {"CONFIG_FILE_DST", "/b"}};
    EXPECT_TRUE(Parse(environment).has_value());
    environment.erase(missing);
    EXPECT_THAT(Parse(environment).error().message, HasSubstr(missing));
  }
}

}  // namespace
}  // namespace pitcrew::node::config_manager
