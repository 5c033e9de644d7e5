#include "host/kernel.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace pitcrew::host {
namespace {

TEST(ModuleInstance, IsAnotherOneWhenTheModuleHasGoneAndComeBack) {
  const test_support::TemporaryFolder sys;
  const auto modules = sys.path() / "module";
  EXPECT_TRUE(ReadModuleInstance("nvidia-uvm", sys.path()).is_absent()) << "no modules at all";
  std::filesystem::create_directories(modules / "later");
  EXPECT_TRUE(ReadModuleInstance("nvidia-uvm", sys.path()).is_absent());
  std::filesystem::create_directories(modules / "nvidia_uvm");
  const auto first = ReadModuleInstance("nvidia-uvm", sys.path());
  ASSERT_TRUE(first.is_present());
  EXPECT_EQ(*first.value(), *ReadModuleInstance("nvidia_uvm", sys.path()).value());
  std::filesystem::rename(modules / "nvidia_uvm", modules / "gone");
  EXPECT_TRUE(ReadModuleInstance("nvidia-uvm", sys.path()).is_absent());
  std::filesystem::rename(modules / "later", modules / "nvidia_uvm");
  const auto second = ReadModuleInstance("nvidia-uvm", sys.path());
  ASSERT_TRUE(second.is_present());
  EXPECT_NE(*first.value(), *second.value());
}

TEST(ModuleInstance, IsUnknownWhereSysfsCannotBeLookedAt) {
  const test_support::TemporaryFolder sys;
  std::filesystem::create_directory_symlink("module", sys.path() / "module");
  const auto instance = ReadModuleInstance("nvidia", sys.path());
  ASSERT_TRUE(instance.is_unknown());
  EXPECT_TRUE(instance.error()->message.contains((sys.path() / "module/nvidia").string()))
      << instance.error()->message;
}

}  // namespace
}  // namespace pitcrew::host
