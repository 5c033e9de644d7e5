// Which of several libraries of one name a container gets after the hook, and from which folder,
// beside glibc's ldconfig on the same root.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
using Names = std::vector<std::string>;

constexpr const char* kSystem = "/usr/lib/x86_64-linux-gnu";

using testing::Below;
using testing::RunLdconfig;

// Name of the loader → files that it would get, the first first.
std::map<std::string, Names> Found(const fs::path& root) {
  std::map<std::string, Names> found;
  for (const auto& [name, file] : testing::ReadCachedFiles(root)) {
    found[name].push_back(file.empty() ? "nothing" : fs::relative(file, root).string());
  }
  return found;
}

class Searched : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "ldconfig -r needs root";
    fs::create_directories(Below(theirs_, kSystem));
    fs::create_symlink("usr/lib", theirs_ / "lib");
    Write("/etc/debian_version", "12\n");
  }
  void Write(const std::string& path, const std::string& content) const {
    EXPECT_TRUE(base::WriteFileAtomically(Below(theirs_, path), content, 0755));
  }
  void Library(const std::string& path, const std::string& soname) const {
    Write(path, base::testing::MakeElfLibrary(soname));
  }
  // What makes the image's own cache.
  void FinishImage() const { ASSERT_TRUE(RunLdconfig(theirs_)); }
  // The hook on a copy of the root; ldconfig on the root itself, with the files of the loader that
  // the hook has left.
  void Compare(const Names& requested) const {
    fs::copy(theirs_, ours_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto root = ContainerRoot::Open(ours_);
    ASSERT_TRUE(root && UpdateLdCache(*root, requested));
    const auto replace = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
    if (fs::exists(ours_ / "etc/ld.so.conf.d")) {
      fs::copy(ours_ / "etc/ld.so.conf.d", theirs_ / "etc/ld.so.conf.d", replace);
    }
    fs::copy(ours_ / "etc/ld.so.conf", theirs_ / "etc/ld.so.conf", replace);
    ASSERT_TRUE(RunLdconfig(theirs_));
    EXPECT_EQ(Found(ours_), Found(theirs_));
  }

  const test_support::TemporaryFolder folder_;
  const fs::path theirs_ = folder_.path() / "theirs";
  const fs::path ours_ = folder_.path() / "ours";
};

// The driver's folder is one of the system's, and searched before the one that the image has the
// library in.
TEST_F(Searched, TheFolderThatIsSearchedFirstCountsAlsoAgainstTheImagesCache) {
  Write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
  Library("/usr/lib/libcuda.so.1", "libcuda.so.1");
  FinishImage();
  Library(std::string(kSystem) + "/libcuda.so.580.95.05", "libcuda.so.1");
  Compare({kSystem});
  EXPECT_EQ(Found(ours_)["libcuda.so.1"],
            (Names{"usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "usr/lib/libcuda.so.1"}));
}

TEST_F(Searched, AFolderThatIsNamedBeforeTheIncludedFilesComesBeforeTheDrivers) {
  Write("/etc/ld.so.conf", "/opt/own\ninclude /etc/ld.so.conf.d/*.conf\n");
  Library("/opt/own/libcuda.so.1", "libcuda.so.1");
  FinishImage();
  Library("/opt/driver/libcuda.so.580.95.05", "libcuda.so.1");
  Compare({"/opt/driver"});
  EXPECT_EQ(Found(ours_)["libcuda.so.1"],
            (Names{"opt/own/libcuda.so.1", "opt/driver/libcuda.so.580.95.05"}));
}

// What has come or gone since the image's cache was made.
TEST_F(Searched, ACacheThatIsOutOfDate) {
  Write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
  Write("/etc/ld.so.conf.d/libc.conf", "/usr/local/lib\n");
  Library("/usr/local/lib/libgone.so.1", "libgone.so.1");
  Library(std::string(kSystem) + "/libgone.so.1", "libgone.so.1");
  FinishImage();
  fs::remove(Below(theirs_, "/usr/local/lib/libgone.so.1"));
  Library("/usr/local/lib/libcome.so.1", "libcome.so.1");
  Library("/opt/driver/libcuda.so.1", "libcuda.so.1");
  Compare({"/opt/driver"});
  EXPECT_EQ(Found(ours_)["libgone.so.1"], Names{"usr/lib/x86_64-linux-gnu/libgone.so.1"});
  EXPECT_EQ(Found(ours_)["libcome.so.1"], Names{"usr/local/lib/libcome.so.1"});
}

// Names that ldconfig sorts before and after the hook's file, and a file that includes others of
// its own folder.
TEST_F(Searched, WhereTheHooksFileStandsAmongTheIncluded) {
  Write("/etc/ld.so.conf", "include\tld.so.conf.d/*.conf  more/*.list\n/opt/last/\n");
  Write("/etc/ld.so.conf.d/00-cuda.conf", "/opt/before\n");
  Write("/etc/ld.so.conf.d/000.conf", "/opt/after # comment\ninclude deep/*.conf\n");
  Write("/etc/ld.so.conf.d/deep/one.conf", "/opt/deep\n");
  Write("/etc/more/a.list", "/opt/more\n");
  for (const char* folder : {"before", "after", "deep", "more", "last"}) {
    Library(fmt::format("/opt/{}/libx.so.1", folder), "libx.so.1");
  }
  FinishImage();
  Library("/opt/driver/libx.so.1.2", "libx.so.1");
  Compare({"/opt/driver"});
  EXPECT_EQ(Found(ours_)["libx.so.1"],
            (Names{"opt/before/libx.so.1", "opt/driver/libx.so.1.2", "opt/after/libx.so.1",
                   "opt/deep/libx.so.1", "opt/more/libx.so.1", "opt/last/libx.so.1"}));
}

// Whoever ran "ldconfig FOLDER" in an image wants what is there to be found; ldconfig, when it runs
// again, forgets it.
TEST_F(Searched, FoldersThatOnlyTheImagesCacheNamesStayBehindAllElse) {
  Write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
  Library("/opt/stubs/libcuda.so.1", "libcuda.so.1");
  Library("/opt/stubs/libown.so.1", "libown.so.1");
  ASSERT_EQ(
      test_support::Program("/sbin/ldconfig", {"-r", theirs_.string(), "/opt/stubs"}, {}).Wait(),
      0);
  Library(std::string(kSystem) + "/libcuda.so.580.95.05", "libcuda.so.1");
  const auto root = ContainerRoot::Open(theirs_);
  ASSERT_TRUE(root && UpdateLdCache(*root, {kSystem}));
  EXPECT_EQ(Found(theirs_)["libcuda.so.1"],
            (Names{"usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "opt/stubs/libcuda.so.1"}));
  EXPECT_EQ(Found(theirs_)["libown.so.1"], Names{"opt/stubs/libown.so.1"});
}

class RandomRoot : public Searched, public ::testing::WithParamInterface<int> {
 protected:
  const std::string& One(const Names& of) { return of[random_() % of.size()]; }
  bool Maybe() { return random_() % 2 == 0; }
  void AddLibraries(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string soname = One({"libone.so.1", "libtwo.so.2", "libthree.so.3"});
      const std::string path =
          fmt::format("{}/{}{}", One(folders_), soname, One({"", ".1", ".1", ".10"}));
      if (!fs::exists(fs::symlink_status(Below(theirs_, path)))) Library(path, soname);
    }
  }
  void Configure() {
    std::string text;
    for (int i = random_() % 3; i > 0; --i) text += One(folders_) + "\n";
    text += One({"include /etc/ld.so.conf.d/*.conf\n", "include ld.so.conf.d/*.conf\n"});
    for (int i = random_() % 3; i > 0; --i) text += One(folders_) + One({"", "/", " "}) + "\n";
    if (Maybe() || Maybe()) Write("/etc/ld.so.conf", text);
    for (int i = random_() % 4; i > 0; --i) {
      Write(fmt::format("/etc/ld.so.conf.d/{}.conf",
                        One({"00-a", "000", "libc", "x86_64-linux-gnu", "00-nvcr-0"})),
            One(folders_) + "\n" + One(folders_) + "\n");
    }
  }
  // With the links that lead to it.
  void RemoveOne() {
    const auto folder = Below(theirs_, One(folders_));
    std::error_code missing;
    Names files;
    for (const auto& entry : fs::directory_iterator(folder, missing)) {
      if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path().filename());
    }
    if (files.empty()) return;
    std::ranges::sort(files);
    const std::string gone = One(files);
    fs::remove(folder / gone);
    Names links;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_symlink() && !fs::exists(entry.path())) links.push_back(entry.path());
    }
    for (const auto& link : links) fs::remove(link);
  }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
  const Names folders_ = {"/usr/local/lib", "/opt/first", "/opt/second", "/usr/lib",
                          "/lib",           kSystem,      "/opt/driver", "/lib/x86_64-linux-gnu"};
};

TEST_P(RandomRoot, EachNameLeadsToTheSameFiles) {
  for (const auto& folder : folders_) fs::create_directories(Below(theirs_, folder));
  Configure();
  AddLibraries(8);
  if (Maybe() || Maybe()) {
    if (!fs::exists(theirs_ / "etc/ld.so.conf")) Write("/etc/ld.so.conf", "/usr/local/lib\n");
    FinishImage();
    if (Maybe()) RemoveOne();
  }
  AddLibraries(6);
  Names requested = {One({"/opt/driver", kSystem, "/opt/second", "/usr/lib"})};
  if (Maybe()) requested.push_back(One(folders_));
  // Where nothing includes the hook's file, ldconfig does not look there, and the hook does.
  const auto conf = base::ReadFile(theirs_ / "etc/ld.so.conf").value_or("include");
  if (conf.find("include") == std::string::npos) return;
  Compare(requested);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomRoot, ::testing::Range(0, 60));

}  // namespace
}  // namespace pitcrew::shim
