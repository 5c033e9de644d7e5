// driver.upgradePolicy.schedule, and what annotations say instead.
#include <gtest/gtest.h>

#include "api/cluster_policy.h"
#include "api/labels.h"
#include "codec/yaml.h"

namespace pitcrew::api {
namespace {

using codec::Json;

ClusterPolicy PolicyWithSchedule(const std::string& schedule,
                                 const Json& annotations = Json::object()) {
  const auto block = codec::ParseYaml(schedule);
  EXPECT_TRUE(block) << block.error().ToString();
  return *ReadClusterPolicy({{"apiVersion", "nvidia.com/v1"},
                             {"kind", "ClusterPolicy"},
                             {"metadata", {{"name", "a"}, {"annotations", annotations}}},
                             {"spec", {{"driver", {{"upgradePolicy", {{"schedule", *block}}}}}}}});
}

std::vector<std::string> ProblemsIn(const ClusterPolicy& policy) {
  std::vector<std::string> problems;
  for (const FieldProblem& problem : policy.problems) {
    problems.push_back(problem.path + ": " + problem.message);
  }
  return problems;
}

// Of the only problem; what others there are is told.
std::string ProblemOf(const std::string& schedule) {
  const auto problems = ProblemsIn(PolicyWithSchedule(schedule));
  EXPECT_EQ(problems.size(), 1U) << schedule;
  return problems.empty() ? "" : problems.front();
}

constexpr std::string_view kWhole = R"({paused: true,
    windows: [{days: [Monday, Sunday], start: "22:30", end: "04:00", timeZone: Europe/Berlin},
              {start: "00:00", end: "24:00"}],
    order: {label: topology.kubernetes.io/zone, first: [b, a]},
    canary: {nodes: 2, observeSeconds: 600, requireApproval: true, metrics: false}})";

void ExpectWhole(const UpgradeSchedule& schedule) {
  EXPECT_TRUE(schedule.paused);
  ASSERT_EQ(schedule.windows.size(), 2U);
  EXPECT_EQ(schedule.windows[0],
            (UpgradeWindow{.days = {true, true, false, false, false, false, false},
                           .start = 22 * 60 + 30,
                           .end = 240,
                           .time_zone = "Europe/Berlin"}));
  EXPECT_EQ(schedule.windows[1], UpgradeWindow());
  EXPECT_EQ(schedule.order,
            (UpgradeOrder{.label = "topology.kubernetes.io/zone", .first = {"b", "a"}}));
  EXPECT_EQ(schedule.canary, (UpgradeCanary{.nodes = 2,
                                            .observe_seconds = 600,
                                            .require_approval = true,
                                            .metrics = false,
                                            .approved = {}}));
}

TEST(UpgradeSchedule, NoneRestrictsNothing) {
  EXPECT_EQ(PolicyWithSchedule("{}").driver.upgrade_policy.schedule, UpgradeSchedule());
  EXPECT_FALSE(UpgradeSchedule().restricts());
}

TEST(UpgradeSchedule, AllMembersAreRead) {
  const ClusterPolicy policy = PolicyWithSchedule(std::string(kWhole));
  EXPECT_EQ(ProblemsIn(policy), std::vector<std::string>{});
  ExpectWhole(policy.driver.upgrade_policy.schedule);
}

TEST(UpgradeSchedule, MetricsCountUnlessSomebodySaysOtherwise) {
  EXPECT_TRUE(
      PolicyWithSchedule("{canary: {nodes: 1}}").driver.upgrade_policy.schedule.canary.metrics);
}

TEST(UpgradeSchedule, TheAnnotationGoesBeforeTheField) {
  const ClusterPolicy policy =
      PolicyWithSchedule("{canary: {nodes: 7}}", {{kUpgradeScheduleAnnotation, kWhole}});
  EXPECT_EQ(ProblemsIn(policy), std::vector<std::string>{});
  ExpectWhole(policy.driver.upgrade_policy.schedule);
}

TEST(UpgradeSchedule, ThePauseGoesBeforeBoth) {
  EXPECT_TRUE(PolicyWithSchedule("{}", {{kUpgradePausedAnnotation, "true"}})
                  .driver.upgrade_policy.schedule.paused);
  EXPECT_FALSE(PolicyWithSchedule(std::string(kWhole), {{kUpgradePausedAnnotation, "false"}})
                   .driver.upgrade_policy.schedule.paused);
  const ClusterPolicy odd = PolicyWithSchedule("{}", {{kUpgradePausedAnnotation, "yes"}});
  EXPECT_EQ(ProblemsIn(odd),
            std::vector<std::string>{"metadata.annotations[nvidia.com/gpu-driver-upgrade.paused]: "
                                     "is \"yes\", must be \"true\" or \"false\""});
}

UpgradePolicy PolicyWithImageCheck(const Json& field, const Json& annotations = Json::object()) {
  Json block = Json::object();
  if (!field.is_null()) block["imageCheck"] = field;
  return ReadClusterPolicy({{"apiVersion", "nvidia.com/v1"},
                            {"kind", "ClusterPolicy"},
                            {"metadata", {{"name", "a"}, {"annotations", annotations}}},
                            {"spec", {{"driver", {{"upgradePolicy", block}}}}}})
      ->driver.upgrade_policy;
}

TEST(UpgradePolicy, ImagesAreLookedAtUnlessTheFieldOrTheAnnotationBeforeItSaysOtherwise) {
  EXPECT_TRUE(PolicyWithImageCheck(nullptr).image_check);
  EXPECT_FALSE(PolicyWithImageCheck(false).image_check);
  EXPECT_FALSE(PolicyWithImageCheck(true, {{kUpgradeImageCheckAnnotation, "false"}}).image_check);
  EXPECT_TRUE(PolicyWithImageCheck(false, {{kUpgradeImageCheckAnnotation, "true"}}).image_check);
  const ClusterPolicy odd = PolicyWithSchedule("{}", {{kUpgradeImageCheckAnnotation, "no"}});
  EXPECT_EQ(ProblemsIn(odd), std::vector<std::string>{
                                 "metadata.annotations[nvidia.com/gpu-driver-upgrade.image-check]: "
                                 "is \"no\", must be \"true\" or \"false\""});
}

TEST(UpgradeSchedule, ApprovedVersionsAreOfAnAnnotation) {
  EXPECT_EQ(PolicyWithSchedule("{}", {{kUpgradeApprovedAnnotation, "6d4f,77c"}})
                .driver.upgrade_policy.schedule.canary.approved,
            (std::vector<std::string>{"6d4f", "77c"}));
}

TEST(UpgradeSchedule, WhatCannotBeIsNamed) {
  const std::string path = "spec.driver.upgradePolicy.schedule.";
  EXPECT_EQ(ProblemOf(R"({windows: [{start: "22:00", end: "22:00"}]})"),
            path +
                "windows[0].end: is the start of the window, in which there is no time then; a "
                "whole day is \"00:00\" to \"24:00\"");
  EXPECT_EQ(ProblemOf(R"({windows: [{start: "24:00", end: "02:00"}]})"),
            path + "windows[0].start: is the end of a day: \"00:00\" of the next one is meant");
  EXPECT_EQ(
      ProblemOf(R"({windows: [{start: "01:00", end: "02:00"}, {start: "25:00", end: "01:00"}]})"),
      path + "windows[1].start: is \"25:00\", must be a time of day like \"22:30\"");
  EXPECT_EQ(ProblemOf(R"({windows: [{start: "9:00", end: "11:00"}]})"),
            path + "windows[0].start: is \"9:00\", must be a time of day like \"22:30\"");
  EXPECT_EQ(ProblemOf(R"({windows: [{start: "09:00"}]})"),
            path + "windows[0].end: is missing: a time of day like \"22:30\"");
  EXPECT_EQ(ProblemOf(R"({windows: [{days: [Caturday], start: "09:00", end: "10:00"}]})"),
            path + "windows[0].days: has \"Caturday\", must be names of days like \"Saturday\"");
  EXPECT_EQ(ProblemOf(R"({windows: [{start: "09:00", end: "10:00", timeZone: Europe/Atlantis}]})"),
            path +
                "windows[0].timeZone: no time zone \"Europe/Atlantis\" is known; its name is one "
                "of the IANA database, like \"Europe/Berlin\" or \"UTC\"");
  EXPECT_EQ(
      ProblemOf("{order: {first: [a]}}"),
      path + "order.label: is missing: the key of a label, like \"topology.kubernetes.io/zone\"");
  EXPECT_EQ(ProblemOf("{order: {label: a b}}"),
            path + "order.label: is \"a b\", which is no key of a label");
  EXPECT_EQ(ProblemOf("{canary: {nodes: -1}}"), path + "canary.nodes: must not be negative");
  EXPECT_EQ(ProblemOf("{windows: {}}"), path + "windows: must be a list");
  EXPECT_EQ(ProblemOf("{pause: true}"), path + "pause: is not known here");
}

// The grammar of qualified names: https://kubernetes.io/docs/concepts/overview/working-with-objects
// /labels, "Syntax and character set".
TEST(UpgradeSchedule, TheOrdersLabelIsTheKeyOfOne) {
  const auto fits = [](const std::string& key) {
    return ProblemsIn(PolicyWithSchedule("{order: {label: '" + key + "'}}")).empty();
  };
  const std::string name(63, 'n');
  const std::string prefix(253, 'p');
  for (const std::string& key : {std::string("a"), std::string("A9"), std::string("a-_.b"), name,
                                 prefix + "/" + name, std::string("example.com/0")}) {
    EXPECT_TRUE(fits(key)) << key;
  }
  for (const std::string& key :
       {name + "n", prefix + "p/a", std::string("/a"), std::string("a/"), std::string("-a"),
        std::string("a-"), std::string("a/b/c"), std::string("a_b/c"), std::string("a b"),
        std::string("-p/a"), std::string("p./a")}) {
    EXPECT_FALSE(fits(key)) << key;
  }
}

TEST(UpgradeSchedule, TimesOfADay) {
  const auto window = [](const std::string& start, const std::string& end) {
    return PolicyWithSchedule("{windows: [{start: '" + start + "', end: '" + end + "'}]}")
        .driver.upgrade_policy.schedule.windows.at(0);
  };
  EXPECT_EQ(window("00:01", "23:59").start, 1);
  EXPECT_EQ(window("00:01", "23:59").end, 23 * 60 + 59);
  EXPECT_EQ(window("00:01", "24:00").end, 24 * 60);
  for (const char* end : {"24:01", "25:00", "12:60", "1200", "12-00", "12:000", "x2:00", "12:x0"}) {
    EXPECT_EQ(ProblemsIn(PolicyWithSchedule("{windows: [{start: '00:01', end: '" +
                                            std::string(end) + "'}]}"))
                  .size(),
              1U)
        << end;
  }
}

TEST(UpgradeSchedule, AnAnnotationThatIsNoYamlIsNamed) {
  const auto problems =
      ProblemsIn(PolicyWithSchedule("{}", {{kUpgradeScheduleAnnotation, "{windows: ["}}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_TRUE(problems.front().starts_with(
      "metadata.annotations[nvidia.com/gpu-driver-upgrade.schedule]: "))
      << problems.front();
}

}  // namespace
}  // namespace pitcrew::api
