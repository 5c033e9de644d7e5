#include "host/library_search.h"

#include <gtest/gtest.h>

#include "base/ld_cache.h"
#include "host/driver_root.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::host {
namespace {

using Paths = std::vector<std::filesystem::path>;

constexpr std::int32_t kX86Of64Bits = 0x0303;
constexpr std::int32_t kX86Of32Bits = 0x0803;

class LibrarySearchTest : public ::testing::Test {
 protected:
  LibrarySearchTest() {
    folder_.Write("opt/nv/libcuda.so.580.95", "x");
    folder_.Write("opt/nv32/libcuda.so.390.1", "x");
    std::filesystem::create_symlink("libcuda.so.580.95", At("opt/nv/libcuda.so.1"));
    std::filesystem::create_symlink("/opt/nv/libcuda.so.1", At("opt/nv/libcuda.so"));
    base::LdCache cache;
    for (const auto& [flags, name, path] :
         {std::tuple{kX86Of64Bits, "libcuda.so.1", "/opt/nv/libcuda.so.1"},
          std::tuple{kX86Of64Bits, "libcuda.so", "/opt/nv/libcuda.so"},
          std::tuple{kX86Of32Bits, "libcuda.so.1", "/opt/nv32/libcuda.so.390.1"},
          std::tuple{kX86Of64Bits, "libcuda.so.9", "/opt/gone/libcuda.so.9.9"}}) {
      cache.entries.push_back({flags, name, path, 0, 0});
    }
    folder_.Write("etc/ld.so.cache", base::WriteLdCache(cache));
  }
  [[nodiscard]] std::filesystem::path At(const std::string& inside) const {
    return folder_.path() / inside;
  }
  [[nodiscard]] Paths Find(const std::string& pattern,
                           std::vector<std::string> folders = {}) const {
    return LibrarySearch(Root(folder_.path()), std::move(folders))
        .Find(pattern)
        .value_or(Paths{"(error)"});
  }
  test_support::TemporaryFolder folder_;
};

TEST_F(LibrarySearchTest, TheCacheIsForWhatNoFolderHas) {
  RecordProperty("holds", "container-toolkit.md #95");
  EXPECT_EQ(Find("libcuda.so.*.*"), Paths{At("opt/nv/libcuda.so.580.95")});
  EXPECT_EQ(Find("libcuda.so.1"), Paths{At("opt/nv/libcuda.so.580.95")});
  EXPECT_EQ(Find("libcuda.so.580.95"), Paths{At("opt/nv/libcuda.so.580.95")});
  EXPECT_EQ(Find("libcuda.so.9.9"), Paths{}) << "the cache is older than the folder";
  EXPECT_EQ(Find("libother.so*"), Paths{});
  folder_.Write("usr/lib64/libcuda.so.111.22", "x");
  std::filesystem::create_symlink("libcuda.so.111.22", At("usr/lib64/libcuda.so.1.0"));
  EXPECT_EQ(Find("libcuda.so.*.*"), Paths{At("usr/lib64/libcuda.so.111.22")});
}

// An H200's machine had its driver in /usr/local/nvidia/lib64, by ld.so.conf.
TEST_F(LibrarySearchTest, ADriversLibraryInAnotherFolderIsFoundByTheCache) {
  const Root root(folder_.path());
  EXPECT_FALSE(FindLibrary(root, "libcuda.so.1"));
  EXPECT_EQ(FindDriverLibrary(root, "libcuda.so.1").value_or(""), At("opt/nv/libcuda.so.580.95"));
  EXPECT_FALSE(FindDriverLibrary(root, "libnvidia-ml.so.1"));
  folder_.Write("usr/lib64/libcuda.so.1", "x");
  EXPECT_EQ(FindDriverLibrary(root, "libcuda.so.1").value_or(""), At("usr/lib64/libcuda.so.1"));
}

TEST_F(LibrarySearchTest, FoldersThatAreNamedAreAllThereIs) {
  folder_.Write("opt/mine/libcuda.so.2.0", "x");
  folder_.Write("usr/lib64/libcuda.so.111.22", "x");
  EXPECT_EQ(Find("libcuda.so.*.*", {"/opt/none", "/opt/mine"}),
            Paths{At("opt/mine/libcuda.so.2.0")});
  EXPECT_EQ(Find("libcuda.so.*.*", {"/opt/none"}), Paths{});
}

TEST_F(LibrarySearchTest, LibrariesOf64BitsAreTakenOnEveryMachine) {
  const auto found = [&](std::int32_t flags) {
    base::LdCache cache;
    cache.entries.push_back({flags, "libcuda.so.1", "/opt/nv/libcuda.so.1", 0, 0});
    folder_.Write("etc/ld.so.cache", base::WriteLdCache(cache));
    return !Find("libcuda.so.1").empty();
  };
  for (const std::int32_t machine : {0x0300, 0x0500, 0x0a00}) {  // amd64, ppc64le, arm64
    EXPECT_TRUE(found(machine | 0x03)) << machine;
    EXPECT_FALSE(found(machine)) << "no library of ELF";
  }
  for (const std::int32_t machine : {0x0000, 0x0800, 0x0900}) {  // i386, x32, armhf
    EXPECT_FALSE(found(machine | 0x03)) << machine;
  }
}

TEST_F(LibrarySearchTest, ADamagedCacheIsNone) {
  folder_.Write("etc/ld.so.cache", "glibc-ld.so.cache1.1 and no more");
  EXPECT_EQ(Find("libcuda.so.*.*"), Paths{});
}

}  // namespace
}  // namespace pitcrew::host
