#include "host/dxcore.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/temporary_folder.h"

namespace pitcrew::host {
namespace {

using Strings = std::vector<std::string>;

class DxCoreTest : public ::testing::Test {
 protected:
  ~DxCoreTest() override {
    ::unsetenv("FAKE_DXCORE");
    ::unsetenv("FAKE_DXCORE_OLD");
  }
  static Strings Stores(const char* adapters) {
    ::setenv("FAKE_DXCORE", adapters, 1);
    const auto stores = ReadDriverStores(PITCREW_FAKE_DXCORE);
    return stores ? *stores : Strings{stores.error().reason};
  }
};

// container-toolkit.md 6.9, mode wsl.
TEST_F(DxCoreTest, EveryStoreOnceAndOnlyOfNewDrivers) {
  EXPECT_EQ(Stores("2600=/old;2700=/usr/lib/wsl/drivers/iigd;3100=-;3100=/usr/lib/wsl/drivers/nv;"
                   "2900=/usr/lib/wsl/drivers/nv;3100=relative"),
            (Strings{"/usr/lib/wsl/drivers/iigd", "/usr/lib/wsl/drivers/nv"}));
  EXPECT_EQ(Stores(""), Strings{});
}

TEST_F(DxCoreTest, OlderHostsListTheirAdaptersInAnotherWay) {
  ::setenv("FAKE_DXCORE_OLD", "1", 1);
  EXPECT_EQ(Stores("2700=/store"), Strings{"/store"});
}

TEST_F(DxCoreTest, AnotherLibraryIsNone) {
  const test_support::TemporaryFolder folder;
  EXPECT_EQ(ReadDriverStores(folder.Write("opt/libdxcore.so", "x")).error().reason, "WslNotFound");
  EXPECT_EQ(ReadDriverStores("libc.so.6").error().reason, "DxCoreFunctionMissing");
  EXPECT_EQ(FindDxCore(Root(folder.path())).error().reason, "WslNotFound");
  folder.Write("usr/lib/wsl/lib/libdxcore.so", "x");
  EXPECT_EQ(*FindDxCore(Root(folder.path())), folder.path() / "usr/lib/wsl/lib/libdxcore.so");
}

}  // namespace
}  // namespace pitcrew::host
