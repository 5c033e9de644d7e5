// Which file of a folder a name leads to after the hook, beside glibc's ldconfig on the same
// folder.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "base/file.h"
#include "base/testing/elf_file.h"
#include "shim/ld_cache_update.h"
#include "shim/tests/ldconfig.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraries = "/usr/lib/x86_64-linux-gnu";

using testing::Below;
using testing::RunLdconfig;

// Name of the loader → name of the file that it gets.
std::map<std::string, std::string> Loaded(const fs::path& root) {
  std::map<std::string, std::string> loaded;
  for (const auto& [name, file] : testing::ReadCachedFiles(root)) {
    loaded.try_emplace(name, file.empty() ? "nothing" : file.filename().string());
  }
  return loaded;
}

class AsLdconfig : public ::testing::Test {
 protected:
  AsLdconfig() {
    fs::create_directories(Below(theirs_, kLibraries));
    fs::create_directories(Below(theirs_, "/etc"));
    EXPECT_TRUE(base::WriteFileAtomically(Below(theirs_, "/etc/debian_version"), "12\n", 0644));
    EXPECT_TRUE(base::WriteFileAtomically(Below(theirs_, "/etc/ld.so.conf"),
                                          fmt::format("{}\n", kLibraries), 0644));
  }
  void Library(const std::string& name, const std::string& soname) const {
    EXPECT_TRUE(base::WriteFileAtomically(Below(theirs_, kLibraries) / name,
                                          base::testing::MakeElfLibrary(soname), 0755));
  }
  void Link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, Below(theirs_, kLibraries) / name);
  }
  // A library, or a link to one that is there, of one of three families.
  void AddAny(std::mt19937& random) const {
    const std::vector<std::vector<std::string>> families = {
        {"libone.so.1"}, {"libtwo.so.2", "libtwo.so.2.0"}, {"libplain.so"}};
    const auto& sonames = families[random() % families.size()];
    const auto& soname = sonames[random() % sonames.size()];
    const std::string stem = soname.substr(0, soname.find(".so"));
    const std::string names[] = {soname, fmt::format("{}.{}", soname, random() % 3),
                                 fmt::format("{}.{}.{}", soname, random() % 3, random() % 12),
                                 stem + ".so"};
    const auto& name = names[random() % 4];
    std::vector<std::string> present;
    for (const auto& entry : fs::directory_iterator(Below(theirs_, kLibraries))) {
      const std::string other = entry.path().filename();
      if (other == name) return;
      if (other.starts_with(stem)) present.push_back(other);
    }
    std::ranges::sort(present);
    if (!present.empty() && random() % 2 == 0) {
      Link(name, present[random() % present.size()]);
    } else {
      Library(name, soname);
    }
  }
  // The hook on a copy of the folder, ldconfig on the folder itself.
  void Compare() const {
    fs::copy(theirs_, ours_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto root = ContainerRoot::Open(ours_);
    ASSERT_TRUE(root && UpdateLdCache(*root, {kLibraries}));
    if (!RunLdconfig(theirs_)) GTEST_SKIP() << "ldconfig -r needs root";
    EXPECT_EQ(Loaded(ours_), Loaded(theirs_));
  }

  const test_support::TemporaryFolder folder_;
  const fs::path theirs_ = folder_.path() / "theirs";
  const fs::path ours_ = folder_.path() / "ours";
};

class RandomFolder : public AsLdconfig, public ::testing::WithParamInterface<int> {};

TEST_P(RandomFolder, EachNameLeadsToTheSameFile) {
  RecordProperty("holds", "container-toolkit.md #136");
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  for (int i = 0; i < 8; ++i) AddAny(random);
  Compare();
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomFolder, ::testing::Range(0, 60));

// An image that was made of a container with an older driver in it, and has no cache.
TEST_F(AsLdconfig, TheDriverOfTheNodeGoesBeforeAnOlderOneOfTheImage) {
  Library("libcuda.so.570.86.10", "libcuda.so.1");
  Link("libcuda.so.1", "libcuda.so.570.86.10");
  Library("libcuda.so.580.95.05", "libcuda.so.1");
  Compare();
  EXPECT_EQ(Loaded(ours_)["libcuda.so.1"], "libcuda.so.580.95.05");
}

// The image's cache knows libbz2.so.1.0; the link libbz2.so.1 is of no library that it names.
TEST_F(AsLdconfig, LinksThatAreRightAreLeft) {
  Library("libbz2.so.1.0.4", "libbz2.so.1.0");
  Link("libbz2.so.1.0", "libbz2.so.1.0.4");
  Link("libbz2.so.1", "libbz2.so.1.0.4");
  if (!RunLdconfig(theirs_)) GTEST_SKIP() << "ldconfig -r needs root";
  Compare();
  EXPECT_EQ(fs::read_symlink(Below(ours_, kLibraries) / "libbz2.so.1.0"), "libbz2.so.1.0.4");
}

// Two versions of what the cache knows: the image's, and the driver's.
TEST_F(AsLdconfig, TheNewerVersionOfAKnownLibrary) {
  Library("libnvidia-egl-wayland.so.1.1.9", "libnvidia-egl-wayland.so.1");
  if (!RunLdconfig(theirs_)) GTEST_SKIP() << "ldconfig -r needs root";
  Library("libnvidia-egl-wayland.so.1.1.20", "libnvidia-egl-wayland.so.1");
  Compare();
  EXPECT_EQ(Loaded(ours_)["libnvidia-egl-wayland.so.1"], "libnvidia-egl-wayland.so.1.1.20");
}

// Links through other links, and to a file of another folder.
TEST_F(AsLdconfig, LinksThatLeadFar) {
  fs::create_directories(Below(theirs_, "/opt/driver"));
  EXPECT_TRUE(base::WriteFileAtomically(Below(theirs_, "/opt/driver/libfar.so.1.5"),
                                        base::testing::MakeElfLibrary("libfar.so.1"), 0755));
  Link("libfar.so.1.5", "../../../opt/driver/libfar.so.1.5");
  Library("libfar.so.1.2", "libfar.so.1");
  Library("libnear.so.2.0.1", "libnear.so.2");
  Link("libnear.so.2.0", "libnear.so.2.0.1");
  Link("libnear.so.2", "libnear.so.2.0");
  Link("libnear.so", "libnear.so.2");
  Link("libround.so.1", "libround.so.2");
  Link("libround.so.2", "libround.so.1");
  Compare();
  EXPECT_EQ(Loaded(ours_)["libfar.so.1"], "libfar.so.1.5");
  EXPECT_EQ(fs::read_symlink(Below(ours_, kLibraries) / "libnear.so.2"), "libnear.so.2.0");
}

// What is left of a driver's file in an image that was made of a container: ldconfig leaves it, and
// no program of the image gets the driver.
TEST_F(AsLdconfig, AnEmptyFileGivesWay) {
  EXPECT_TRUE(base::WriteFileAtomically(Below(theirs_, kLibraries) / "libcuda.so.1", "", 0755));
  Library("libcuda.so.580.95.05", "libcuda.so.1");
  const auto root = ContainerRoot::Open(theirs_);
  ASSERT_TRUE(root && UpdateLdCache(*root, {kLibraries}));
  EXPECT_EQ(Loaded(theirs_)["libcuda.so.1"], "libcuda.so.580.95.05");
}

}  // namespace
}  // namespace pitcrew::shim
