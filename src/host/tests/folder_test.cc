#include "host/folder.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace pitcrew::host {
namespace {

namespace fs = std::filesystem;

TEST(FolderTest, WhatIsReadIsOfTheFolderThatWasOpened) {
  const test_support::TemporaryFolder root;
  root.Write("device/vendor", "0x10de\n");
  root.Write("device/types/a/name", "first\n");
  fs::create_symlink("../drivers/nvidia", root.path() / "device/driver");
  const auto folder = Folder::Open(root.path() / "device");
  ASSERT_TRUE(folder);
  EXPECT_EQ(*folder->Read("vendor"), "0x10de\n");
  EXPECT_EQ(*folder->Read("types/a/name"), "first\n");
  EXPECT_EQ(*folder->Link("driver"), "../drivers/nvidia");
  // Another one takes its name.
  fs::rename(root.path() / "device", root.path() / "old");
  root.Write("device/vendor", "0x8086\n");
  EXPECT_EQ(*folder->Read("vendor"), "0x10de\n");
}

TEST(FolderTest, FailuresNameTheWholePath) {
  const test_support::TemporaryFolder root;
  EXPECT_EQ(Folder::Open(root.path() / "device").error().code, base::Code::kNotFound);
  root.Write("device/vendor", "0x10de\n");
  const auto folder = Folder::Open(root.path() / "device");
  ASSERT_TRUE(folder);
  for (const auto& failed : {folder->Read("class"), folder->Link("driver")}) {
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, base::Code::kNotFound);
    EXPECT_NE(failed.error().message.find((root.path() / "device").string()), std::string::npos);
  }
  EXPECT_FALSE(folder->Link("vendor")) << "no link";
}

}  // namespace
}  // namespace pitcrew::host
