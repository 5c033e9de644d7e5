// Where the driver's devices are.
#include "node/device_plugin/cdi_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace pitcrew::node::device_plugin {
namespace {

TEST(DriverRoots, DevicesAreBelowTheDriverThatHasThem) {
  const test_support::TemporaryFolder driver;
  EXPECT_EQ(FindRoots(driver.path())->dev.path(), "/");
  std::filesystem::create_directory(driver.path() / "dev");
  EXPECT_EQ(FindRoots(driver.path())->dev.path(), driver.path());
}

TEST(DriverRoots, AFolderThatCannotBeLookedAtIsNotMissing) {
  const test_support::TemporaryFolder driver;
  std::filesystem::create_symlink("dev", driver.path() / "dev");
  EXPECT_FALSE(FindRoots(driver.path()));
  EXPECT_FALSE(FindRoots(driver.path() / "dev/driver"));
}

}  // namespace
}  // namespace pitcrew::node::device_plugin
