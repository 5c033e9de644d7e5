#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/ld_cache.h"
#include "base/testing/elf_file.h"
#include "shim/cdi_hook.h"
#include "shim/container_root.h"
#include "shim/cuda_compat.h"
#include "shim/ld_cache_update.h"
#include "shim/loader_folders.h"

namespace pitcrew::shim {
namespace {

namespace fs = std::filesystem;
using base::LdCache;
using base::ParseLdCache;
using base::WriteLdCache;
using Names = std::vector<std::string>;

class InContainer : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(::testing::TempDir()) / ("pitcrew-shim-container-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "root");
    fs::create_directories(folder_ / "outside");
    auto root = ContainerRoot::Open(folder_ / "root");
    ASSERT_TRUE(root) << root.error().message;
    root_.emplace(*std::move(root));
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& path, const std::string& content) {
    ASSERT_TRUE(base::WriteFileAtomically(At(path), content, 0755));
  }
  void Library(const std::string& path, const std::string& soname) {
    Write(path, base::testing::MakeElfLibrary(soname));
  }
  [[nodiscard]] fs::path At(const std::string& path) const {
    return folder_ / "root" / path.substr(1);
  }
  [[nodiscard]] std::string Read(const std::string& path) const {
    const auto text = base::ReadFile(At(path));
    return text ? *text : text.error().reason;
  }
  // "name path" lines of the container's cache.
  [[nodiscard]] Names Cache() const {
    Names lines;
    const auto cache = ParseLdCache(Read("/etc/ld.so.cache"));
    EXPECT_TRUE(cache) << cache.error().message;
    if (!cache) return lines;
    for (const auto& entry : cache->entries) lines.push_back(entry.name + " " + entry.path);
    return lines;
  }
  [[nodiscard]] Names ConfFiles(const std::string& prefix) const {
    Names texts;
    const auto names = root_->List("/etc/ld.so.conf.d");
    for (const auto& name : *names) {
      if (name.starts_with(prefix)) texts.push_back(Read("/etc/ld.so.conf.d/" + name));
    }
    return texts;
  }
  [[nodiscard]] bool OutsideIsUntouched() const { return fs::is_empty(folder_ / "outside"); }

  fs::path folder_;
  std::optional<ContainerRoot> root_;
};

// container-toolkit.md 9.1: the host is never a container.
TEST(ContainerRootTest, RefusesTheHost) {
  EXPECT_EQ(ContainerRoot::Open("").error().reason, "InvalidContainerRoot");
  EXPECT_EQ(ContainerRoot::Open("/").error().reason, "InvalidContainerRoot");
  EXPECT_EQ(ContainerRoot::Open("//.").error().reason, "InvalidContainerRoot");
}

// A hostile image must not lead a hook out of its root.
TEST_F(InContainer, LinksNeverLeadOutside) {
  RecordProperty("holds", "container-toolkit.md #131");
  const std::string outside = (folder_ / "outside").string();
  fs::create_directory_symlink(outside, At("/absolute"));
  fs::create_directory_symlink("../outside", At("/relative"));
  fs::create_symlink(outside + "/file", At("/etc"));
  EXPECT_FALSE(CreateSymlinks(*root_, {"target::/absolute/link"}));
  EXPECT_FALSE(CreateSymlinks(*root_, {"target::/relative/link"}));
  EXPECT_FALSE(UpdateLdCache(*root_, {"/usr/lib"}));
  EXPECT_TRUE(OutsideIsUntouched());
  fs::create_directories(At(outside));
  EXPECT_TRUE(CreateSymlinks(*root_, {"target::/absolute/link"}));
  EXPECT_EQ(fs::read_symlink(At(outside + "/link")), "target");
  EXPECT_TRUE(CreateSymlinks(*root_, {"target::/../../../up"}));
  EXPECT_EQ(fs::read_symlink(At("/up")), "target");
  EXPECT_TRUE(OutsideIsUntouched());
}

TEST_F(InContainer, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(At("/pipe").c_str(), 0666), 0);
  fs::create_directory(At("/folder"));
  EXPECT_EQ(root_->ReadFile("/pipe").error().reason, "NotARegularFile");
  EXPECT_EQ(root_->ReadFile("/folder").error().reason, "NotARegularFile");
  EXPECT_EQ(root_->ReadFile("/none").error().code, base::Code::kNotFound);
  Write("/big", std::string(100, 'x'));
  EXPECT_EQ(root_->ReadFile("/big", 99).error().reason, "FileTooLarge");
}

TEST_F(InContainer, CreateSymlinks) {
  RecordProperty("holds", "container-toolkit.md #131");
  Write("/usr/lib/old", "x");
  ASSERT_TRUE(CreateSymlinks(*root_, {"libcuda.so.1::/usr/lib/libcuda.so", "/a/b::/new/folder/link",
                                      "target::/usr/lib/old"}));
  EXPECT_EQ(fs::read_symlink(At("/usr/lib/libcuda.so")), "libcuda.so.1");
  EXPECT_EQ(fs::read_symlink(At("/new/folder/link")), "/a/b");
  EXPECT_EQ(fs::read_symlink(At("/usr/lib/old")), "target");
  struct stat before{};
  struct stat after{};
  ASSERT_EQ(::lstat(At("/usr/lib/libcuda.so").c_str(), &before), 0);
  ASSERT_TRUE(CreateSymlinks(*root_, {"libcuda.so.1::/usr/lib/libcuda.so"}));
  ASSERT_EQ(::lstat(At("/usr/lib/libcuda.so").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(CreateSymlinks(*root_, {"no-separator"}).error().reason, "BadUsage");
  EXPECT_EQ(CreateSymlinks(*root_, {"a::b::c"}).error().reason, "BadUsage");
}

TEST_F(InContainer, ChangeModes) {
  Write("/dev/x", "");
  ASSERT_TRUE(ChangeModes(*root_, 0700, {"/dev/x", "/dev/missing"}));
  EXPECT_EQ(fs::status(At("/dev/x")).permissions(), fs::perms::owner_all);
}

// container-toolkit.md 9.1 items 1 and 2, #136, #137, #138.
TEST_F(InContainer, FreshContainerGetsACacheLinksAndConfiguration) {
  RecordProperty("holds", "container-toolkit.md #136, #137, #138");
  fs::create_directories(At("/usr/lib/x86_64-linux-gnu"));
  Library("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "libcuda.so.1");
  Library("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6");
  Library("/opt/driver/libnvidia-ml.so.580.95.05", "libnvidia-ml.so.1");
  Write("/opt/driver/libtext.so", "INPUT(libm.so.6)");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/usr/lib/x86_64-linux-gnu", "/opt/driver"}));
  EXPECT_EQ(fs::read_symlink(At("/usr/lib/x86_64-linux-gnu/libcuda.so.1")), "libcuda.so.580.95.05");
  EXPECT_EQ(fs::read_symlink(At("/opt/driver/libnvidia-ml.so.1")), "libnvidia-ml.so.580.95.05");
  EXPECT_EQ(Cache(), (Names{"libnvidia-ml.so.1 /opt/driver/libnvidia-ml.so.1",
                            "libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.1",
                            "libc.so.6 /usr/lib/x86_64-linux-gnu/libc.so.6"}));
  EXPECT_EQ(Read("/etc/ld.so.conf"), "include /etc/ld.so.conf.d/*.conf\n");
  EXPECT_EQ(ConfFiles("00-nvcr-"), Names{"/opt/driver\n"});
  // Again: nothing new.
  ASSERT_TRUE(UpdateLdCache(*root_, {"/usr/lib/x86_64-linux-gnu", "/opt/driver"}));
  EXPECT_EQ(ConfFiles("00-nvcr-").size(), 1U);
  EXPECT_EQ(Cache().size(), 3U);
}

TEST_F(InContainer, ExistingCacheIsKeptAndDriverComesFirstOnlyFromItsOwnFolders) {
  LdCache cache;
  cache.hwcaps = {"x86-64-v3"};
  cache.entries = {
      {0x303, "libfoo.so.1", "/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libfoo.so.1", 0,
       std::uint64_t{1} << 62},
      {0x303, "libfoo.so.1", "/usr/lib/x86_64-linux-gnu/libfoo.so.1", 0, 0},
      {0x303, "libcuda.so.1", "/usr/local/cuda/stubs/libcuda.so.1", 0, 0}};
  Write("/etc/ld.so.cache", WriteLdCache(cache));
  Write("/etc/ld.so.conf",
        "# mine\n/usr/local/cuda/stubs # comment\ninclude ld.so.conf.d/*.none\n");
  Library("/opt/driver/libcuda.so.2", "libcuda.so.1");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/opt/driver"}));
  EXPECT_EQ(Cache(),
            (Names{"libfoo.so.1 /usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libfoo.so.1",
                   "libfoo.so.1 /usr/lib/x86_64-linux-gnu/libfoo.so.1",
                   "libcuda.so.1 /opt/driver/libcuda.so.1",
                   "libcuda.so.1 /usr/local/cuda/stubs/libcuda.so.1"}));
  EXPECT_EQ(ParseLdCache(Read("/etc/ld.so.cache"))->hwcaps, Names{"x86-64-v3"});
  EXPECT_EQ(Read("/etc/ld.so.conf").substr(0, 6), "# mine");
}

// Files that include one another eight deep would be read eight to the power of their number times.
TEST_F(InContainer, LoaderFilesThatIncludeOneAnotherAreReadOnce) {
  std::string all;
  for (int i = 0; i < 30; ++i) all += "include /etc/ld.so.conf.d/" + std::to_string(i) + ".conf\n";
  Write("/etc/ld.so.conf", all);
  for (int i = 0; i < 30; ++i) {
    Write("/etc/ld.so.conf.d/" + std::to_string(i) + ".conf",
          all + "/opt/" + std::to_string(i) + "\n");
  }
  const auto folders = ReadLoaderFolders(*root_);
  ASSERT_TRUE(folders) << folders.error().message;
  EXPECT_EQ(folders->folders.size(), 30u);
}

TEST_F(InContainer, EndlessLoaderConfigurationIsRefused) {
  std::string folders;
  for (int i = 0; i < 5000; ++i) folders += "/opt/" + std::to_string(i) + "\n";
  Write("/etc/ld.so.conf", folders);
  EXPECT_EQ(ReadLoaderFolders(*root_).error().reason, "LoaderConfigurationTooLarge");
  std::string includes;
  for (int i = 0; i < 1100; ++i) includes += "include none/" + std::to_string(i) + "\n";
  Write("/etc/ld.so.conf", includes);
  EXPECT_EQ(ReadLoaderFolders(*root_).error().reason, "LoaderConfigurationTooLarge");
}

// A volume can be the host's, or another tenant's.
TEST_F(InContainer, NothingIsWrittenToVolumes) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  fs::create_directories(At("/etc"));
  fs::create_directories(At("/opt/driver"));
  Library("/opt/driver/libx.so.1.2", "libx.so.1");
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount((folder_ / "outside").c_str(), At("/etc").c_str(), nullptr, MS_BIND, nullptr) == 0;
    if (!mounted) ::_exit(2);
    // Opened where the volume is mounted.
    const auto root = ContainerRoot::Open(folder_ / "root");
    const auto updated = UpdateLdCache(*root, {"/opt/driver"});
    const auto linked = root->SetLink("/etc/alternatives/x", "y");
    const bool refused = !updated && updated.error().reason == "OnAnotherMount" && !linked &&
                         linked.error().reason == "OnAnotherMount";
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_NE(WEXITSTATUS(status), 2) << "mounting failed";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(fs::is_empty(folder_ / "outside"));
}

TEST_F(InContainer, MuslReadsAPathFile) {
  Write("/etc/alpine-release", "3.20\n");
  Library("/opt/driver/libcuda.so.1", "libcuda.so.1");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/opt/driver"}));
  EXPECT_TRUE(Read("/etc/ld-musl-x86_64.path")
                  .starts_with("/opt/driver\n/lib\n/usr/local/lib\n/usr/lib\n"));
  ASSERT_TRUE(UpdateLdCache(*root_, {"/opt/driver"}));
  EXPECT_EQ(Read("/etc/ld-musl-x86_64.path"),
            "/opt/driver\n/lib\n/usr/local/lib\n/usr/lib\n/lib64\n/usr/lib64\n");
}

// A driver's libraries, mounted at Debian's folder of another distribution's image: its own
// ldconfig would not look there.
TEST_F(InContainer, AFolderThatTheDriverMadeIsNamed) {
  Library("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.1");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/usr/lib/x86_64-linux-gnu"}));
  EXPECT_EQ(ConfFiles("00-nvcr-"), Names{"/usr/lib/x86_64-linux-gnu\n"});
}

// Without a cache all of an image's libraries are looked for.
TEST_F(InContainer, LibrariesOfDebiansLayoutInAnImageThatIsNotDebians) {
  Library("/usr/lib/x86_64-linux-gnu/libown.so.1", "libown.so.1");
  Library("/opt/driver/libcuda.so.1", "libcuda.so.1");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/opt/driver"}));
  EXPECT_EQ(Cache(), (Names{"libown.so.1 /usr/lib/x86_64-linux-gnu/libown.so.1",
                            "libcuda.so.1 /opt/driver/libcuda.so.1"}));
}

// What the hook's own ld.so.conf will include counts as named.
TEST_F(InContainer, AFolderOfAnImageWithoutLoaderConfiguration) {
  Write("/etc/ld.so.conf.d/own.conf", "/opt/own\n");
  Library("/opt/own/libown.so.1", "libown.so.1");
  Library("/opt/driver/libcuda.so.1", "libcuda.so.1");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/opt/own", "/opt/driver"}));
  EXPECT_EQ(Read("/etc/ld.so.conf"), "include /etc/ld.so.conf.d/*.conf\n");
  EXPECT_EQ(ConfFiles("00-nvcr-"), Names{"/opt/driver\n"});
  EXPECT_EQ(Cache(),
            (Names{"libown.so.1 /opt/own/libown.so.1", "libcuda.so.1 /opt/driver/libcuda.so.1"}));
}

// Folders that are made for the profile are read-only; one that was there stays as it is.
TEST_F(InContainer, FoldersOfTheApplicationProfile) {
  if (::geteuid() != 0) GTEST_SKIP() << "device nodes need root";
  fs::create_directories(At("/dev"));
  ASSERT_EQ(::mknod(At("/dev/nvidia0").c_str(), S_IFCHR | 0666, ::gnu_dev_makedev(195, 0)), 0);
  const auto mode = [&](const char* path) {
    return static_cast<int>(fs::status(At(path)).permissions());
  };
  ASSERT_TRUE(UpdateApplicationProfile(*root_));
  EXPECT_EQ(mode("/etc/nvidia"), 0555);
  EXPECT_EQ(mode("/etc/nvidia/nvidia-application-profiles-rc.d"), 0555);
  fs::permissions(At("/etc/nvidia"), fs::perms(0755));
  ASSERT_TRUE(UpdateApplicationProfile(*root_));
  EXPECT_EQ(mode("/etc/nvidia"), 0755);
}

// An image that has chosen its folders has left others out on purpose.
TEST_F(InContainer, MuslKeepsTheListOfTheImage) {
  Write("/etc/alpine-release", "3.20\n");
  Write("/etc/ld-musl-x86_64.path", "/opt/own\n");
  Library("/opt/driver/libcuda.so.1", "libcuda.so.1");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/opt/driver"}));
  EXPECT_EQ(Read("/etc/ld-musl-x86_64.path"),
            "/opt/own\n/opt/driver\n/lib\n/usr/lib\n/lib64\n/usr/lib64\n");
}

// The newest of several versions without a link of the SONAME.
TEST_F(InContainer, SonameLinkPointsAtTheNewestVersion) {
  Library("/opt/d/libx.so.9.1", "libx.so.1");
  Library("/opt/d/libx.so.10.2", "libx.so.1");
  ASSERT_TRUE(UpdateLdCache(*root_, {"/opt/d"}));
  EXPECT_EQ(fs::read_symlink(At("/opt/d/libx.so.1")), "libx.so.10.2");
}

std::string Note(const std::string& json) {
  const std::string owner("NVIDIA Corporation\0\0", 20);
  const std::uint32_t sizes[3] = {19, static_cast<std::uint32_t>(json.size()), 1};
  std::string note(sizeof(sizes), '\0');
  std::memcpy(note.data(), sizes, sizeof(sizes));
  return note + owner + json;
}
constexpr const char* kNoteJson =
    R"({"Format":1,"CUDA Version":"12.9","Driver":[535,550,560,565,570,575],"Device":[]})";

TEST_F(InContainer, CudaCompatWithoutNote) {
  RecordProperty("holds", "container-toolkit.md #132");
  const auto directory = [&](const std::string& host, const std::string& folder) {
    fs::remove_all(At("/etc"));
    const auto status = EnableCudaCompat(*root_, {host, "", folder});
    EXPECT_TRUE(status) << status.error().message;
    const auto files = ConfFiles("00-compat-");
    return files.empty() ? std::string() : files.front();
  };
  Library("/usr/local/cuda-13/compat/libcuda.so.333.88.99", "libcuda.so.1");
  fs::create_symlink("libcuda.so.333.88.99", At("/usr/local/cuda-13/compat/libcuda.so.1.1"));
  fs::create_directory_symlink("/usr/local/cuda-13", At("/usr/local/cuda"));
  const std::string standard = "/usr/local/cuda/compat";
  EXPECT_EQ(directory("222.55.66", standard), "/usr/local/cuda-13/compat\n");
  EXPECT_EQ(directory("99.1.1", standard), "/usr/local/cuda-13/compat\n");
  EXPECT_EQ(directory("333.1.1", standard), "");
  EXPECT_EQ(directory("444.1.1", standard), "");
  EXPECT_EQ(directory("", standard), "");
  EXPECT_EQ(directory("222.55.66", "/other"), "");
  Library("/other/libcuda.so.333.1", "libcuda.so.1");
  EXPECT_EQ(directory("222.55.66", "/other"), "/other\n");
  Library("/other/libcuda.so.334.1", "libcuda.so.1");
  EXPECT_EQ(directory("222.55.66", "/other"), "");
}

TEST(CudaCompat, DecisionWithNote) {
  RecordProperty("holds", "container-toolkit.md #133");
  const auto note = ParseCompatNote(Note(kNoteJson));
  ASSERT_TRUE(note) << note.error().message;
  const auto by_driver = [&](const char* host) {
    return UseCompat(*note, "575.57.08", {host, "", ""});
  };
  EXPECT_FALSE(by_driver("590.1.1"));
  EXPECT_TRUE(by_driver("570.211.01"));
  EXPECT_TRUE(by_driver("575.10.10"));
  EXPECT_FALSE(by_driver("575.57.08"));
  EXPECT_FALSE(by_driver("575.99.99"));
  const auto by_cuda = [&](const char* host) {
    return UseCompat(*note, "575.57.08", {"", host, ""});
  };
  EXPECT_TRUE(by_cuda("12.8"));
  EXPECT_FALSE(by_cuda("12.9"));
  EXPECT_FALSE(by_cuda("12.10"));
}

// A version that cannot be read is neither newer nor older: the container stays as it is.
TEST(CudaCompat, UnreadableVersionsDecideNothing) {
  EXPECT_TRUE(UseCompat(std::nullopt, "333.1", {"222.1", "", ""}));
  EXPECT_FALSE(UseCompat(std::nullopt, "333.1", {"222.1", "12.9", ""})) << "without a note";
  EXPECT_FALSE(UseCompat(std::nullopt, "odd", {"222.1", "", ""}));
  EXPECT_FALSE(UseCompat(std::nullopt, "333.1", {"odd", "", ""}));
  const auto note = ParseCompatNote(Note(kNoteJson));
  ASSERT_TRUE(note) << note.error().message;
  EXPECT_FALSE(UseCompat(*note, "odd", {"570.1", "", ""}));
  EXPECT_FALSE(UseCompat(*note, "575.57.08", {"odd", "odd", ""}));
  EXPECT_FALSE(UseCompat(*note, "575.57.08", {"", "", ""}));
}

TEST(CudaCompat, NoteParsing) {
  RecordProperty("holds", "container-toolkit.md #134");
  EXPECT_TRUE(ParseCompatNote(Note("{}")));
  EXPECT_FALSE(ParseCompatNote(Note("{")));
  EXPECT_FALSE(ParseCompatNote("short"));
  std::string huge = Note("{}");
  huge[0] = huge[1] = huge[2] = huge[3] = static_cast<char>(0xff);
  EXPECT_FALSE(ParseCompatNote(huge));
}

// container-toolkit.md #135 and 9.2: the compatibility folder wins in the cache.
TEST_F(InContainer, CompatLibrariesComeFirst) {
  RecordProperty("holds", "container-toolkit.md #135");
  RecordProperty("holds", "container-toolkit.md #135");
  fs::create_directories(At("/usr/lib/x86_64-linux-gnu"));
  Library("/usr/lib/x86_64-linux-gnu/libcuda.so.222.1", "libcuda.so.1");
  Library("/usr/local/cuda/compat/libcuda.so.333.1", "libcuda.so.1");
  fs::create_symlink("libcuda.so.333.1", At("/usr/local/cuda/compat/libcuda.so.1"));
  ASSERT_TRUE(UpdateLdCache(*root_, {}));
  ASSERT_TRUE(EnableCudaCompat(*root_, {"222.1", "", "/usr/local/cuda/compat"}));
  ASSERT_TRUE(UpdateLdCache(*root_, {"/usr/lib/x86_64-linux-gnu"}));
  const auto cache = Cache();
  ASSERT_FALSE(cache.empty());
  EXPECT_EQ(cache.front(), "libcuda.so.1 /usr/local/cuda/compat/libcuda.so.1");
}

TEST(Params, OnlyTheExactLineIsChanged) {
  RecordProperty("holds", "container-toolkit.md #139");
  EXPECT_EQ(WithoutDeviceModification("A: 1\nModifyDeviceFiles: 1\nB: 2\n"),
            "A: 1\nModifyDeviceFiles: 0\nB: 2\n");
  EXPECT_EQ(WithoutDeviceModification("ModifyDeviceFiles: 1"), "ModifyDeviceFiles: 0\n");
  for (const auto* text :
       {"", "ModifyDeviceFiles: 0\n", " ModifyDeviceFiles: 1\n", "ModifyDeviceFiles: 1 \n",
        "ModifyDeviceFiles: 11\n", "ModifyDeviceFiles: 1\nModifyDeviceFiles: 0\n"}) {
    EXPECT_EQ(WithoutDeviceModification(text), "") << text;
  }
}

// A node without NVIDIA's kernel modules has no such file: there is nothing to switch off.
TEST_F(InContainer, WithoutADriverNoParametersAreCovered) {
  if (fs::exists("/proc/driver/nvidia/params")) GTEST_SKIP() << "this machine has a driver";
  const auto done = DisableDeviceNodeModification(*root_);
  EXPECT_TRUE(done) << done.error().message;
}

TEST(ApplicationProfileTest, Mask) {
  RecordProperty("holds", "container-toolkit.md #141");
  EXPECT_EQ(ApplicationProfile({0, 15}),
            R"({"profiles":[{"name":"_container_","settings":["EGLVisibleDGPUDevices",0x8001]}],)"
            R"("rules":[{"pattern":[],"profile":"_container_"}]})");
}

TEST_F(InContainer, RootOfTheContainerState) {
  RecordProperty("holds", "container-toolkit.md #130");
  Write("/bundle/config.json", R"({"root":{"path":"rootfs"}})");
  const std::string bundle = At("/bundle").string();
  EXPECT_EQ(*ContainerRootPath(R"({"bundle":")" + bundle + R"("})"), bundle + "/rootfs");
  EXPECT_EQ(*ContainerRootPath(R"({"bundle":")" + bundle + R"(","root":"/given"})"), "/given");
  EXPECT_EQ(*ContainerRootPath(R"({"bundle":")" + bundle + R"(","root":"rel"})"), bundle + "/rel");
  EXPECT_FALSE(ContainerRootPath("{"));
  EXPECT_FALSE(ContainerRootPath(R"({"bundle":"/no/such"})"));
}

TEST(HookCommand, UnknownHooksPassUnknownFlagsDoNot) {
  RecordProperty("holds", "container-toolkit.md #129");
  const auto run = [](std::vector<std::string> words) {
    words.insert(words.begin(), "nvidia-cdi-hook");
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    return RunCdiHook(static_cast<int>(argv.size()), argv.data());
  };
  EXPECT_EQ(run({}), 0);
  for (const char* flag : {"--help", "-h", "--version", "-v"}) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run({flag, "create-symlinks", "--flag"}), 0) << flag;
    EXPECT_NE(::testing::internal::GetCapturedStdout().find("create-symlinks"), std::string::npos)
        << flag;
  }
  EXPECT_EQ(run({"--debug", "create-symlinks", "--flag", "x"}), 1) << "other flags are passed over";
  EXPECT_EQ(run({"of-the-future"}), 0);
  EXPECT_EQ(run({"of-the-future", "--flag", "x"}), 0);
  EXPECT_EQ(run({"noop"}), 0);
  EXPECT_EQ(run({"create-symlinks", "--flag", "x"}), 1);
  EXPECT_EQ(run({"create-symlinks", "--link"}), 1);
  const auto flags = HookFlags::Parse({"--link", "a::b", "-link=a::b", "--link=c::d,e"}, {"link"});
  EXPECT_EQ(flags->All("link"), (Names{"a::b", "c::d,e"}));
}

}  // namespace
}  // namespace pitcrew::shim
