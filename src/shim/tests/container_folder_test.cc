#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/file.h"
#include "shim/container_root.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::shim {
namespace {

namespace fs = std::filesystem;

class OneFolder : public ::testing::Test {
 protected:
  OneFolder() { fs::create_directories(At("")); }
  [[nodiscard]] fs::path At(const std::string& name) const {
    return folder_.path() / "root/lib" / name;
  }
  void Write(const std::string& name, const std::string& content) const {
    ASSERT_TRUE(base::WriteFileAtomically(At(name), content, 0644));
  }
  [[nodiscard]] ContainerFolder Open() const {
    const auto root = ContainerRoot::Open(folder_.path() / "root");
    return *root->OpenFolder("/lib");
  }
  // What OpenFile gives for each name: "" or the error's reason.
  static std::vector<std::string> Reasons(ContainerFolder& folder,
                                          const std::vector<std::string>& names) {
    std::vector<std::string> reasons;
    for (const auto& name : names) {
      const auto file = folder.OpenFile(name);
      reasons.push_back(file ? "" : file.error().reason);
    }
    return reasons;
  }

  const test_support::TemporaryFolder folder_;
};

TEST_F(OneFolder, NamesAreSortedAndLinksAreTold) {
  // More than one call of the kernel's gives.
  for (int i = 0; i < 3000; ++i) Write("file-" + std::to_string(i), "");
  fs::create_symlink("file-0", At("a-link"));
  fs::create_directory(At("z-folder"));
  auto folder = Open();
  const auto entries = folder.List();
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 3002U);
  EXPECT_TRUE(std::ranges::is_sorted(*entries, {}, &ContainerFolder::Entry::name));
  EXPECT_EQ(entries->front().name, "a-link");
  EXPECT_EQ(entries->back().name, "z-folder");
  EXPECT_EQ(std::ranges::count_if(*entries, &ContainerFolder::Entry::is_link), 1);
}

TEST_F(OneFolder, OnlyRegularFilesAreOpened) {
  Write("file", "content");
  fs::create_symlink("file", At("link"));
  fs::create_directory(At("folder"));
  ASSERT_EQ(::mkfifo(At("fifo").c_str(), 0644), 0);
  auto folder = Open();
  const auto file = folder.OpenFile("file");
  ASSERT_TRUE(file);
  std::array<char, 16> bytes{};
  EXPECT_EQ(::read(file->get(), bytes.data(), bytes.size()), 7);
  EXPECT_EQ(Reasons(folder, {"link", "folder", "fifo"}),
            std::vector<std::string>(3, "NotARegularFile"));
  EXPECT_EQ(*folder.ReadLink("link"), "file");
  EXPECT_EQ(folder.OpenFile("missing").error().code, base::Code::kNotFound);
}

// That files of the folder's own device may be read says nothing of what is mounted there.
TEST_F(OneFolder, WhatTheKernelMakesUpIsNotReadBesideFilesThatAre) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounts need root";
  Write("first", "content");
  Write("mounted", "");
  const auto reasons_are_right = [&] {
    auto folder = Open();
    return Reasons(folder, {"first", "mounted", "first"}) ==
           std::vector<std::string>{"", "NotARegularFile", ""};
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const bool ready =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("/proc/version", At("mounted").c_str(), nullptr, MS_BIND, nullptr) == 0;
    ::_exit(!ready ? 2 : reasons_are_right() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace pitcrew::shim
