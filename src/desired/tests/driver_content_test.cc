// What follows from a change of a driver's ConfigMaps and Secrets.
#include "desired/operands/driver_content.h"

#include <gtest/gtest.h>

#include "api/labels.h"
#include "codec/json.h"
#include "desired/pod.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

DriverContent Seen(std::map<std::string, std::string> objects, std::string change = "") {
  return {.objects = std::move(objects), .change = std::move(change)};
}

TEST(NextContent, TheFirstSightIsNoChange) {
  EXPECT_EQ(NextContent(std::nullopt, {{"ConfigMap a", "1"}}), Seen({{"ConfigMap a", "1"}}));
}

TEST(NextContent, OtherDataIsAChangeAndStaysOne) {
  const auto changed = NextContent(Seen({{"ConfigMap a", "1"}}), {{"ConfigMap a", "2"}});
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->objects.at("ConfigMap a"), "2");
  EXPECT_NE(changed->change, "");
  EXPECT_EQ(NextContent(changed, {{"ConfigMap a", "2"}}), changed);
}

TEST(NextContent, BackToWhatItWasIsAnotherChange) {
  const auto changed = NextContent(Seen({{"ConfigMap a", "1"}}), {{"ConfigMap a", "2"}});
  const auto back = NextContent(changed, {{"ConfigMap a", "1"}});
  ASSERT_TRUE(changed && back);
  EXPECT_NE(back->change, changed->change);
  EXPECT_NE(back->change, "");
  // And so is every further one, also to data that was there once.
  EXPECT_NE(NextContent(back, {{"ConfigMap a", "2"}})->change, changed->change);
}

TEST(NextContent, WhatIsNotKnownHasNotChanged) {
  EXPECT_EQ(NextContent(std::nullopt, {{"ConfigMap a", ""}}), std::nullopt);
  const auto standing = Seen({{"ConfigMap a", "1"}, {"Secret b", "2"}}, "3");
  EXPECT_EQ(NextContent(standing, {{"ConfigMap a", ""}, {"Secret b", ""}}), standing);
  const auto changed = NextContent(standing, {{"ConfigMap a", ""}, {"Secret b", "4"}});
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->objects,
            (std::map<std::string, std::string>{{"ConfigMap a", "1"}, {"Secret b", "4"}}));
  EXPECT_NE(changed->change, "3");
}

TEST(NextContent, OtherObjectsAreABeginning) {
  EXPECT_EQ(NextContent(Seen({{"ConfigMap a", "1"}}, "7"), {{"ConfigMap b", "2"}}),
            Seen({{"ConfigMap b", "2"}}));
  EXPECT_EQ(NextContent(Seen({{"ConfigMap a", "1"}}, "7"), {}), std::nullopt);
}

// A policy's driver in a cluster whose ConfigMaps and Secrets have these digests; it remembers the
// DaemonSet.
class RememberedDriver {
 public:
  Json Render(const std::string& parameters, const std::string& repositories,
              const std::string& licence) {
    Json cluster = {
        {"configMaps", {{"parameters", {"nvidia.conf"}}, {"repositories", {"cuda.list"}}}},
        {"secrets", {"licence"}},
        {"digests",
         {{"parameters", parameters}, {"repositories", repositories}, {"licence", licence}}}};
    if (!content_.empty()) cluster["driverContents"] = {{"nvidia-driver-daemonset", content_}};
    Json daemonset = testing::RenderDaemonSet("state-driver", R"(
driver:
  kernelModuleConfig: {name: parameters}
  repoConfig: {configMapName: repositories}
  licensingConfig: {secretName: licence}
)",
                                              codec::ToJsonText(cluster));
    content_ = codec::FindString(daemonset, {"metadata", "annotations", api::kDriverContent});
    return daemonset;
  }

 private:
  std::string content_;
};

// All that a change of would replace pods.
Json TemplateOf(const Json& daemonset) { return daemonset["spec"]["template"]; }

std::string DigestIn(const Json& daemonset) {
  return FindEnv(testing::ContainerOf(daemonset, "nvidia-driver-ctr"), "DRIVER_CONFIG_DIGEST")
      .value_or("");
}

TEST(DriverContent, ADaemonSetThatStandsWithoutItStaysAsItIs) {
  RememberedDriver known;
  RememberedDriver unknown;
  EXPECT_EQ(TemplateOf(known.Render("1", "1", "1")), TemplateOf(unknown.Render("", "", "")));
}

TEST(DriverContent, ParametersOfModulesUpgradeTheDriver) {
  RememberedDriver driver;
  const Json before = driver.Render("1", "1", "1");
  const Json after = driver.Render("2", "1", "1");
  EXPECT_NE(DigestIn(after), DigestIn(before));
  EXPECT_EQ(TemplateOf(driver.Render("2", "1", "1")), TemplateOf(after));
}

TEST(DriverContent, ALicenceRestartsThePodAlone) {
  RememberedDriver driver;
  const Json before = driver.Render("1", "1", "1");
  const Json after = driver.Render("1", "1", "2");
  EXPECT_EQ(DigestIn(after), DigestIn(before));
  EXPECT_NE(TemplateOf(after), TemplateOf(before));
  EXPECT_EQ(TemplateOf(driver.Render("1", "1", "2")), TemplateOf(after));
}

TEST(DriverContent, RepositoriesRestartNothing) {
  RememberedDriver driver;
  const Json before = driver.Render("1", "1", "1");
  EXPECT_EQ(TemplateOf(driver.Render("1", "2", "1")), TemplateOf(before));
}

TEST(DriverContent, WhatCannotBeReadRestartsNothing) {
  RememberedDriver driver;
  driver.Render("1", "1", "1");
  const Json changed = driver.Render("2", "1", "2");
  EXPECT_EQ(TemplateOf(driver.Render("", "1", "")), TemplateOf(changed));
}

}  // namespace
}  // namespace pitcrew::desired
