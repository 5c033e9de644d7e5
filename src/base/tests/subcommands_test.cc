// mig-manager.md section 2, vgpu-device-manager.md section 2: flags as urfave/cli reads them.
#include "base/subcommands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace pitcrew::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Subcommands Tool() {
  return {"tool",
          "Does things.",
          "tool 1.2.3",
          {"debug,d", "TOOL_DEBUG", "says more"},
          {{.name = "apply",
            .help = "makes it so",
            .texts = {{.flag = {"file,f", "TOOL_FILE", "the file"}, .is_required = true},
                      {.flag = {"format", "TOOL_FORMAT", "the format"},
                       .fallback = "yaml",
                       .choices = {"yaml", "json"}}},
            .switches = {{"force", "TOOL_FORCE", "whatever stands in the way"}}},
           {.name = "show", .help = "tells what is"}}};
}

struct Outcome {
  Result<std::optional<SubcommandCall>> call;
  std::string output;
};

Outcome Read(std::vector<const char*> words, std::map<std::string, std::string> variables = {}) {
  words.insert(words.begin(), "tool");
  ::testing::internal::CaptureStdout();
  auto call = Tool().Read(static_cast<int>(words.size()), words.data(),
                          [&](const std::string& name) -> std::optional<std::string> {
                            const auto found = variables.find(name);
                            if (found == variables.end()) return std::nullopt;
                            return found->second;
                          });
  return {std::move(call), ::testing::internal::GetCapturedStdout()};
}

// Of a call that must be there.
SubcommandCall Call(std::vector<const char*> words,
                    std::map<std::string, std::string> variables = {}) {
  const auto [call, output] = Read(std::move(words), std::move(variables));
  EXPECT_TRUE(call && *call) << (call ? output : call.error().message);
  return call && *call ? **call : SubcommandCall();
}

TEST(Subcommands, FlagsStandOnBothSides) {
  const auto call = Call({"--debug", "apply", "-f", "x", "--force"});
  EXPECT_TRUE(call.debug);
  EXPECT_EQ(call.subcommand, "apply");
  EXPECT_EQ(call.Text("file"), "x");
  EXPECT_EQ(call.Text("format"), "yaml") << "its default";
  EXPECT_TRUE(call.Switch("force"));
  EXPECT_EQ(call.variables,
            (std::map<std::string, std::string>{
                {"TOOL_FILE", "x"}, {"TOOL_FORMAT", "yaml"}, {"TOOL_FORCE", "true"}}));
  const auto show = Call({"show"});
  EXPECT_FALSE(show.debug);
  EXPECT_EQ(show.Text("file"), "") << "it has no such flag";
  EXPECT_FALSE(show.Switch("force"));
}

TEST(Subcommands, VariablesStandForFlags) {
  const auto call = Call({"apply"}, {{"TOOL_DEBUG", "true"},
                                     {"TOOL_FILE", "y"},
                                     {"TOOL_FORMAT", "json"},
                                     {"TOOL_FORCE", "false"}});
  EXPECT_TRUE(call.debug);
  EXPECT_EQ(call.Text("file"), "y");
  EXPECT_EQ(call.Text("format"), "json");
  EXPECT_FALSE(call.Switch("force"));
  EXPECT_EQ(call.variables.at("TOOL_FORCE"), "false");
}

TEST(Subcommands, HelpListsThemAndEnds) {
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{}, {"help"}, {"h"}, {"--help"}, {"-h"}}) {
    const auto [call, output] = Read(words);
    ASSERT_TRUE(call);
    EXPECT_FALSE(*call);
    EXPECT_THAT(output, AllOf(HasSubstr("Does things."), HasSubstr("apply"), HasSubstr("show"),
                              HasSubstr("tells what is"), HasSubstr("--debug")));
  }
  const auto [call, output] = Read({"apply", "--help"});
  ASSERT_TRUE(call);
  EXPECT_FALSE(*call);
  EXPECT_THAT(output, AllOf(HasSubstr("makes it so"), HasSubstr("--file"), HasSubstr("--force")));
  EXPECT_THAT(Read({"--version"}).output, StartsWith("tool 1.2.3"));
}

TEST(Subcommands, WhatIsMissingOrWrongIsNamed) {
  EXPECT_THAT(Read({"--debug"}).call.error().message, HasSubstr("no command is named"));
  const auto unknown = Read({"aply"}).call;
  EXPECT_EQ(unknown.error().reason, "NoSuchCommand");
  EXPECT_THAT(unknown.error().message, HasSubstr("aply"));
  EXPECT_EQ(Read({"--debgu", "apply"}).call.error().reason, "BadUsage");
  EXPECT_EQ(Read({"apply", "--fiel", "x"}).call.error().reason, "BadUsage");
  // Upstream's words, behind the subcommand's help.
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"apply"}, {"apply", "--file="}}) {
    const auto [missing, output] = Read(words);
    EXPECT_EQ(missing.error().reason, "BadUsage");
    EXPECT_EQ(missing.error().message, "missing required flags 'file'");
    EXPECT_THAT(output, HasSubstr("makes it so"));
  }
  const auto [odd, output] = Read({"apply", "-f", "x", "--format", "xml"});
  EXPECT_EQ(odd.error().message, "unrecognized 'format': xml; it is yaml or json");
  EXPECT_THAT(output, HasSubstr("makes it so"));
}

}  // namespace
}  // namespace pitcrew::base
