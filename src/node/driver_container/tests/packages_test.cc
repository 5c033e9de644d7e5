// How each distribution's kernel headers are had (driver-lifecycle.md 9.3).
#include "node/driver_container/packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::node::driver_container {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

Facts On(PackageTool tool, std::string id, std::string kernel) {
  Facts facts;
  facts.packages = tool;
  facts.system.fields = {{"ID", std::move(id)}};
  facts.kernel = std::move(kernel);
  facts.has_kernel_modules = true;
  return facts;
}

std::vector<Words> AttemptsFor(const std::vector<PackageStep>& steps, std::string_view purpose) {
  for (const auto& step : steps) {
    if (step.purpose == purpose) return step.attempts;
  }
  return {};
}

TEST(HeaderSteps, OfUbuntuAndDebianAreNamedAfterTheKernel) {
  const auto steps = HeaderSteps({}, On(PackageTool::kApt, "ubuntu", "6.8.0-44-generic"));
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_THAT(steps[0].attempts, ElementsAre(Words{"apt-get", "-qq", "update"}));
  EXPECT_EQ(steps[1].attempts.front().back(), "linux-headers-6.8.0-44-generic");
  Options options;
  options.refresh_packages = false;
  EXPECT_EQ(HeaderSteps(options, On(PackageTool::kApt, "debian", "6.1.0-56-amd64")).size(), 1U);
}

TEST(HeaderSteps, OfRedHatAreLookedForInTheExactReleaseFirst) {
  Options options;
  options.architecture = "x86_64";
  const auto steps =
      HeaderSteps(options, On(PackageTool::kDnf, "rhel", "5.14.0-427.37.1.el9_4.x86_64"));
  EXPECT_THAT(AttemptsFor(steps, "install the kernel's headers"),
              ElementsAre(Words{"dnf", "-q", "-y", "--releasever=9.4", "install",
                                "kernel-headers-5.14.0-427.37.1.el9_4.x86_64",
                                "kernel-devel-5.14.0-427.37.1.el9_4.x86_64"},
                          Words{"dnf", "-q", "-y", "--releasever=9", "install",
                                "kernel-headers-5.14.0-427.37.1.el9_4.x86_64",
                                "kernel-devel-5.14.0-427.37.1.el9_4.x86_64"}));
  EXPECT_THAT(AttemptsFor(steps, "use repositories with extended support"),
              ElementsAre(Words{"dnf", "-q", "config-manager", "--set-enabled",
                                "rhel-9-for-x86_64-baseos-eus-rpms"}));
  options.release_version = "9.2";
  EXPECT_EQ(AttemptsFor(HeaderSteps(options, On(PackageTool::kDnf, "rhel",
                                                "5.14.0-427.37.1.el9_4.x86_64")),
                        "install the kernel's headers")
                .size(),
            1U);
}

TEST(HeaderSteps, OfRockyHaveOneRelease) {
  const auto steps = HeaderSteps({}, On(PackageTool::kDnf, "rocky", "5.14.0-427.el9_4.x86_64"));
  EXPECT_THAT(AttemptsFor(steps, "install the kernel's headers"),
              ElementsAre(Words{"dnf", "-q", "-y", "install",
                                "kernel-headers-5.14.0-427.el9_4.x86_64",
                                "kernel-devel-5.14.0-427.el9_4.x86_64"}));
  EXPECT_THAT(AttemptsFor(steps, "use repositories with extended support"), IsEmpty());
}

TEST(HeaderSteps, KernelsWithLargePagesHavePackagesOfTheirOwn) {
  const auto steps =
      HeaderSteps({}, On(PackageTool::kDnf, "rocky", "5.14.0-427.el9_4.aarch64+64k"));
  EXPECT_EQ(AttemptsFor(steps, "install the kernel's headers").front().back(),
            "kernel-64k-devel-5.14.0-427.el9_4.aarch64");
}

TEST(HeaderSteps, WithoutAPackageToolThereAreNone) {
  EXPECT_THAT(HeaderSteps({}, On(PackageTool::kNone, "alpine", "6.6.0")), IsEmpty());
}

TEST(ModulePackages, AreWantedWhereTheImageHasNoModulesOfTheKernel) {
  Facts facts = On(PackageTool::kApt, "ubuntu", "6.8.0-44-generic");
  EXPECT_THAT(ModulePackages(facts), IsEmpty());
  facts.has_kernel_modules = false;
  EXPECT_THAT(ModulePackages(facts), ElementsAre("linux-image-6.8.0-44-generic",
                                                 "linux-modules-6.8.0-44-generic"));
  facts.system.fields["ID"] = "debian";
  EXPECT_THAT(ModulePackages(facts), ElementsAre("linux-image-6.8.0-44-generic"));
  facts.packages = PackageTool::kDnf;
  EXPECT_THAT(ModulePackages(facts), IsEmpty());
}

TEST(RedHatRelease, IsInTheKernelsName) {
  EXPECT_EQ(RedHatRelease("5.14.0-427.37.1.el9_4.x86_64"), "9.4");
  EXPECT_EQ(RedHatRelease("4.18.0-553.el8_10.aarch64"), "8.10");
  EXPECT_EQ(RedHatRelease("6.12.0-55.el10.x86_64"), "10");
  EXPECT_EQ(RedHatRelease("6.8.0-44-generic"), "");
}

}  // namespace
}  // namespace pitcrew::node::driver_container
