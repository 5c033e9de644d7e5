// What is done to bring up a driver, and what is refused before anything is touched.
#include "node/driver_container/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::node::driver_container {
namespace {

using ::testing::HasSubstr;
using Text = base::Observed<std::string>;

Options Wanted() {
  Options options;
  options.version = "580.95.05";
  options.architecture = "x86_64";
  return options;
}

// An image with a run file and a compiler, and nothing compiled yet.
Facts FreshImage() {
  Facts facts;
  facts.kernel = "6.1.0-56-amd64";
  facts.packages = PackageTool::kApt;
  facts.run_file = base::Observed<std::filesystem::path>::Present("/drivers/a.run");
  facts.run_file_bytes = 400U << 20U;
  facts.has_compiler = true;
  facts.free_bytes = base::Observed<std::uint64_t>::Present(50ULL << 30U);
  return facts;
}

// An image for one kernel.
Facts PrecompiledImage() {
  Facts facts = FreshImage();
  facts.run_file = base::Observed<std::filesystem::path>::Missing();
  facts.module_version = Text::Present("580.95.05");
  facts.has_programs = true;
  facts.has_compiler = false;
  facts.packages = PackageTool::kNone;
  return facts;
}

base::Error Refusal(const Options& options, const Facts& facts) {
  const auto plan = DecideInstall(options, facts);
  EXPECT_FALSE(plan.has_value());
  return plan ? base::Error() : plan.error();
}

TEST(DecideInstall, AFreshImageIsUnpackedCompiledAndInstalled) {
  const auto plan = DecideInstall(Wanted(), FreshImage());
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(*plan, (InstallPlan{.extract = true,
                                .install_programs = true,
                                .fetch_headers = true,
                                .compile = true,
                                .sign = false}));
}

TEST(DecideInstall, HeadersThatAreThereAreNotFetched) {
  Facts facts = FreshImage();
  facts.has_kernel_headers = true;
  EXPECT_FALSE(DecideInstall(Wanted(), facts)->fetch_headers);
}

TEST(DecideInstall, APrecompiledImageNeedsNothing) {
  EXPECT_EQ(*DecideInstall(Wanted(), PrecompiledImage()), InstallPlan());
}

TEST(DecideInstall, ModulesOfAnotherDriverAreCompiledAnew) {
  Facts facts = FreshImage();
  facts.module_version = Text::Present("570.1");
  facts.has_kernel_headers = true;
  EXPECT_TRUE(DecideInstall(Wanted(), facts)->compile);
  facts.module_version = Text::Present("580.95.05");
  EXPECT_FALSE(DecideInstall(Wanted(), facts)->compile);
  facts.module_version = Text::Present("");
  EXPECT_FALSE(DecideInstall(Wanted(), facts)->compile);
}

TEST(DecideInstall, AnotherKernelThanTheImageIsForIsNamedWithThoseThatItIsFor) {
  Facts facts = PrecompiledImage();
  facts.module_version = Text::Missing();
  facts.kernels_with_modules = {"6.1.0-50-amd64", "6.1.0-51-amd64"};
  const auto refusal = Refusal(Wanted(), facts);
  EXPECT_EQ(refusal.reason, "NoModulesForKernel");
  EXPECT_THAT(refusal.message, HasSubstr("the node's kernel is 6.1.0-56-amd64"));
  EXPECT_THAT(refusal.message, HasSubstr("modules for 6.1.0-50-amd64, 6.1.0-51-amd64 only"));
}

TEST(DecideInstall, ARunFileOfAnotherVersionIsNamed) {
  Facts facts = FreshImage();
  facts.run_file = base::Observed<std::filesystem::path>::Missing();
  facts.other_run_files = {"NVIDIA-Linux-x86_64-570.1.run"};
  EXPECT_THAT(Refusal(Wanted(), facts).message, HasSubstr("only NVIDIA-Linux-x86_64-570.1.run"));
  facts.module_version = Text::Present("580.95.05");
  const auto refusal = Refusal(Wanted(), facts);
  EXPECT_EQ(refusal.reason, "DriverFilesMissing");
  EXPECT_THAT(refusal.message, HasSubstr("NVIDIA-Linux-x86_64-580.95.05.run"));
}

TEST(DecideInstall, ACompilerAndHeadersHaveToBeThereOrToBeHad) {
  Facts facts = FreshImage();
  facts.packages = PackageTool::kNone;
  EXPECT_EQ(Refusal(Wanted(), facts).reason, "KernelHeadersMissing");
  facts.has_kernel_headers = true;
  EXPECT_TRUE(DecideInstall(Wanted(), facts).has_value());
  facts.has_compiler = false;
  EXPECT_EQ(Refusal(Wanted(), facts).reason, "CompilerMissing");
}

TEST(DecideInstall, WhereOnlySignedModulesAreTakenAKeyIsNeededToCompile) {
  Options options = Wanted();
  Facts facts = FreshImage();
  facts.policy.signatures = base::Observed<bool>::Present(true);
  EXPECT_EQ(Refusal(options, facts).reason, "UnsignedModulesRefused");
  options.signing_key = "/keys/module.pem";
  EXPECT_TRUE(DecideInstall(options, facts)->sign);
  // What the image has may be signed; the kernel will say.
  Facts precompiled = PrecompiledImage();
  precompiled.policy = facts.policy;
  EXPECT_TRUE(DecideInstall(Wanted(), precompiled).has_value());
  // Modules for a kernel that does not run are not loaded here.
  options.signing_key = "";
  facts.kernel_runs = false;
  EXPECT_TRUE(DecideInstall(options, facts).has_value());
}

TEST(DecideInstall, LittleSpaceIsToldBeforeUnpackingAndOnlyThen) {
  Facts facts = FreshImage();
  facts.free_bytes = base::Observed<std::uint64_t>::Present(2ULL << 30U);
  const auto refusal = Refusal(Wanted(), facts);
  EXPECT_EQ(refusal.reason, "LittleSpace");
  EXPECT_THAT(refusal.message, HasSubstr("about 2400 MiB"));
  EXPECT_THAT(refusal.message, HasSubstr("2048 MiB free"));
  facts.free_bytes = base::Observed<std::uint64_t>::Present(2400ULL << 20U);
  EXPECT_TRUE(DecideInstall(Wanted(), facts).has_value());
  Facts precompiled = PrecompiledImage();
  precompiled.free_bytes = base::Observed<std::uint64_t>::Present(0);
  EXPECT_TRUE(DecideInstall(Wanted(), precompiled).has_value());
}

TEST(DecideInstall, AVersionIsNeededAndGuestVersionsAreNotMatched) {
  Options options = Wanted();
  options.version = "";
  EXPECT_EQ(Refusal(options, FreshImage()).reason, "DriverVersionMissing");
  options = Wanted();
  options.is_vgpu_guest = true;
  EXPECT_TRUE(DecideInstall(options, FreshImage()).has_value());
  options.matches_vgpu_version = true;
  EXPECT_EQ(Refusal(options, FreshImage()).reason, "VgpuMatchingMissing");
}

TEST(ModuleSourceFolder, IsWhatIsAskedForElseWhatTheInstallerRecommends) {
  RecordProperty("holds", "driver-lifecycle.md #108");
  constexpr unsigned kBranch = 580;
  EXPECT_EQ(ModuleSourceFolder(ModuleType::kOpen, "proprietary", kBranch), "kernel-open");
  EXPECT_EQ(ModuleSourceFolder(ModuleType::kProprietary, "open", kBranch), "kernel");
  EXPECT_EQ(ModuleSourceFolder(ModuleType::kAuto, "open", kBranch), "kernel-open");
  EXPECT_EQ(ModuleSourceFolder(ModuleType::kAuto, "closed", kBranch), "kernel");
  EXPECT_EQ(ModuleSourceFolder(ModuleType::kAuto, std::nullopt, 550), "kernel");
  EXPECT_EQ(ModuleSourceFolder(ModuleType::kAuto, std::nullopt, 560), "kernel-open");
}

base::Status Had() { return {}; }

TEST(PreflightReport, NamesWhatIsMissingAndNotWhatOnlyThePresentDriverTakes) {
  EXPECT_EQ(PreflightReport(Wanted(), FreshImage(), Had), "preflight: nothing is missing\n");
  Facts full = FreshImage();
  full.free_bytes = base::Observed<std::uint64_t>::Present(1);
  EXPECT_EQ(Refusal(Wanted(), full).reason, "LittleSpace");
  EXPECT_EQ(PreflightReport(Wanted(), full, Had), "preflight: nothing is missing\n");
  // Behind it another thing is missing, which the full disk does not hide.
  full.has_compiler = false;
  EXPECT_THAT(PreflightReport(Wanted(), full, Had),
              ::testing::StartsWith("preflight: CompilerMissing: "));
  Facts other = PrecompiledImage();
  other.kernel = "6.1.0-57-amd64";
  other.module_version = Text::Missing();
  const std::string report = PreflightReport(Wanted(), other, Had);
  EXPECT_THAT(report, ::testing::StartsWith("preflight: NoModulesForKernel: "));
  EXPECT_THAT(report, HasSubstr("6.1.0-57-amd64"));
}

TEST(PreflightReport, NamesHeadersThatCannotBeHadAndNotThoseOfWhichNobodyCanTell) {
  const auto says = [](std::string reason) {
    return [reason] {
      return base::Status(
          base::Fail(base::Error{base::Code::kUnavailable, reason, "linux-headers-x, because"}));
    };
  };
  EXPECT_EQ(PreflightReport(Wanted(), FreshImage(), says("KernelHeadersMissing")),
            "preflight: KernelHeadersMissing: linux-headers-x, because\n");
  // The operator begins with reports that begin so.
  EXPECT_EQ(PreflightReport(Wanted(), FreshImage(), says("KernelHeadersUnknown")),
            "preflight: nothing is missing, as far as can be seen from here: linux-headers-x, "
            "because\n");
  Facts has = FreshImage();
  has.has_kernel_headers = true;
  for (const Facts& facts : {has, PrecompiledImage()}) {
    EXPECT_EQ(PreflightReport(Wanted(), facts, says("KernelHeadersMissing")),
              "preflight: nothing is missing\n")
        << "nothing has to be had";
  }
}

}  // namespace
}  // namespace pitcrew::node::driver_container
