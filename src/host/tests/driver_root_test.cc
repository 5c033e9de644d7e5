#include "host/driver_root.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pitcrew::host {
namespace {

// container-toolkit.md 6.3: the first of several drivers is the one that is found.
TEST(LibraryFolders, AreSearchedInUpstreamsOrder) {
  EXPECT_THAT(
      LibraryFolders(),
      ::testing::ElementsAre(
          "/", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
          "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib/aarch64-linux-gnu/nvidia/current",
          "/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
          "/lib/x86_64-linux-gnu/nvidia/current", "/lib/aarch64-linux-gnu/nvidia/current"));
}

}  // namespace
}  // namespace pitcrew::host
