#include "base/elf.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/file_descriptor.h"

namespace pitcrew::base {
namespace {

FileDescriptor Open(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::filesystem::path CLibrary() {
  for (const auto* path : {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
                           "/lib64/libc.so.6"}) {
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}

TEST(Elf, ReadsTheSonameOfTheCLibrary) {
  const auto file = Open(CLibrary());
  ASSERT_TRUE(file.valid());
  const auto library = ReadElfLibrary(file.get());
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ(library->soname, "libc.so.6");
  EXPECT_EQ(library->is_64_bit, sizeof(void*) == 8);
  EXPECT_TRUE(ReadElfSection(file.get(), ".note.gnu.build-id"));
  EXPECT_EQ(ReadElfSection(file.get(), ".no-such").error().code, Code::kNotFound);
}

// Untrusted input: every prefix of a library and every flipped header byte ends in a value or an
// error, never in a crash.
TEST(Elf, DamagedFilesAreErrorsNotCrashes) {
  const auto content = ReadFile(CLibrary());
  ASSERT_TRUE(content);
  const auto path = std::filesystem::path(::testing::TempDir()) / "pitcrew-damaged.so";
  for (const std::size_t size : {0UL, 3UL, 16UL, 60UL, 64UL, 100UL, 1000UL, 5000UL}) {
    ASSERT_TRUE(WriteFileAtomically(path, content->substr(0, size)));
    EXPECT_FALSE(ReadElfLibrary(Open(path).get())) << size;
  }
  for (std::size_t at = 4; at < 256; at += 3) {
    std::string damaged = content->substr(0, 1U << 16);
    damaged[at] = static_cast<char>(0xff);
    ASSERT_TRUE(WriteFileAtomically(path, damaged));
    const auto file = Open(path);
    (void)ReadElfLibrary(file.get());
    (void)ReadElfSection(file.get(), ".text");
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace pitcrew::base
