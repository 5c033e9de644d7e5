#include "host/tegra.h"

#include <gtest/gtest.h>

#include "host/glob.h"
#include "host/platform.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::host {
namespace {

using Strings = std::vector<std::string>;

TEST(TegraLists, LinesOfAnotherFormArePassedOver) {
  RecordProperty("holds", "container-toolkit.md #97");
  TegraLists lists;
  AppendTegraLines(
      "dev, /dev/nvmap\r\n\t lib ,\t/usr/lib/libx.so \nsym,/a,b\ndir,/lib/firmware\n"
      "# dev, /dev/null\nfile, /etc/passwd\nDEV, /dev/null\ndev,\nlib,  \n/dev/null\n\n"
      "dev, /dev/nvhost-*",
      lists);
  TegraLists expected;
  expected.devices = {"/dev/nvmap", "/dev/nvhost-*"};
  expected.folders = {"/lib/firmware"};
  expected.libraries = {"/usr/lib/libx.so"};
  expected.links = {"/a,b"};
  EXPECT_EQ(lists, expected);
}

TEST(TegraLists, FilesThatSayNothingAreNamed) {
  const test_support::TemporaryFolder folder;
  folder.Write("devices.csv", "dev, /dev/nvmap\n");
  folder.Write("drivers.csv", "nothing of use\n");
  const auto read = ReadTegraLists(
      {folder.path() / "devices.csv", folder.path() / "drivers.csv", folder.path() / "l4t.csv"});
  EXPECT_EQ(read.lists.devices, Strings{"/dev/nvmap"});
  ASSERT_EQ(read.errors.size(), 2u);
  EXPECT_EQ(read.errors[0].reason, "EmptyTegraList");
  EXPECT_EQ(read.errors[1].code, base::Code::kNotFound);
}

TEST(FitsPattern, APathAsAWholeOrItsLastPart) {
  RecordProperty("holds", "container-toolkit.md #97");
  EXPECT_TRUE(FitsPattern("**/*.so", "/foo/bar/libx.so"));
  EXPECT_TRUE(FitsPattern("**/*.so", "libx.so"));
  EXPECT_TRUE(FitsPattern("*.so", "libx.so"));
  EXPECT_FALSE(FitsPattern("*.so", "/foo/bar/libx.so"));
  EXPECT_TRUE(FitsPattern("*.so.[0-9]", "libx.so.1"));
  EXPECT_FALSE(FitsPattern("*.so.[0-9]", "libx.so.1.2.3"));
  EXPECT_TRUE(FitsPattern("/foo/*/libx.so", "/foo/bar/libx.so"));
}

class GlobTest : public ::testing::Test {
 protected:
  GlobTest() {
    for (const auto* file : {"lib/b.so.1", "lib/a.so.1", "lib/a.txt", "lib/sub/c.so.1"}) {
      folder_.Write(file, "x");
    }
    std::filesystem::create_symlink("/lib", folder_.path() / "absolute");
    std::filesystem::create_symlink("/nowhere", folder_.path() / "lib/broken.so.1");
  }
  [[nodiscard]] Strings Found(std::string_view pattern) const {
    return Glob(Root(folder_.path()), pattern).value_or(Strings{"(error)"});
  }
  test_support::TemporaryFolder folder_;
};

TEST_F(GlobTest, AStarStaysInItsFolder) {
  EXPECT_EQ(Found("/lib/*.so.?"), (Strings{"/lib/a.so.1", "/lib/b.so.1", "/lib/broken.so.1"}));
  EXPECT_EQ(Found("/lib/*/*.so.1"), Strings{"/lib/sub/c.so.1"});
  EXPECT_EQ(Found("lib//./[ab].so.1"), (Strings{"/lib/a.so.1", "/lib/b.so.1"}));
}

TEST_F(GlobTest, APathWithoutWildcardsIsItself) {
  EXPECT_EQ(Found("/lib/a.txt"), Strings{"/lib/a.txt"});
  EXPECT_EQ(Found("/lib/broken.so.1"), Strings{"/lib/broken.so.1"});
  EXPECT_EQ(Found("/lib/a.txt/more"), Strings{});
  EXPECT_EQ(Found("/none/*"), Strings{});
  EXPECT_EQ(Found("/"), Strings{});
}

TEST_F(GlobTest, LinksStayInsideTheRoot) {
  EXPECT_EQ(Found("/absolute/a.*"), (Strings{"/absolute/a.so.1", "/absolute/a.txt"}));
  EXPECT_EQ(Found("/../../../lib/a.txt"), Strings{"/lib/a.txt"});
}

class PlatformTest : public ::testing::Test {
 protected:
  [[nodiscard]] Platform Find(const Strings& names = {}) const {
    return FindPlatform(Root(folder_.path()), names);
  }
  test_support::TemporaryFolder folder_;
};

// container-toolkit.md 6.2.
TEST_F(PlatformTest, TegraIsItsFilesWithoutNvmlOrAnIntegratedGpu) {
  EXPECT_EQ(Find(), Platform::kGpus);
  EXPECT_EQ(Find({"NVIDIA H100 80GB HBM3"}), Platform::kGpus);
  EXPECT_EQ(Find({"NVIDIA RTX A6000", "Orin (nvgpu)"}), Platform::kTegra);
  EXPECT_EQ(Find({"NVIDIA Thor"}), Platform::kTegra);
  folder_.Write("sys/devices/soc0/family", "Tegra\n");
  EXPECT_EQ(Find(), Platform::kTegra);
  folder_.Write("usr/lib64/libnvidia-ml.so.1", "x");
  EXPECT_EQ(Find(), Platform::kGpus);
  EXPECT_EQ(Find({"Orin (nvgpu)"}), Platform::kTegra);
}

TEST_F(PlatformTest, TheReleaseFileIsAFile) {
  std::filesystem::create_directories(folder_.path() / "etc/nv_tegra_release");
  EXPECT_EQ(Find(), Platform::kGpus);
  std::filesystem::remove(folder_.path() / "etc/nv_tegra_release");
  folder_.Write("etc/nv_tegra_release", "# R36\n");
  EXPECT_EQ(Find(), Platform::kTegra);
}

TEST_F(PlatformTest, WslComesFirst) {
  folder_.Write("etc/nv_tegra_release", "# R36\n");
  folder_.Write("usr/lib/wsl/lib/libdxcore.so", "x");
  EXPECT_EQ(Find({"Orin (nvgpu)"}), Platform::kWsl);
}

}  // namespace
}  // namespace pitcrew::host
