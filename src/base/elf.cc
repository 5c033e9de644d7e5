#include "base/elf.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

namespace pitcrew::base {
namespace {

constexpr std::size_t kMostHeaders = 512;
constexpr std::size_t kMostDynamicBytes = 1U << 18;
constexpr std::size_t kLongestName = 1024;

Error NotElf(std::string_view what) {
  return Invalid("InvalidElf", "not a usable ELF file: " + std::string(what));
}

// Exactly `size` bytes at `offset`.
Result<std::string> ReadAt(int fd, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    if (offset > static_cast<std::uint64_t>(INT64_MAX) - size) return Fail(NotElf("offset"));
    const ssize_t count =
        ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(FromErrno(errno, "read ELF file"));
    if (count == 0) return Fail(NotElf("it is cut short"));
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

template <class Entry>
Result<std::vector<Entry>> ReadTable(int fd, std::uint64_t offset, std::size_t count) {
  if (count > kMostHeaders * 16) return Fail(NotElf("too many headers"));
  TRY_ASSIGN(const std::string bytes, ReadAt(fd, offset, count * sizeof(Entry)));
  std::vector<Entry> entries(count);
  if (count > 0) std::memcpy(entries.data(), bytes.data(), bytes.size());
  return entries;
}

// Text that ends with a zero byte, at most kLongestName long, at `offset`.
Result<std::string> ReadName(int fd, std::uint64_t offset) {
  std::string bytes(kLongestName, '\0');
  if (offset > static_cast<std::uint64_t>(INT64_MAX)) return Fail(NotElf("offset"));
  const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  const auto end = bytes.find('\0');
  if (end == std::string::npos) return Fail(NotElf("a name lies outside the file or has no end"));
  return bytes.substr(0, end);
}

struct Elf32 {
  using Header = Elf32_Ehdr;
  using Segment = Elf32_Phdr;
  using Section = Elf32_Shdr;
  using Dynamic = Elf32_Dyn;
};
struct Elf64 {
  using Header = Elf64_Ehdr;
  using Segment = Elf64_Phdr;
  using Section = Elf64_Shdr;
  using Dynamic = Elf64_Dyn;
};

template <class Class>
Result<typename Class::Header> ReadHeader(int fd) {
  TRY_ASSIGN(const auto headers, ReadTable<typename Class::Header>(fd, 0, 1));
  return headers.front();
}

// Where an address of the loaded library lies in the file.
template <class Segments>
std::optional<std::uint64_t> FileOffset(const Segments& segments, std::uint64_t address) {
  for (const auto& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t begin = segment.p_vaddr;
    if (address >= begin && address - begin < segment.p_filesz) {
      return segment.p_offset + (address - begin);
    }
  }
  return std::nullopt;
}

template <class Class>
Result<std::string> ReadSoname(int fd, const typename Class::Header& header) {
  if (header.e_phentsize != sizeof(typename Class::Segment) || header.e_phnum > kMostHeaders) {
    return Fail(NotElf("program headers"));
  }
  TRY_ASSIGN(const auto segments,
             ReadTable<typename Class::Segment>(fd, header.e_phoff, header.e_phnum));
  const auto dynamic =
      std::ranges::find(segments, static_cast<std::uint32_t>(PT_DYNAMIC), &Class::Segment::p_type);
  if (dynamic == segments.end()) return Fail(NotElf("it is not dynamic"));
  if (dynamic->p_filesz > kMostDynamicBytes) return Fail(NotElf("dynamic section"));
  TRY_ASSIGN(const auto entries,
             ReadTable<typename Class::Dynamic>(
                 fd, dynamic->p_offset, dynamic->p_filesz / sizeof(typename Class::Dynamic)));
  std::optional<std::uint64_t> strings;
  std::optional<std::uint64_t> name;
  for (const auto& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
    if (entry.d_tag != DT_SONAME) continue;
    if (name) return Fail(NotElf("it names several SONAMEs"));
    name = entry.d_un.d_val;
  }
  if (!name) return std::string();
  if (!strings) return Fail(NotElf("it has no string table"));
  const auto offset = FileOffset(segments, *strings);
  if (!offset || *name > kMostDynamicBytes * 64) return Fail(NotElf("string table"));
  return ReadName(fd, *offset + *name);
}

template <class Class>
Result<ElfLibrary> ReadLibrary(int fd) {
  TRY_ASSIGN(const auto header, ReadHeader<Class>(fd));
  if (header.e_type != ET_DYN) return Fail(NotElf("it is not a shared object"));
  ElfLibrary library;
  library.is_64_bit = std::is_same_v<Class, Elf64>;
  library.machine = header.e_machine;
  TRY_ASSIGN(library.soname, ReadSoname<Class>(fd, header));
  return library;
}

template <class Class>
Result<std::string> ReadSection(int fd, std::string_view name, std::size_t limit) {
  TRY_ASSIGN(const auto header, ReadHeader<Class>(fd));
  if (header.e_shnum == 0) return Fail(NotFound("NoSuchSection", std::string(name)));
  if (header.e_shentsize != sizeof(typename Class::Section) ||
      header.e_shstrndx >= header.e_shnum) {
    return Fail(NotElf("section headers"));
  }
  TRY_ASSIGN(const auto sections,
             ReadTable<typename Class::Section>(fd, header.e_shoff, header.e_shnum));
  const std::uint64_t names = sections[header.e_shstrndx].sh_offset;
  for (const auto& section : sections) {
    const auto found = ReadName(fd, names + section.sh_name);
    if (!found || *found != name) continue;
    return ReadAt(fd, section.sh_offset,
                  std::min<std::size_t>(limit, static_cast<std::size_t>(section.sh_size)));
  }
  return Fail(NotFound("NoSuchSection", std::string(name)));
}

// True for 64 bit; kInvalid when the file is no little-endian ELF file.
Result<bool> ReadIdentification(int fd) {
  TRY_ASSIGN(const std::string ident, ReadAt(fd, 0, EI_NIDENT));
  if (!ident.starts_with(ELFMAG)) return Fail(NotElf("magic number"));
  if (ident[EI_DATA] != ELFDATA2LSB) return Fail(NotElf("byte order"));
  if (ident[EI_CLASS] == ELFCLASS64) return true;
  if (ident[EI_CLASS] == ELFCLASS32) return false;
  return Fail(NotElf("class"));
}

}  // namespace

Result<ElfLibrary> ReadElfLibrary(int fd) {
  TRY_ASSIGN(const bool is_64_bit, ReadIdentification(fd));
  return is_64_bit ? ReadLibrary<Elf64>(fd) : ReadLibrary<Elf32>(fd);
}

Result<std::string> ReadElfSection(int fd, std::string_view name, std::size_t limit) {
  TRY_ASSIGN(const bool is_64_bit, ReadIdentification(fd));
  return is_64_bit ? ReadSection<Elf64>(fd, name, limit) : ReadSection<Elf32>(fd, name, limit);
}

}  // namespace pitcrew::base
