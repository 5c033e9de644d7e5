#include "base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pitcrew::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Values {
  std::optional<std::string> root;
  std::optional<bool> fail;
  std::optional<std::vector<std::string>> strategies;
  std::optional<std::vector<std::int64_t>> channels;
  std::optional<std::int64_t> burst;
  std::optional<double> qps;
};

// `words` without the program's name.
Result<Values> Parse(std::vector<const char*> words, std::map<std::string, std::string> env = {}) {
  CommandLine line("program", "what it does", "program version v1");
  Values values;
  line.Add({"driver-root,nvidia-driver-root", "NVIDIA_DRIVER_ROOT,OLD_ROOT", "the root"},
           &values.root);
  line.Add({"fail-on-init-error", "FAIL_ON_INIT_ERROR", "fail"}, &values.fail);
  line.Add({"device-list-strategy", "DEVICE_LIST_STRATEGY", "list"}, &values.strategies);
  line.Add({"imex-channel-ids", "IMEX_CHANNEL_IDS", "ids"}, &values.channels);
  line.Add({"burst", "BURST", "burst"}, &values.burst);
  line.Add({"qps", "QPS", "qps"}, &values.qps);
  words.insert(words.begin(), "program");
  TRY_ASSIGN(const bool run, line.Parse(static_cast<int>(words.size()), words.data(),
                                        [&](const std::string& name) -> std::optional<std::string> {
                                          const auto found = env.find(name);
                                          if (found == env.end()) return std::nullopt;
                                          return found->second;
                                        }));
  EXPECT_TRUE(run);
  return values;
}

TEST(CommandLine, NothingGivenLeavesEverythingUnset) {
  const auto values = Parse({});
  ASSERT_TRUE(values.has_value());
  EXPECT_FALSE(values->root || values->fail || values->strategies || values->channels);
}

TEST(CommandLine, AcceptsEverySpellingOfGo) {
  for (const auto& words :
       std::vector<std::vector<const char*>>{{"--driver-root", "/x"},
                                             {"--driver-root=/x"},
                                             {"-driver-root", "/x"},
                                             {"-driver-root=/x"},
                                             {"-nvidia-driver-root=/x"},
                                             {"--nvidia-driver-root", "/x"},
                                             {"--driver-root=/y", "--driver-root=/x"}}) {
    SCOPED_TRACE(words.front());
    const auto values = Parse(words);
    ASSERT_TRUE(values.has_value()) << values.error().ToString();
    EXPECT_EQ(values->root, "/x");
  }
}

TEST(CommandLine, AValueMayEndWithAnEqualsSign) {
  EXPECT_EQ(Parse({"--driver-root=key="})->root, "key=");
  EXPECT_EQ(Parse({"-driver-root=a=b=="})->root, "a=b==");
  EXPECT_EQ(Parse({"--driver-root="})->root, "");
}

TEST(CommandLine, CommandLineBeatsEnvironment) {
  RecordProperty("holds", "device-plugin.md #14");
  EXPECT_EQ(Parse({"--driver-root=/a"}, {{"NVIDIA_DRIVER_ROOT", "/b"}})->root, "/a");
  EXPECT_EQ(Parse({}, {{"NVIDIA_DRIVER_ROOT", "/b"}})->root, "/b");
}

TEST(CommandLine, TheFirstVariableThatIsPresentWinsEvenWhenEmpty) {  // device-plugin.md section 3.1
  EXPECT_EQ(Parse({}, {{"NVIDIA_DRIVER_ROOT", ""}, {"OLD_ROOT", "/b"}})->root, "");
  EXPECT_EQ(Parse({}, {{"OLD_ROOT", "/b"}})->root, "/b");
  EXPECT_EQ(Parse({"--driver-root="})->root, "");
}

TEST(CommandLine, BooleansFollowGo) {
  RecordProperty("holds", "device-plugin.md #15");
  EXPECT_EQ(Parse({"--fail-on-init-error"})->fail, true);
  EXPECT_EQ(Parse({"-fail-on-init-error"})->fail, true);
  EXPECT_EQ(Parse({"--fail-on-init-error=false"})->fail, false);
  EXPECT_EQ(Parse({"-fail-on-init-error=F"})->fail, false);
  EXPECT_EQ(Parse({}, {{"FAIL_ON_INIT_ERROR", ""}})->fail, false);
  EXPECT_EQ(Parse({}, {{"FAIL_ON_INIT_ERROR", "T"}})->fail, true);
  const auto wrong = Parse({}, {{"FAIL_ON_INIT_ERROR", "yes"}});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr("FAIL_ON_INIT_ERROR"));
}

TEST(CommandLine, ListsAreSplitTrimmedAndRepeatable) {  // device-plugin.md section 3.1
  EXPECT_THAT(*Parse({}, {{"DEVICE_LIST_STRATEGY", "cdi-annotations, cdi-cri"}})->strategies,
              ElementsAre("cdi-annotations", "cdi-cri"));
  EXPECT_THAT(*Parse({"--device-list-strategy", "a,b", "--device-list-strategy=c"},
                     {{"DEVICE_LIST_STRATEGY", "z"}})
                   ->strategies,
              ElementsAre("a", "b", "c"));
  EXPECT_THAT(*Parse({}, {{"DEVICE_LIST_STRATEGY", ""}})->strategies, ElementsAre(""));
}

TEST(CommandLine, NumbersTakeEveryBaseAndEmptyMeansUnset) {
  RecordProperty("holds", "device-plugin.md #15");
  EXPECT_THAT(*Parse({}, {{"IMEX_CHANNEL_IDS", "0,0x1"}})->channels, ElementsAre(0, 1));
  EXPECT_EQ(Parse({}, {{"IMEX_CHANNEL_IDS", ""}})->channels, std::nullopt);
  EXPECT_EQ(Parse({"--burst=10"})->burst, 10);
  EXPECT_EQ(Parse({}, {{"QPS", "5.5"}})->qps, 5.5);
  EXPECT_FALSE(Parse({"--burst=many"}).has_value());
}

TEST(CommandLine, AnUnknownFlagIsAnErrorThatNamesIt) {
  const auto values = Parse({"--no-such-flag"});
  ASSERT_FALSE(values.has_value());
  EXPECT_EQ(values.error().reason, "BadUsage");
  EXPECT_THAT(values.error().message, HasSubstr("no-such-flag"));
}

TEST(CommandLine, LettersTakeAValueAfterEquals) {
  CommandLine line("t", "", "t 1");
  std::optional<bool> wait;
  std::optional<std::string> component;
  line.Add({"with-wait,w", "", ""}, &wait);
  line.Add({"component,c", "", ""}, &component);
  const char* argv[] = {"t", "-w=false", "-c=driver"};
  ASSERT_TRUE(line.Parse(3, argv));
  EXPECT_EQ(wait, false);
  EXPECT_EQ(component, "driver");
}

TEST(CommandLine, WordsStandBetweenFlags) {
  CommandLine line("t", "", "t 1");
  std::vector<std::string> words;
  std::optional<std::string> timeout;
  line.AddWords("FILE", "files", &words);
  line.Add({"timeout", "", ""}, &timeout);
  const char* argv[] = {"t", "/a", "--timeout", "5s", "/b"};
  ASSERT_TRUE(line.Parse(5, argv));
  EXPECT_EQ(words, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(timeout, "5s");
}

TEST(CommandLine, VerbosityTakesTheLetterFromVersion) {
  for (const auto& given : {std::vector<const char*>{"t", "-v=4"}, {"t", "-v", "4"}}) {
    CommandLine line("t", "", "t 1");
    std::optional<std::int64_t> verbosity;
    line.Add({"v", "", ""}, &verbosity);
    ASSERT_TRUE(line.Parse(static_cast<int>(given.size()), given.data()));
    EXPECT_EQ(verbosity, 4);
  }
}

}  // namespace
}  // namespace pitcrew::base
