#include "node/driver_manager/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_manager {
namespace {

using base::Observed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSecureBootFile =
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

std::vector<std::string> ReasonsOf(const BuildFacts& facts) {
  std::vector<std::string> reasons;
  for (const auto& obstacle : FindBuildObstacles(facts)) reasons.push_back(obstacle.reason);
  return reasons;
}

class PreflightTest : public ::testing::Test {
 protected:
  PreflightTest() {
    options_.sys = root_.path() / "sys";
    options_.host_root = root_.path() / "host";
    root_.Write("host/etc/os-release", "ID=ubuntu\n");
  }
  [[nodiscard]] BuildFacts Facts() const {
    auto facts = ReadBuildFacts(options_);
    // Of the machine that the test runs on.
    EXPECT_TRUE(facts.free_bytes.is_present());
    facts.free_bytes = Observed<std::uint64_t>::Missing();
    return facts;
  }
  test_support::TemporaryFolder root_;
  Options options_;
};

TEST_F(PreflightTest, WhereNothingIsKnownNothingIsMissing) {
  const auto facts = Facts();
  EXPECT_TRUE(facts.modules.secure_boot.is_absent());
  EXPECT_TRUE(facts.modules.lockdown.is_absent());
  EXPECT_TRUE(facts.modules.signatures.is_absent());
  EXPECT_EQ(facts.system, "ubuntu");
  EXPECT_THAT(ReasonsOf(facts), IsEmpty());
}

TEST_F(PreflightTest, UnsignedModules) {
  root_.Write(kSecureBootFile, std::string("\x06\0\0\0\x01", 5));
  EXPECT_THAT(ReasonsOf(Facts()), IsEmpty()) << "a kernel that does not care";
  root_.Write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
  root_.Write("sys/module/module/parameters/sig_enforce", "N\n");
  EXPECT_THAT(ReasonsOf(Facts()), IsEmpty());
  root_.Write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  const auto locked = FindBuildObstacles(Facts());
  ASSERT_EQ(locked.size(), 1U);
  EXPECT_EQ(locked[0].reason, "UnsignedModulesRefused");
  EXPECT_THAT(locked[0].message,
              HasSubstr("(Secure Boot is on, kernel lockdown is \"integrity\")"));
  root_.Write(kSecureBootFile, std::string("\x06\0\0\0\0", 5));
  root_.Write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
  root_.Write("sys/module/module/parameters/sig_enforce", "Y\n");
  const auto enforced = FindBuildObstacles(Facts());
  ASSERT_EQ(enforced.size(), 1U);
  EXPECT_THAT(enforced[0].message, HasSubstr("(module.sig_enforce is set)"));
}

TEST_F(PreflightTest, EntitlementsAreRedHats) {
  EXPECT_THAT(ReasonsOf(Facts()), IsEmpty());
  root_.Write("host/etc/os-release", "ID=\"rhel\"\n");
  EXPECT_THAT(ReasonsOf(Facts()), ElementsAre("EntitlementMissing"));
  std::filesystem::create_directories(options_.host_root / "etc/pki/entitlement");
  EXPECT_THAT(ReasonsOf(Facts()), ElementsAre("EntitlementMissing"));
  root_.Write("host/etc/pki/entitlement/1-key.pem", "x");
  EXPECT_THAT(ReasonsOf(Facts()), IsEmpty());
  BuildFacts unknown{.system = "rhel",
                     .entitled = Observed<bool>::Unknown(base::Internal("Read", "failed"))};
  EXPECT_THAT(ReasonsOf(unknown), IsEmpty());
}

TEST_F(PreflightTest, LittleSpace) {
  auto facts = Facts();
  facts.free_bytes = Observed<std::uint64_t>::Present(2ULL << 30U);
  EXPECT_THAT(ReasonsOf(facts), IsEmpty());
  facts.free_bytes = Observed<std::uint64_t>::Present((2ULL << 30U) - 1);
  const auto obstacles = FindBuildObstacles(facts);
  ASSERT_EQ(obstacles.size(), 1U);
  EXPECT_EQ(obstacles[0].reason, "LittleSpace");
  EXPECT_THAT(obstacles[0].message, HasSubstr("has 2047 MiB free"));
}

}  // namespace
}  // namespace pitcrew::node::driver_manager
