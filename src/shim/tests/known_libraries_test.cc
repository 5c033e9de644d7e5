// The loader's cache of an image whose libraries lie in the folder into which the driver's come, as
// those of all distributions do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/ld_cache.h"
#include "base/testing/elf_file.h"
#include "shim/ld_cache_update.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "/usr/lib/x86_64-linux-gnu";

class KnownLibraries : public ::testing::Test {
 protected:
  KnownLibraries() {
    fs::create_directories(At(kFolder));
    fs::create_symlink("usr/lib", At("/lib"));
    Write("/etc/debian_version", "12.1\n");
  }
  [[nodiscard]] fs::path At(const std::string& path) const {
    return folder_.path() / "root" / path.substr(1);
  }
  void Write(const std::string& path, const std::string& content) const {
    ASSERT_TRUE(base::WriteFileAtomically(At(path), content, 0755));
  }
  void Library(const std::string& name, const std::string& soname) const {
    Write(std::string(kFolder) + "/" + name, base::testing::MakeElfLibrary(soname));
  }
  void Link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, At(std::string(kFolder) + "/" + name));
  }
  // The image's cache: names, and files of the folder by its other path.
  void WriteCache(const std::vector<std::pair<std::string, std::string>>& entries) const {
    base::LdCache cache;
    for (const auto& [name, file] : entries) {
      cache.entries.push_back({0x303, name, "/lib/x86_64-linux-gnu/" + file, 0, 0});
    }
    Write("/etc/ld.so.cache", base::WriteLdCache(cache));
  }
  // "name path" of the cache after the hook.
  [[nodiscard]] std::vector<std::string> Updated() const {
    const auto root = ContainerRoot::Open(folder_.path() / "root");
    EXPECT_TRUE(root && UpdateLdCache(*root, {kFolder}));
    const auto cache = base::ParseLdCache(base::ReadFile(At("/etc/ld.so.cache")).value_or(""));
    std::vector<std::string> lines;
    for (const auto& entry : cache->entries) lines.push_back(entry.name + " " + entry.path);
    return lines;
  }

  const test_support::TemporaryFolder folder_;
};

TEST_F(KnownLibraries, OnlyWhatTheDriverBringsIsAdded) {
  Library("libz.so.1.3.1", "libz.so.1");
  Link("libz.so.1", "libz.so.1.3.1");
  Library("libm.so.6", "libm.so.6");
  // What the cache says of it is not looked at again: a text would not have come into it.
  Write(std::string(kFolder) + "/libtext.so.2", "no library");
  WriteCache(
      {{"libz.so.1", "libz.so.1"}, {"libm.so.6", "libm.so.6"}, {"libtext.so.2", "libtext.so.2"}});
  Library("libcuda.so.580.95.05", "libcuda.so.1");
  EXPECT_EQ(Updated(),
            (std::vector<std::string>{"libz.so.1 /lib/x86_64-linux-gnu/libz.so.1",
                                      "libtext.so.2 /lib/x86_64-linux-gnu/libtext.so.2",
                                      "libm.so.6 /lib/x86_64-linux-gnu/libm.so.6",
                                      "libcuda.so.1 /lib/x86_64-linux-gnu/libcuda.so.1"}));
  EXPECT_EQ(fs::read_symlink(At(std::string(kFolder) + "/libcuda.so.1")), "libcuda.so.580.95.05");
}

// A development link in the cache tells nothing of files with a version behind its name, and a name
// of which the link is gone tells nothing of the file that it led to.
TEST_F(KnownLibraries, NamesThatTellNothingOfAnother) {
  Library("libcuda.so", "libcuda.so");
  WriteCache({{"libcuda.so", "libcuda.so"}, {"libgone.so.1", "libgone.so.1"}});
  Library("libcuda.so.580.95.05", "libcuda.so.1");
  Library("libgone.so.1.7", "libgone.so.1");
  EXPECT_EQ(Updated(), (std::vector<std::string>{"libgone.so.1 /lib/x86_64-linux-gnu/libgone.so.1",
                                                 "libcuda.so.1 /lib/x86_64-linux-gnu/libcuda.so.1",
                                                 "libcuda.so /lib/x86_64-linux-gnu/libcuda.so"}));
  EXPECT_EQ(fs::read_symlink(At(std::string(kFolder) + "/libgone.so.1")), "libgone.so.1.7");
}

// The cache leads a name to a file of another name: the newest of all gets the link.
TEST_F(KnownLibraries, TheNewestOfOneNameAlsoBesideAKnownOne) {
  Library("libnew.so.1.9", "libnew.so.1");
  WriteCache({{"libnew.so.1", "libnew.so.1.9"}});
  Library("libnew.so.1.5", "libnew.so.1");
  (void)Updated();
  EXPECT_EQ(fs::read_symlink(At(std::string(kFolder) + "/libnew.so.1")), "libnew.so.1.9");
}

}  // namespace
}  // namespace pitcrew::shim
