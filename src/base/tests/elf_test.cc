#include "base/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

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

// A library of 64 bits with one SONAME and a section ".note.test"; what readers look at last stands
// last: the name for the library, the section headers for the sections.
struct SmallLibrary {
  Elf64_Ehdr header{};
  Elf64_Phdr load{};
  Elf64_Phdr dynamic{};
  Elf64_Dyn soname{};
  Elf64_Dyn more{};  // DT_NULL
  Elf64_Dyn strings{};
  Elf64_Dyn end{};
  char note[8] = {'n', 'o', 't', 'e', '!', '!', '!', '!'};
  char section_names[24] = "\0.note.test\0.names";
  char names[16] = "\0libsmall.so.1";
  Elf64_Shdr sections[3]{};

  SmallLibrary() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_phoff = offsetof(SmallLibrary, load);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    header.e_shoff = offsetof(SmallLibrary, sections);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 3;
    header.e_shstrndx = 2;
    load.p_type = PT_LOAD;
    load.p_vaddr = kAddress;
    load.p_filesz = sizeof(SmallLibrary);
    dynamic.p_type = PT_DYNAMIC;
    dynamic.p_offset = offsetof(SmallLibrary, soname);
    dynamic.p_filesz = 4 * sizeof(Elf64_Dyn);
    soname.d_tag = DT_SONAME;
    soname.d_un.d_val = 1;
    more.d_tag = DT_DEBUG;
    strings.d_tag = DT_STRTAB;
    strings.d_un.d_ptr = kAddress + offsetof(SmallLibrary, names);
    sections[1].sh_name = 1;
    sections[1].sh_offset = offsetof(SmallLibrary, note);
    sections[1].sh_size = sizeof(note);
    sections[2].sh_name = 12;
    sections[2].sh_offset = offsetof(SmallLibrary, section_names);
    sections[2].sh_size = sizeof(section_names);
  }
  [[nodiscard]] std::string bytes() const {
    return {reinterpret_cast<const char*>(this), sizeof(*this)};
  }
  static constexpr std::uint64_t kAddress = 0x10000;
};

// A file in memory.
FileDescriptor Holding(const std::string& bytes) {
  FileDescriptor file(::memfd_create("elf", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return file;
}

TEST(Elf, ReadsASmallLibrary) {
  const auto file = Holding(SmallLibrary().bytes());
  const auto library = ReadElfLibrary(file.get());
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ(library->soname, "libsmall.so.1");
  EXPECT_TRUE(library->is_64_bit);
  EXPECT_EQ(library->machine, EM_X86_64);
  EXPECT_EQ(ReadElfSection(file.get(), ".note.test"), "note!!!!");
  EXPECT_EQ(ReadElfSection(file.get(), ".note.test", 4), "note");
}

// Untrusted input: every prefix of a library is an error as long as anything is missing that is
// asked for.
TEST(Elf, EveryPrefixIsAnErrorUntilAllIsThere) {
  const std::string whole = SmallLibrary().bytes();
  const std::size_t named =
      offsetof(SmallLibrary, names) + std::string("\0libsmall.so.1", 14).size() + 1;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = Holding(whole.substr(0, size));
    const auto library = ReadElfLibrary(file.get());
    if (size < named) {
      ASSERT_FALSE(library) << size;
      EXPECT_EQ(library.error().code, Code::kInvalid) << size;
    } else {
      ASSERT_TRUE(library) << size << library.error().message;
      EXPECT_EQ(library->soname, "libsmall.so.1");
    }
    const auto section = ReadElfSection(file.get(), ".note.test");
    ASSERT_FALSE(section) << size;
    EXPECT_EQ(section.error().code, Code::kInvalid) << size;
  }
}

TEST(Elf, WrongFieldsAreErrors) {
  const auto refused = [](const std::function<void(SmallLibrary&)>& damage) {
    SmallLibrary library;
    damage(library);
    const auto file = Holding(library.bytes());
    const auto read = ReadElfLibrary(file.get());
    return !read && read.error().code == Code::kInvalid;
  };
  EXPECT_TRUE(refused([](auto& library) { library.header.e_ident[0] = 'E'; }));
  EXPECT_TRUE(refused([](auto& library) { library.header.e_ident[EI_CLASS] = 3; }));
  EXPECT_TRUE(refused([](auto& library) { library.header.e_ident[EI_DATA] = ELFDATA2MSB; }));
  EXPECT_TRUE(refused([](auto& library) { library.header.e_type = ET_EXEC; }));
  EXPECT_TRUE(refused([](auto& library) { library.header.e_phentsize += 1; }));
  EXPECT_TRUE(refused([](auto& library) { library.header.e_phnum = 0xffff; }));
  EXPECT_TRUE(refused([](auto& library) { library.header.e_phoff = UINT64_MAX; }));
  EXPECT_TRUE(refused([](auto& library) { library.dynamic.p_type = PT_NOTE; }));
  EXPECT_TRUE(refused([](auto& library) { library.dynamic.p_filesz = UINT64_MAX; }));
  EXPECT_TRUE(refused([](auto& library) { library.dynamic.p_offset = INT64_MAX; }));
  EXPECT_TRUE(refused([](auto& library) { library.more = library.soname; }));
  EXPECT_TRUE(refused([](auto& library) { library.strings.d_tag = DT_DEBUG; }));
  EXPECT_TRUE(refused([](auto& library) { library.strings.d_un.d_ptr = 0; }));
  EXPECT_TRUE(refused([](auto& library) { library.soname.d_un.d_val = UINT64_MAX; }));
  EXPECT_TRUE(refused([](auto& library) { library.soname.d_un.d_val = 1U << 20; }));
}

TEST(Elf, WrongSectionsAreErrors) {
  const auto section = [](const std::function<void(SmallLibrary&)>& damage) {
    SmallLibrary library;
    damage(library);
    const auto read = ReadElfSection(Holding(library.bytes()).get(), ".note.test");
    return read ? std::nullopt : std::optional(read.error().code);
  };
  EXPECT_EQ(section([](auto& library) { library.header.e_shnum = 0; }), Code::kNotFound);
  EXPECT_EQ(section([](auto& library) { library.header.e_shentsize = 1; }), Code::kInvalid);
  EXPECT_EQ(section([](auto& library) { library.header.e_shstrndx = 3; }), Code::kInvalid);
  EXPECT_EQ(section([](auto& library) { library.header.e_shoff = UINT64_MAX; }), Code::kInvalid);
  EXPECT_EQ(section([](auto& library) { library.sections[1].sh_offset = INT64_MAX; }),
            Code::kInvalid);
  EXPECT_EQ(section([](auto& library) { library.sections[1].sh_size = 4096; }), Code::kInvalid);
  EXPECT_EQ(section([](auto& library) { library.sections[2].sh_offset = UINT64_MAX; }),
            Code::kNotFound);
}

// Whatever byte is wrong ends in a value or an error of the input; the sanitizers see whether it
// reads elsewhere.
TEST(Elf, AFlippedByteIsAValueOrAnError) {
  const std::string whole = SmallLibrary().bytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    const auto file = Holding(damaged);
    const auto library = ReadElfLibrary(file.get());
    if (!library) {
      EXPECT_EQ(library.error().code, Code::kInvalid) << at;
    }
    const auto section = ReadElfSection(file.get(), ".note.test");
    if (!section && section.error().code != Code::kNotFound) {
      EXPECT_EQ(section.error().code, Code::kInvalid) << at;
    }
  }
}

}  // namespace
}  // namespace pitcrew::base
