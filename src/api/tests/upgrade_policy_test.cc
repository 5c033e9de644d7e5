// spec.driver.upgradePolicy and the states of an upgrade.
#include <gtest/gtest.h>

#include "api/cluster_policy.h"
#include "api/upgrade_state.h"
#include "codec/yaml.h"

namespace pitcrew::api {
namespace {

ClusterPolicy PolicyWith(const std::string& upgrade_policy) {
  const auto object = codec::ParseYaml(
      "{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {name: a}, spec: {driver: "
      "{upgradePolicy: " +
      upgrade_policy + "}}}");
  EXPECT_TRUE(object) << object.error().ToString();
  return *ReadClusterPolicy(*object);
}

std::vector<std::string> ProblemsOf(const std::string& upgrade_policy) {
  std::vector<std::string> problems;
  for (const FieldProblem& problem : PolicyWith(upgrade_policy).problems) {
    problems.push_back(problem.path + ": " + problem.message);
  }
  return problems;
}

TEST(UpgradePolicy, BlocksThatAreAbsentHaveTheirDefaults) {
  for (const char* text : {"{}", "{drain: {}, podDeletion: {}, waitForCompletion: {}}"}) {
    const UpgradePolicy policy = PolicyWith(text).driver.upgrade_policy;
    EXPECT_EQ(policy, UpgradePolicy{}) << text;
    EXPECT_EQ(policy.max_parallel_upgrades, 1);
    EXPECT_EQ(policy.max_unavailable, "25%");
    EXPECT_EQ(policy.pod_deletion.timeout_seconds, 300);
    EXPECT_EQ(policy.drain.timeout_seconds, 300);
    EXPECT_EQ(policy.wait_timeout_seconds, 0);
  }
}

TEST(UpgradePolicy, AllMembersAreRead) {
  const UpgradePolicy policy = PolicyWith(R"({autoUpgrade: true, maxParallelUpgrades: 0,
      maxUnavailable: 3, waitForCompletion: {podSelector: app=job, timeoutSeconds: 7},
      podDeletion: {force: true, deleteEmptyDir: true, timeoutSeconds: 8},
      drain: {enable: true, force: true, deleteEmptyDir: true, timeoutSeconds: 0, podSelector: a=b}})")
                                   .driver.upgrade_policy;
  EXPECT_EQ(policy, (UpgradePolicy{.auto_upgrade = true,
                                   .max_parallel_upgrades = 0,
                                   .max_unavailable = "3",
                                   .wait_pod_selector = "app=job",
                                   .wait_timeout_seconds = 7,
                                   .pod_deletion = {true, true, 8},
                                   .drain_enabled = true,
                                   .drain = {true, true, 0},
                                   .drain_pod_selector = "a=b"}));
}

TEST(UpgradePolicy, WrongNumbersAreNamed) {
  const std::string path = "spec.driver.upgradePolicy.";
  const std::string share = path + "maxUnavailable: must be a whole number or a share like \"25%\"";
  for (const char* text : {"\"3\"", "\"%\"", "\"-5%\"", "\"25 %\"", "\"a%\"", "-1", "2.5", "true",
                           "\"\"", "\"99999999999%\""}) {
    EXPECT_EQ(ProblemsOf(std::string("{maxUnavailable: ") + text + "}"),
              std::vector<std::string>{share})
        << text;
  }
  EXPECT_TRUE(ProblemsOf("{maxUnavailable: \"100%\"}").empty());
  EXPECT_TRUE(ProblemsOf("{maxUnavailable: 0}").empty());
  EXPECT_EQ(ProblemsOf("{maxParallelUpgrades: -1}"),
            std::vector<std::string>{path + "maxParallelUpgrades: must not be negative"});
  EXPECT_EQ(ProblemsOf("{drain: {timeoutSeconds: -1}}"),
            std::vector<std::string>{path + "drain.timeoutSeconds: must not be negative"});
}

TEST(UpgradeState, EveryNameIsReadAgain) {
  for (const UpgradeState state : UpgradeStates()) {
    EXPECT_FALSE(NameOf(state).empty());
    EXPECT_EQ(UpgradeStateNamed(NameOf(state)), state);
  }
  EXPECT_EQ(UpgradeStateNamed(""), UpgradeState::kNone);
  EXPECT_EQ(UpgradeStateNamed("upgrade-soon"), UpgradeState::kOther);
  EXPECT_EQ(NameOf(UpgradeState::kOther), "");
}

TEST(UpgradeState, WhatIsUnderWay) {
  for (const char* name : {"cordon-required", "wait-for-jobs-required", "pod-restart-required",
                           "uncordon-required", "node-maintenance-required"}) {
    EXPECT_TRUE(IsUnderWay(UpgradeStateNamed(name))) << name;
  }
  for (const char* name : {"", "upgrade-required", "upgrade-done", "upgrade-failed", "soon"}) {
    EXPECT_FALSE(IsUnderWay(UpgradeStateNamed(name))) << name;
  }
}

}  // namespace
}  // namespace pitcrew::api
