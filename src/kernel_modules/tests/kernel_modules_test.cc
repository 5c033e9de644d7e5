// Unloading, and what a loaded module tells, over a tree of sysfs.
#include "kernel_modules/kernel_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::kernel_modules {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Unload, WhatIsNotLoadedIsGoneAlready) { EXPECT_TRUE(Unload("pitcrew-never-loaded")); }

// No kernel has this module: whatever the call says, it is no success while sysfs shows it.
TEST(Unload, WhatSysfsShowsIsTakenOutOfTheKernelOrAnError) {
  const test_support::TemporaryFolder root;
  root.Write("module/pitcrew_never_loaded/refcnt", "1\n");
  const auto unloaded = Unload("pitcrew-never-loaded", root.path());
  if (!unloaded) {
    EXPECT_NE(unloaded.error().message.find("pitcrew-never-loaded"), std::string::npos);
  }
}

TEST(ReadHolders, AreTheModulesThatUseIt) {
  const test_support::TemporaryFolder root;
  for (const char* holder : {"nvidia_uvm", "nvidia_modeset"}) {
    root.Write(std::string("module/nvidia/holders/") + holder, "");
  }
  EXPECT_THAT(*ReadHolders("nvidia", root.path()), ElementsAre("nvidia_modeset", "nvidia_uvm"));
  EXPECT_THAT(*ReadHolders("nvidia-fs", root.path()), IsEmpty());
}

}  // namespace
}  // namespace pitcrew::kernel_modules
