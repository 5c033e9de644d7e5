// Pieces of the texts, and the command lines.
#include "doctor/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/changes.h"
#include "doctor/options.h"
#include "doctor/table.h"

namespace pitcrew::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

base::Result<std::optional<Options>> Read(Command command, std::vector<const char*> words) {
  words.insert(words.begin(), "pitcrew");
  return ReadOptions(command, static_cast<int>(words.size()), words.data());
}

std::string Mistake(Command command, std::vector<const char*> words) {
  const auto options = Read(command, std::move(words));
  return options ? "none" : options.error().message;
}

TEST(OptionsTest, AreThoseOfKubectlWhereItHasThem) {
  const auto options =
      Read(Command::kDoctor, {"-n", "gpus", "--context", "prod", "gpu-a", "-o", "yaml", "team/x"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ((*options)->name_space, "gpus");
  EXPECT_EQ((*options)->connection.context, "prod");
  EXPECT_EQ((*options)->format, Format::kYaml);
  EXPECT_THAT((*options)->wanted, ElementsAre("gpu-a", "team/x"));
}

TEST(OptionsTest, WhatCannotBeIsSaid) {
  EXPECT_THAT(Mistake(Command::kStatus, {"-o", "xml"}), HasSubstr("table, wide, json, yaml"));
  EXPECT_THAT(Mistake(Command::kDoctor, {"-o", "wide"}), HasSubstr("table, json, yaml"));
  EXPECT_THAT(Mistake(Command::kStatus, {"--watch", "--cluster", "x"}), HasSubstr("live cluster"));
  EXPECT_THAT(Mistake(Command::kStatus, {"--watch", "-o", "json"}), HasSubstr("tables only"));
  EXPECT_NE(Mistake(Command::kStatus, {"gpu-a"}), "none");
}

TEST(OptionsTest, HelpNamesTheFormatsOfTheCommand) {
  const auto help = [](Command command) {
    ::testing::internal::CaptureStdout();
    const auto options = Read(command, {"--help"});
    EXPECT_TRUE(options && !*options);
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(help(Command::kStatus), HasSubstr("table, wide, json or yaml"));
  EXPECT_THAT(help(Command::kDoctor), HasSubstr("table, json or yaml"));
}

TEST(TableTest, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({"NODE", "REASON"});
  table.Add({"gpu-eins", "gut"});
  table.Add({"gpu-zwölf", "nicht"});
  EXPECT_EQ(table.Text(false, 0), "NODE       REASON\ngpu-eins   gut\ngpu-zwölf  nicht\n");
}

TEST(TableTest, OnlyTheLastColumnIsCutToTheTerminal) {
  Table table({"NODE", "REASON"});
  table.Add({"gpu-a", "the pod of the driver is starting"});
  EXPECT_EQ(table.Text(false, 20), "NODE   REASON\ngpu-a  the pod of...\n");
}

TEST(TableTest, ColoursDoNotMoveColumns) {
  Table table({"NODE", "STAGE", "X"});
  table.Add({"a", "ready", "x"}, Colour::kGood, 1);
  EXPECT_EQ(table.Text(true, 0), "NODE  STAGE  X\na     \x1b[32mready\x1b[0m  x\n");
}

TEST(StatusTest, AColumnTellsOfQualificationsWhereThereAreSome) {
  fleet::Report report;
  report.nodes.resize(2);
  report.nodes[0].name = "gpu-a";
  report.nodes[1].name = "gpu-b";
  EXPECT_THAT(StatusText(report, {}), ::testing::Not(HasSubstr("QUALIFIED")));
  report.nodes[1].qualification = "passed";
  EXPECT_THAT(StatusText(report, {}),
              HasSubstr("NODE   WORKLOAD   STAGE  GPUS  FOR  QUALIFIED  REASON\n"
                        "gpu-a  container  ready  -     -    -\n"
                        "gpu-b  container  ready  -     -    passed\n"));
}

TEST(AgeTest, HasOneUnit) {
  const base::WallClock::time_point now{std::chrono::hours(24 * 365)};
  EXPECT_EQ(Age(std::nullopt, now), "-");
  EXPECT_EQ(Age(now - std::chrono::seconds(119), now), "119s");
  EXPECT_EQ(Age(now - std::chrono::minutes(119), now), "119m");
  EXPECT_EQ(Age(now - std::chrono::hours(47), now), "47h");
  EXPECT_EQ(Age(now - std::chrono::hours(49), now), "2d");
  // A clock that goes ahead of ours.
  EXPECT_EQ(Age(now + std::chrono::hours(1), now), "0s");
}

TEST(ChangesTest, AreWhatIsNewOtherOrGone) {
  EXPECT_THAT(Changes({{"node a", "ready"}, {"node b", "ready"}, {"node c", "ready"}},
                      {{"node a", "ready"}, {"node b", "driver: x"}, {"node d", "ready"}}),
              ElementsAre("node b: driver: x", "node d: ready", "node c: gone"));
}

}  // namespace
}  // namespace pitcrew::doctor
