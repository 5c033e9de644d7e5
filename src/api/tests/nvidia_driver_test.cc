// clusterpolicy-api.md section 3.
#include "api/nvidia_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/definition.h"
#include "api/schema.h"
#include "codec/yaml.h"

namespace pitcrew::api {
namespace {

using codec::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

NvidiaDriver DriverWith(const std::string& spec) {
  const auto object = codec::ParseYaml(
      "{apiVersion: nvidia.com/v1alpha1, kind: NVIDIADriver, metadata: {name: a, uid: u, "
      "generation: 3}, spec: " +
      spec + "}");
  EXPECT_TRUE(object) << object.error().ToString();
  const auto driver = ReadNvidiaDriver(*object);
  EXPECT_TRUE(driver) << driver.error().ToString();
  return *driver;
}

std::vector<std::string> DriverProblems(const std::string& spec) {
  std::vector<std::string> problems;
  for (const FieldProblem& problem : DriverWith(spec).problems) {
    problems.push_back(problem.path + ": " + problem.message);
  }
  return problems;
}

// clusterpolicy-api.md #17, #20.
TEST(NvidiaDriver, WhatIsLeftOutHasItsDefault) {
  RecordProperty("holds", "clusterpolicy-api.md #17, #20");
  const NvidiaDriver driver = DriverWith("{}");
  EXPECT_EQ(driver.name, "a");
  EXPECT_EQ(driver.uid, "u");
  EXPECT_EQ(driver.generation, 3);
  EXPECT_FALSE(driver.is_default);
  EXPECT_EQ(driver.type, "gpu");
  EXPECT_EQ(driver.driver.image.image, "nvcr.io/nvidia/driver");
  EXPECT_EQ(driver.driver.kernel_module_type, "auto");
  EXPECT_TRUE(driver.driver.upgrade_policy.auto_upgrade);
  EXPECT_TRUE(DriverWith("{upgradePolicy: {}}").driver.upgrade_policy.auto_upgrade);
  EXPECT_FALSE(
      DriverWith("{upgradePolicy: {autoUpgrade: false}}").driver.upgrade_policy.auto_upgrade);
  EXPECT_TRUE(driver.driver.licensing.nls_enabled);
  EXPECT_FALSE(driver.node_selector.has_value());
  EXPECT_THAT(driver.problems, IsEmpty());
}

TEST(NvidiaDriver, AnEmptySelectorIsNotNone) {
  const NvidiaDriver driver = DriverWith("{nodeSelector: {}}");
  ASSERT_TRUE(driver.node_selector.has_value());
  EXPECT_THAT(*driver.node_selector, IsEmpty());
  EXPECT_THAT(*DriverWith("{nodeSelector: {pool: a}}").node_selector,
              ElementsAre(Pair("pool", "a")));
}

// operand-manifests.md #45: labels by which the pods are selected are not for the object to change.
TEST(NvidiaDriver, LabelsOfTheOperatorAreDropped) {
  RecordProperty("holds", "operand-manifests.md #45");
  EXPECT_THAT(DriverWith("{labels: {app: x, app.kubernetes.io/component: y, team: z}}").pods.labels,
              ElementsAre(Pair("team", "z")));
}

TEST(NvidiaDriver, MembersHaveTheNamesOfThisKind) {
  const NvidiaDriver driver = DriverWith(
      "{repoConfig: {name: repositories}, certConfig: {name: certificates}, licensingConfig: "
      "{name: licence, nlsEnabled: false}, virtualTopologyConfig: {name: topology}, "
      "kernelModuleConfig: {name: parameters}, gds: {enabled: true, version: v2.20.5}}");
  EXPECT_EQ(driver.driver.repo_config, "repositories");
  EXPECT_EQ(driver.driver.cert_config, "certificates");
  EXPECT_EQ(driver.driver.licensing.config_map_name, "licence");
  EXPECT_FALSE(driver.driver.licensing.nls_enabled);
  EXPECT_EQ(driver.driver.virtual_topology_config, "topology");
  EXPECT_EQ(driver.driver.kernel_module_config, "parameters");
  EXPECT_EQ(driver.gds.image.version, "v2.20.5");
  EXPECT_EQ(driver.gds.path, "spec.gds");
}

TEST(NvidiaDriver, AWrongValueIsNamedByItsPath) {
  EXPECT_THAT(DriverProblems("{driverType: host, usePrecompiled: 1, nodeSelector: {pool: 3}, "
                             "upgradePolicy: {maxParallelUpgrades: -1}}"),
              ElementsAre("spec.driverType: is \"host\", must be one of \"gpu\", \"vgpu\", "
                          "\"vgpu-host-manager\"",
                          "spec.nodeSelector.pool: must be a string",
                          "spec.usePrecompiled: must be true or false",
                          "spec.upgradePolicy.maxParallelUpgrades: must not be negative"));
}

TEST(NvidiaDriver, OnlyThisKindIsRead) {
  const auto read = ReadNvidiaDriver({{"apiVersion", "nvidia.com/v1"}, {"kind", "ClusterPolicy"}});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().reason, "NotANvidiaDriver");
}

// clusterpolicy-api.md section 1: what the definition is called, and section 3.1: its rules.
TEST(NvidiaDriver, TheDefinitionIsEmbedded) {
  for (const EmbeddedDefinition& definition : EmbeddedDefinitions()) {
    if (definition.file != "nvidia.com_nvidiadrivers.yaml") continue;
    const auto parsed = codec::ParseYaml(definition.text, definition.file);
    ASSERT_TRUE(parsed) << parsed.error().ToString();
    EXPECT_EQ((*parsed)["metadata"]["name"], "nvidiadrivers.nvidia.com");
    EXPECT_EQ((*parsed)["spec"]["names"]["shortNames"], (Json{"nvd", "nvdriver", "nvdrivers"}));
    const Json& spec =
        (*parsed)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    EXPECT_EQ(spec["required"], (Json{"default", "driverType", "image"}));
    EXPECT_EQ(spec["properties"]["driverType"]["x-kubernetes-validations"][0]["rule"],
              "self == oldSelf");
    return;
  }
  FAIL() << "nvidia.com_nvidiadrivers.yaml is not embedded";
}

}  // namespace
}  // namespace pitcrew::api
