// How each distribution's kernel headers are had (driver-lifecycle.md 9.3).
#include "node/driver_container/packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

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
  std::vector<Words> attempts;
  for (const auto& step : steps) {
    if (step.purpose != purpose) continue;
    for (const auto& attempt : step.attempts) attempts.push_back(attempt.words);
  }
  return attempts;
}

std::vector<std::string> ReleasesFor(const std::vector<PackageStep>& steps) {
  std::vector<std::string> releases;
  for (const auto& attempt : steps.front().attempts) releases.push_back(attempt.release);
  return releases;
}

TEST(HeaderSteps, OfUbuntuAndDebianAreNamedAfterTheKernel) {
  const auto steps = HeaderSteps({}, On(PackageTool::kApt, "ubuntu", "6.8.0-44-generic"));
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].attempts.front().words, (Words{"apt-get", "-qq", "update"}));
  EXPECT_TRUE(steps[0].may_fail) << "the headers may be in another repository than the one away";
  EXPECT_EQ(steps[1].attempts.front().words.back(), "linux-headers-6.8.0-44-generic");
  EXPECT_FALSE(steps[1].may_fail);
  Options options;
  options.refresh_packages = false;
  EXPECT_EQ(HeaderSteps(options, On(PackageTool::kApt, "debian", "6.1.0-56-amd64")).size(), 1U);
}

TEST(HeaderQuestions, ChangeNothingButTheirScratch) {
  const auto apt = HeaderQuestions({}, On(PackageTool::kApt, "debian", "6.1.0-56-amd64"), "/tmp/x");
  ASSERT_EQ(apt.size(), 2U);
  EXPECT_EQ(apt[0].attempts.front().words,
            (Words{"apt-get", "-qq", "-o", "Dir::Cache=/tmp/x/cache", "-o",
                   "APT::Sandbox::User=root", "-o", "Dir::State::Lists=/tmp/x/lists", "update"}));
  const auto& words = apt[1].attempts.front().words;
  EXPECT_EQ(std::ranges::count(words, "--simulate"), 1);
  EXPECT_EQ(words.back(), "linux-headers-6.1.0-56-amd64");
  const auto dnf =
      HeaderQuestions({}, On(PackageTool::kDnf, "rocky", "5.14.0-427.el9_4.aarch64+64k"), "/tmp/x");
  ASSERT_EQ(dnf.size(), 2U);
  EXPECT_THAT(ReleasesFor(dnf), ElementsAre("9.4", "9"));
  EXPECT_EQ(std::ranges::count(dnf[1].attempts.front().words, "--setopt=*.skip_if_unavailable=0"),
            1)
      << "repositories that are away must not pass for such that have nothing";
  EXPECT_EQ(dnf[0].attempts.front().words,
            (Words{"dnf", "-y", "--setopt=skip_if_unavailable=1", "--releasever=9.4",
                   "--setopt=cachedir=/tmp/x/cache", "--setopt=persistdir=/tmp/x/state",
                   "--setopt=logdir=/tmp/x/log", "-q", "repoquery", "--available", "--qf",
                   "%{name}-%{version}-%{release}.%{arch}",
                   "kernel-64k-devel-5.14.0-427.el9_4.aarch64"}));
  EXPECT_THAT(HeaderQuestions({}, On(PackageTool::kNone, "", "1"), "/tmp/x"), IsEmpty());
}

TEST(HeaderQuestions, AToolThatFailsForAnotherReasonSaysNothingOfThePackage) {
  EXPECT_TRUE(SaysMissing("E: Unable to locate package linux-headers-1"));
  EXPECT_FALSE(SaysMissing("E: Could not open lock file - open (30: Read-only file system)"));
  EXPECT_FALSE(SaysMissing(""));
}

TEST(HeaderSteps, OfRedHatAreLookedForInTheExactReleaseFirst) {
  Options options;
  options.architecture = "x86_64";
  const auto facts = On(PackageTool::kDnf, "rhel", "5.14.0-427.37.1.el9_4.x86_64");
  const auto steps = HeaderSteps(options, facts);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].attempts.front().words,
            (Words{"dnf", "-y", "--setopt=skip_if_unavailable=1", "--releasever=9.4",
                   "--setopt=rhel-9-for-x86_64-baseos-eus-rpms.enabled=1",
                   "--setopt=rhel-9-for-x86_64-appstream-eus-rpms.enabled=1", "--refresh",
                   "install", "kernel-devel-5.14.0-427.37.1.el9_4.x86_64", "elfutils-libelf-devel",
                   "kernel-headers-5.14.0-427.37.1.el9_4.x86_64"}));
  // Then without headers for programs, which no module is compiled with.
  EXPECT_THAT(ReleasesFor(steps), ElementsAre("9.4", "9", "9.4", "9"));
  EXPECT_EQ(steps[0].attempts.back().words.back(), "elfutils-libelf-devel");
  options.release_version = "9.2";
  EXPECT_THAT(ReleasesFor(HeaderSteps(options, facts)), ElementsAre("9.2", "9.2"));
  options.refresh_packages = false;
  const auto words = HeaderSteps(options, facts).front().attempts.front().words;
  EXPECT_EQ(std::ranges::count(words, "--refresh"), 0);
}

TEST(HeaderSteps, OfRockyAreInRepositoriesOfEachReleaseToo) {
  const auto steps = HeaderSteps({}, On(PackageTool::kDnf, "rocky", "5.14.0-427.el9_4.x86_64"));
  EXPECT_THAT(ReleasesFor(steps), ElementsAre("9.4", "9", "9.4", "9"));
  EXPECT_EQ(steps[0].attempts.front().words,
            (Words{"dnf", "-y", "--setopt=skip_if_unavailable=1", "--releasever=9.4", "--refresh",
                   "install", "kernel-devel-5.14.0-427.el9_4.x86_64", "elfutils-libelf-devel",
                   "kernel-headers-5.14.0-427.el9_4.x86_64"}))
      << "only Red Hat has extended support";
}

TEST(HeaderSteps, KernelsOfAFlavourHavePackagesOfTheirOwn) {
  for (const auto& [kernel, package] : std::vector<std::pair<std::string, std::string>>{
           {"5.14.0-427.el9_4.aarch64+64k", "kernel-64k-devel-5.14.0-427.el9_4.aarch64"},
           {"5.14.0-427.el9_4.x86_64+rt", "kernel-rt-devel-5.14.0-427.el9_4.x86_64"}}) {
    const auto steps = HeaderSteps({}, On(PackageTool::kDnf, "rocky", kernel));
    const auto words = steps.front().attempts.front().words;
    EXPECT_EQ(std::ranges::count(words, package), 1) << kernel;
  }
}

TEST(HeaderSteps, TheKernelsOwnModulesAreInstalledWithoutScriptsWhereTheImageHasNone) {
  auto facts = On(PackageTool::kDnf, "rocky", "5.14.0-427.el9_4.x86_64");
  EXPECT_THAT(AttemptsFor(HeaderSteps({}, facts), "install the kernel's modules"), IsEmpty());
  facts.has_kernel_modules = false;
  const auto steps = HeaderSteps({}, facts);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_TRUE(steps[1].may_fail);
  EXPECT_EQ(steps[1].attempts.front().words.back(), "kernel-modules-5.14.0-427.el9_4.x86_64");
  EXPECT_EQ(std::ranges::count(steps[1].attempts.front().words, "--setopt=tsflags=noscripts"), 1);
}

TEST(HeaderSteps, WithoutAPackageToolThereAreNone) {
  EXPECT_THAT(HeaderSteps({}, On(PackageTool::kNone, "alpine", "6.6.0")), IsEmpty());
}

TEST(KernelCompiler, IsInTheKernelsConfiguration) {
  const auto of = [](const std::string& text) {
    return KernelCompiler("CONFIG_X=y\nCONFIG_CC_VERSION_TEXT=\"" + text + "\"\nCONFIG_Y=y\n");
  };
  EXPECT_EQ(of("x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0"), "gcc-12");
  EXPECT_EQ(of("gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"), "gcc-12");
  EXPECT_EQ(of("gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)"), "");
  EXPECT_EQ(of("clang version 17.0.6"), "");
  EXPECT_EQ(of("gcc-12-patched (of a team) 12.2.0"), "");
  EXPECT_EQ(KernelCompiler("CONFIG_X=y\n"), "");
}

TEST(CompilerSteps, AreForPackagesThatAreNamedAfterTheirVersions) {
  const auto steps = CompilerSteps(On(PackageTool::kApt, "ubuntu", "6.8.0-44-generic"), "gcc-12");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].attempts.front().words.back(), "gcc-12");
  EXPECT_TRUE(steps[0].may_fail);
  EXPECT_THAT(CompilerSteps(On(PackageTool::kDnf, "rhel", "x"), "gcc-12"), IsEmpty());
  EXPECT_THAT(CompilerSteps(On(PackageTool::kApt, "ubuntu", "x"), ""), IsEmpty());
}

TEST(WithoutCredentials, OnlyTheHostAndThePathAreShown) {
  EXPECT_EQ(WithoutCredentials("http://me:p%40ss@a.example/ubuntu/ noble"),
            "http://a.example/ubuntu/ noble");
  EXPECT_EQ(WithoutCredentials("cannot fetch https://me@x@a.example:8443, nor http://b.example/@c"),
            "cannot fetch https://a.example:8443, nor http://b.example/@c");
  EXPECT_EQ(WithoutCredentials("file:/repositories: ://"), "file:/repositories: ://");
  EXPECT_THAT(RepositoryNames(PackageTool::kApt, "http://me:pass@a.example/ubuntu/ noble\n"),
              ElementsAre("http://a.example/ubuntu/ noble"));
  EXPECT_EQ(Complaint("E: Failed to fetch http://me:pass@a.example/InRelease\n"),
            "E: Failed to fetch http://a.example/InRelease");
}

TEST(RepositoryNames, AreReadFromWhatTheToolAnswers) {
  EXPECT_THAT(RepositoryNames(PackageTool::kDnf,
                              "repo id          repo name\n"
                              "appstream        Rocky Linux 9 - AppStream\n"
                              "baseos           Rocky Linux 9 - BaseOS\n"),
              ElementsAre("appstream", "baseos"));
  EXPECT_THAT(RepositoryNames(PackageTool::kDnf, ""), IsEmpty());
  EXPECT_THAT(
      RepositoryNames(PackageTool::kApt,
                      "http://a.example/ubuntu/ noble\n"
                      "http://a.example/ubuntu/ noble\n"
                      "http://a.example/ubuntu/ noble-updates\n"),
      ElementsAre("http://a.example/ubuntu/ noble", "http://a.example/ubuntu/ noble-updates"));
}

TEST(Complaint, IsOneLineOfWhatTheToolSaidLast) {
  EXPECT_EQ(Complaint("Failed to set locale, defaulting to C\n"
                      "Errors during downloading metadata for repository 'baseos':\n"
                      "  - Curl error (6): Couldn't resolve host name\n"
                      "  - Curl error (6): Couldn't resolve host name\n"
                      "Error: \n Problem: conflicting requests\n"),
            "- Curl error (6): Couldn't resolve host name; Error: Problem: conflicting requests");
  EXPECT_EQ(Complaint("1\n2\n3\n4\n5\n6\n7\n"), "2; 3; 4; 5; 6; 7");
  EXPECT_EQ(Complaint("\n"), "");
}

TEST(ModulePackages, AreWantedWhereTheImageHasNoModulesOfTheKernel) {
  Facts facts = On(PackageTool::kApt, "ubuntu", "6.8.0-44-generic");
  EXPECT_THAT(ModulePackages(facts), IsEmpty());
  facts.has_kernel_modules = false;
  EXPECT_THAT(ModulePackages(facts),
              ElementsAre("linux-image-6.8.0-44-generic", "linux-modules-6.8.0-44-generic"));
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
