// What options of the search find in a driver's root.
#include "cdi/generate/locate.h"

#include <gtest/gtest.h>

#include "base/ld_cache.h"
#include "base/testing/elf_file.h"
#include "cdi/generate/edits.h"
#include "cdi/generate/locate_graphics.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::cdi_generate {
namespace {

using Strings = std::vector<std::string>;

class SearchTest : public ::testing::Test {
 protected:
  SearchTest() {
    options_.driver_root = options_.dev_root = host::Root(folder_.path());
    options_.sys = folder_.path() / "sys";
    options_.proc = folder_.path() / "proc";
  }
  void Library(const std::string& inside, const std::string& soname) const {
    folder_.Write(inside, base::testing::MakeElfLibrary(soname));
  }
  void Link(const std::string& inside, const std::string& target) const {
    std::filesystem::create_symlink(target, folder_.path() / inside);
  }
  [[nodiscard]] DriverFiles Located() const {
    const auto files = Locate(options_);
    EXPECT_TRUE(files) << files.error().ToString();
    return files.value_or(DriverFiles{});
  }
  [[nodiscard]] Strings Libraries() const {
    Strings paths;
    for (const auto& library : Located().libraries) paths.push_back(library.path);
    return paths;
  }
  test_support::TemporaryFolder folder_;
  LocateOptions options_;
};

TEST_F(SearchTest, ADriverInAFolderOfItsOwnIsFoundByTheLoadersCache) {
  RecordProperty("holds", "container-toolkit.md #95");
  Library("opt/nv/libcuda.so.580.95.05", "libcuda.so.1");
  Library("opt/nv/libnvidia-ptxjitcompiler.so.580.95.05", "libnvidia-ptxjitcompiler.so.1");
  Link("opt/nv/libcuda.so.1", "libcuda.so.580.95.05");
  base::LdCache cache;
  cache.entries.push_back({0x0303, "libcuda.so.1", "/opt/nv/libcuda.so.1", 0, 0});
  folder_.Write("etc/ld.so.cache", base::WriteLdCache(cache));
  const auto files = Located();
  EXPECT_EQ(files.version, "580.95.05");
  EXPECT_EQ(files.library_folders, Strings{"/opt/nv"});
  EXPECT_EQ(Libraries(), (Strings{"/opt/nv/libcuda.so.580.95.05",
                                  "/opt/nv/libnvidia-ptxjitcompiler.so.580.95.05"}));
}

TEST_F(SearchTest, FoldersThatAreNamedTakeThePlaceOfOthers) {
  Library("usr/lib64/libcuda.so.580.95.05", "libcuda.so.1");
  Library("opt/a/libcuda.so.570.1.2", "libcuda.so.1");
  options_.library_folders = {"/opt/a"};
  EXPECT_EQ(Located().version, "570.1.2");
  EXPECT_EQ(Libraries(), Strings{"/opt/a/libcuda.so.570.1.2"});
  folder_.Write("opt/conf/glvnd/egl_vendor.d/10_nvidia.json", "{}");
  folder_.Write("usr/share/nvidia/nvoptix.bin", "x");
  options_.config_folders = {"/opt/conf"};
  EXPECT_EQ(Located().graphics,
            (std::vector<File>{{"/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
                                "/opt/conf/glvnd/egl_vendor.d/10_nvidia.json"}}));
}

// As nvidia_icd.json of an H200's machine, which NVIDIA's toolkit names as it finds it.
TEST_F(SearchTest, LinksOfTheMachinesOwnRootStay) {
  folder_.Write("opt/nv/icd.json", "{}");
  Link("icd.json", "opt/nv/icd.json");
  const std::string folder = folder_.path();
  const std::string_view own[] = {folder};
  EXPECT_EQ(LocateFirst(host::Root("/"), own, "icd.json"), (File{folder + "/icd.json", ""}));
  const std::string_view root[] = {""};
  EXPECT_EQ(LocateFirst(host::Root(folder), root, "icd.json"),
            (File{"/icd.json", "/opt/nv/icd.json"}));
}

TEST_F(SearchTest, ProgramsAreLookedForInFoldersThatAreNamed) {
  Library("usr/lib64/libcuda.so.580.95.05", "libcuda.so.1");
  folder_.Write("opt/nv/bin/nvidia-smi", "x");
  folder_.Write("usr/bin/nvidia-smi", "x");
  EXPECT_EQ(Located().programs.at(0).path, "/usr/bin/nvidia-smi");
  options_.program_folders = {"/opt/none", "/opt/nv/bin", "/usr/bin"};
  EXPECT_EQ(Located().programs.at(0).path, "/opt/nv/bin/nvidia-smi");
}

// container-toolkit.md 6.6, "driver libraries".
TEST_F(SearchTest, LibrariesWithoutTheDriversVersionOnlyWhenAskedFor) {
  Library("usr/lib64/libcuda.so.580.95.05", "libcuda.so.1");
  Library("usr/lib64/libGL.so.1.7.0", "libGL.so.1");
  Link("usr/lib64/libGL.so.1", "libGL.so.1.7.0");
  Link("usr/lib64/libGL.so", "libGL.so.1");
  Link("usr/lib64/libEGL.so", "libGL.so.1");
  Link("usr/lib64/libOpenCL.so", "nowhere");
  Library("opt/libGLX.so", "libGLX.so.0");
  EXPECT_EQ(Libraries(), Strings{"/usr/lib64/libcuda.so.580.95.05"});
  options_.unversioned_libraries = true;
  EXPECT_EQ(Libraries(), (Strings{"/usr/lib64/libcuda.so.580.95.05", "/usr/lib64/libGL.so.1.7.0"}));
  EXPECT_EQ(LibraryLinks(Located().libraries),
            (Strings{"libcuda.so.1::/usr/lib64/libcuda.so", "libGL.so.1.7.0::/usr/lib64/libGL.so.1",
                     "libGL.so.1::/usr/lib64/libGL.so"}));
}

}  // namespace
}  // namespace pitcrew::cdi_generate
