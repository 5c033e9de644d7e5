// What images require of driver and GPUs.
#include "shim/requirements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::shim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

oci::Spec ImageWithEnv(const std::vector<std::string>& env) {
  auto spec = oci::Spec::Parse(codec::ToJsonText({{"process", {{"env", env}}}}));
  EXPECT_TRUE(spec);
  return *std::move(spec);
}

std::vector<std::string> Requirements(const std::vector<std::string>& env, bool disabled = false) {
  const auto found = FindRequirements(ImageWithEnv(env), disabled);
  return found ? *found : std::vector<std::string>{found.error().reason};
}

TEST(MajorMinorTest, IsTheBeginningOfAVersion) {
  RecordProperty("holds", "container-toolkit.md #117");
  EXPECT_EQ(*MajorMinor("9.0.116"), "9.0");
  EXPECT_EQ(*MajorMinor("v11.6"), "11.6");
  EXPECT_EQ(*MajorMinor("8"), "8.0");
  for (const char* wrong : {"9.0.116.50", "7.foo", "-9", "9.", ""}) {
    EXPECT_FALSE(MajorMinor(wrong).has_value()) << wrong;
  }
}

TEST(FindRequirementsTest, AreThoseOfTheImageWithoutJetpacks) {
  RecordProperty("holds", "container-toolkit.md #118");
  EXPECT_THAT(Requirements({"NVIDIA_REQUIRE_CUDA=cuda>=12.4", "NVIDIA_REQUIRE_ARCH=arch>=8.0",
                            "NVIDIA_REQUIRE_JETPACK=csv-mounts=all",
                            "NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS=base", "REQUIRE_X=1"}),
              UnorderedElementsAre("cuda>=12.4", "arch>=8.0"));
  EXPECT_THAT(Requirements({"CUDA_VERSION=11.6.2"}), ElementsAre("cuda>=11.6"));
  EXPECT_THAT(Requirements({"CUDA_VERSION=11.6.2", "NVIDIA_REQUIRE_CUDA=cuda>=11.0"}),
              ElementsAre("cuda>=11.0"));
  EXPECT_THAT(Requirements({"CUDA_VERSION=next"}), ElementsAre("InvalidCudaVersion"));
  const std::string cuda = "NVIDIA_REQUIRE_CUDA=cuda>=99";
  EXPECT_THAT(Requirements({cuda, "NVIDIA_DISABLE_REQUIRE=true"}), IsEmpty());
  EXPECT_THAT(Requirements({cuda, "NVIDIA_DISABLE_REQUIRE=1"}), IsEmpty());
  EXPECT_THAT(Requirements({cuda, "NVIDIA_DISABLE_REQUIRE=perhaps"}), ElementsAre("cuda>=99"));
  EXPECT_THAT(Requirements({cuda}, true), IsEmpty());
}

TEST(IsMetTest, KnowsSixRelationsOfVersions) {
  RecordProperty("holds", "container-toolkit.md #144");
  const Properties node = {{"cuda", "12.4"}, {"driver", "550.54.15"}, {"brand", "tesla"}};
  const auto met = [&](const std::string& text) { return *IsMet(text, node); };
  EXPECT_TRUE(met("cuda=12.4") && met("cuda=12.4.0") && !met("cuda=12"));
  EXPECT_TRUE(met("cuda!=12.3") && !met("cuda!=12.4"));
  EXPECT_TRUE(met("cuda<12.10") && !met("cuda<12.4"));
  EXPECT_TRUE(met("cuda<=12.4") && !met("cuda<=12.3"));
  EXPECT_TRUE(met("driver>550") && !met("driver>550.54.15"));
  EXPECT_TRUE(met("driver>=550.54.15") && !met("driver>=550.54.16"));
  EXPECT_TRUE(met("brand=tesla") && !met("brand=geforce") && met("brand!=geforce"));
}

TEST(IsMetTest, BlanksPartAlternativesAndCommasConditions) {
  RecordProperty("holds", "container-toolkit.md #144");
  const std::string requirement = "cuda<13.6 cuda>=11.6,arch=5.3";
  EXPECT_TRUE(*IsMet(requirement, {{"cuda", "13.5"}, {"arch", "9.0"}}));
  EXPECT_TRUE(*IsMet(requirement, {{"cuda", "14.0"}, {"arch", "5.3"}}));
  EXPECT_FALSE(*IsMet(requirement, {{"cuda", "14.0"}, {"arch", "9.0"}}));
  EXPECT_TRUE(*IsMet("", {}));
}

TEST(IsMetTest, WhatIsNotKnownIsMetAndWhatIsNoConditionIsAnError) {
  RecordProperty("holds", "container-toolkit.md #144");
  EXPECT_TRUE(*IsMet("cuda>=99", {}));
  EXPECT_TRUE(*IsMet("colour=blue,cuda>=9", {{"cuda", "12.4"}}));
  EXPECT_FALSE(*IsMet("colour=blue,cuda>=99", {{"cuda", "12.4"}}));
  for (const char* wrong : {"cuda", "cuda=>9", "cuda>=", "cuda>=next", "driver<5.x", ">=9 cuda"}) {
    const auto met = IsMet(wrong, {});
    ASSERT_FALSE(met.has_value()) << wrong;
    EXPECT_EQ(met.error().reason, "InvalidRequirement");
  }
}

}  // namespace
}  // namespace pitcrew::shim
