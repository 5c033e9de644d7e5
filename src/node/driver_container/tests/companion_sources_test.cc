// What modules beside the driver's are compiled from, over trees of files; compiling and loading
// them is tried in tests/kernel.
#include "node/driver_container/companion_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::driver_container {
namespace {

using ::testing::HasSubstr;

constexpr const Companion& kStorage = kCompanions[0];
constexpr const Companion& kCopy = kCompanions[1];

class CompanionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.places = {.root = node_.path() / "root",
                       .sys = node_.path() / "sys",
                       .proc = node_.path() / "proc",
                       .run = node_.path() / "run"};
  }
  void LoadDriver(const char* taint) const {
    node_.Write("sys/module/nvidia/version", "580.95.05\n");
    node_.Write("sys/module/nvidia/taint", taint);
  }
  // As a driver container leaves them that has compiled.
  void CompileDriver(const std::string& kind) const {
    node_.Write(kSources + kind + "/Module.symvers", "0x1\tnvidia_p2p_get_pages\n");
    node_.Write(kSources + kind + "/nvidia/nv-p2p.h", "");
  }
  const std::string kSources = "run/driver/usr/src/nvidia-580.95.05/";
  test_support::TemporaryFolder node_;
  Options options_;
};

TEST_F(CompanionTest, SourcesOfAModuleAreInTheFolderOfItsNameAndVersion) {
  node_.Write("root/usr/src/nvidia-fs-2.28.4/Makefile", "");
  node_.Write("root/usr/src/nvidia-fs-tools/readme", "");
  node_.Write("root/usr/src/nvidia-580.95.05/kernel/Makefile", "");
  node_.Write("root/usr/src/gdrdrv-2.5.1/Makefile", "");
  const auto storage = FindCompanionSources(kStorage, options_);
  ASSERT_TRUE(storage.has_value()) << storage.error().ToString();
  EXPECT_EQ(storage->folder, node_.path() / "root/usr/src/nvidia-fs-2.28.4");
  EXPECT_EQ(storage->version, "2.28.4");
  EXPECT_EQ(FindCompanionSources(kCopy, options_)->version, "2.5.1");
}

TEST_F(CompanionTest, AnImageWithoutSourcesIsToldWhatItLacks) {
  const auto none = FindCompanionSources(kStorage, options_);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().reason, "ModuleSourcesMissing");
  EXPECT_THAT(none.error().message, HasSubstr("usr/src/nvidia-fs-<version>"));
  EXPECT_THAT(none.error().message, HasSubstr("nvidia-fs-dkms"));
}

TEST_F(CompanionTest, OfTwoVersionsNoneIsChosen) {
  node_.Write("root/usr/src/gdrdrv-2.5/Makefile", "");
  node_.Write("root/usr/src/gdrdrv-2.6/Makefile", "");
  const auto both = FindCompanionSources(kCopy, options_);
  ASSERT_FALSE(both.has_value());
  EXPECT_EQ(both.error().reason, "ModuleSourcesUnclear");
  EXPECT_THAT(both.error().message, HasSubstr("gdrdrv-2.5, "));
}

TEST_F(CompanionTest, TheDriversSourcesAreThoseThatWereCompiled) {
  LoadDriver("OE\n");
  node_.Write(kSources + "kernel-open/Makefile", "");
  CompileDriver("kernel");
  const auto driver = FindDriverSources(options_);
  ASSERT_TRUE(driver.has_value()) << driver.error().ToString();
  EXPECT_EQ(driver->headers, node_.path() / (kSources + "kernel/nvidia"));
  EXPECT_EQ(driver->symbols, node_.path() / (kSources + "kernel/Module.symvers"));
}

TEST_F(CompanionTest, WhereBothKindsWereCompiledTheLoadedOneCounts) {
  CompileDriver("kernel");
  CompileDriver("kernel-open");
  LoadDriver("OE\n");
  EXPECT_EQ(FindDriverSources(options_)->headers, node_.path() / (kSources + "kernel-open/nvidia"));
  LoadDriver("POE\n");
  EXPECT_EQ(FindDriverSources(options_)->headers, node_.path() / (kSources + "kernel/nvidia"));
}

TEST_F(CompanionTest, ADriverWithoutSourcesIsRefusedByItsVersion) {
  LoadDriver("OE\n");
  node_.Write("run/driver/usr/src/nvidia-570.1/kernel/Module.symvers", "");
  const auto none = FindDriverSources(options_);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().reason, "DriverSourcesMissing");
  EXPECT_THAT(none.error().message, HasSubstr("driver 580.95.05"));
}

TEST_F(CompanionTest, WhichDriverIsLoadedMustBeKnown) {
  const auto unknown = FindDriverSources(options_);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("which driver is loaded is not known"));
}

TEST(LoadedModule, IsOfTheSourcesThatItsVersionNames) {
  EXPECT_TRUE(IsOfSources("2.28.4", "2.28.4"));
  EXPECT_TRUE(IsOfSources("2.5", "2.5.1"));
  EXPECT_TRUE(IsOfSources("2.5", "2.5-1"));
  EXPECT_TRUE(IsOfSources("", "2.5"));
  EXPECT_FALSE(IsOfSources("2.5", "2.51"));
  EXPECT_FALSE(IsOfSources("2.28.4", "2.28"));
  EXPECT_FALSE(IsOfSources("2.27.3", "2.28.4"));
}

}  // namespace
}  // namespace pitcrew::node::driver_container
