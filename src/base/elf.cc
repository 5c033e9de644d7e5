#include "base/elf.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// A file of which the beginning is read once: all headers lie there, and often the names too.
class FileBytes {
 public:
  explicit FileBytes(int fd) : fd_(fd) {
    ssize_t count = 0;
    do {
      count = ::pread(fd_, head_.data(), head_.size(), 0);
    } while (count < 0 && errno == EINTR);
    head_size_ = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }

  // Exactly `size` bytes at `offset`.
  Status Read(std::uint64_t offset, char* into, std::size_t size) const {
    if (offset > static_cast<std::uint64_t>(INT64_MAX) - size) return Fail(NotElf("offset"));
    std::size_t done = TakeFromHead(offset, into, size);
    while (done < size) {
      const ssize_t count =
          ::pread(fd_, into + done, size - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Fail(FromErrno(errno, "read ELF file"));
      if (count == 0) return Fail(NotElf("it is cut short"));
      done += static_cast<std::size_t>(count);
    }
    return {};
  }
  template <class Entry>
  Result<std::vector<Entry>> Table(std::uint64_t offset, std::size_t count) const {
    if (count > kMostHeaders * 16) return Fail(NotElf("too many headers"));
    std::vector<Entry> entries(count);
    TRY(Read(offset, reinterpret_cast<char*>(entries.data()), count * sizeof(Entry)));
    return entries;
  }
  // Text that ends with a zero byte, at most kLongestName long, at `offset`.
  Result<std::string> Name(std::uint64_t offset) const {
    if (offset > static_cast<std::uint64_t>(INT64_MAX)) return Fail(NotElf("offset"));
    std::array<char, kLongestName> bytes;
    std::string_view text(bytes.data(), TakeFromHead(offset, bytes.data(), bytes.size()));
    if (text.find('\0') == text.npos) {
      const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      text = {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
    }
    const auto end = text.find('\0');
    if (end == text.npos) return Fail(NotElf("a name lies outside the file or has no end"));
    return std::string(text.substr(0, end));
  }

 private:
  // How many of the bytes stand in the head.
  std::size_t TakeFromHead(std::uint64_t offset, char* into, std::size_t size) const {
    if (offset >= head_size_ || size == 0) return 0;
    const std::size_t count = std::min(size, head_size_ - static_cast<std::size_t>(offset));
    std::memcpy(into, head_.data() + offset, count);
    return count;
  }

  int fd_;
  std::array<char, 2048> head_;
  std::size_t head_size_ = 0;
};

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
Result<typename Class::Header> ReadHeader(const FileBytes& bytes) {
  typename Class::Header header;
  TRY(bytes.Read(0, reinterpret_cast<char*>(&header), sizeof(header)));
  return header;
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
Result<std::string> ReadSoname(const FileBytes& bytes, const typename Class::Header& header) {
  if (header.e_phentsize != sizeof(typename Class::Segment) || header.e_phnum > kMostHeaders) {
    return Fail(NotElf("program headers"));
  }
  TRY_ASSIGN(const auto segments,
             bytes.Table<typename Class::Segment>(header.e_phoff, header.e_phnum));
  const auto dynamic =
      std::ranges::find(segments, static_cast<std::uint32_t>(PT_DYNAMIC), &Class::Segment::p_type);
  if (dynamic == segments.end()) return Fail(NotElf("it is not dynamic"));
  if (dynamic->p_filesz > kMostDynamicBytes) return Fail(NotElf("dynamic section"));
  TRY_ASSIGN(const auto entries,
             bytes.Table<typename Class::Dynamic>(
                 dynamic->p_offset, dynamic->p_filesz / sizeof(typename Class::Dynamic)));
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
  return bytes.Name(*offset + *name);
}

template <class Class>
Result<ElfLibrary> ReadLibrary(const FileBytes& bytes) {
  TRY_ASSIGN(const auto header, ReadHeader<Class>(bytes));
  if (header.e_type != ET_DYN) return Fail(NotElf("it is not a shared object"));
  ElfLibrary library;
  library.is_64_bit = std::is_same_v<Class, Elf64>;
  library.machine = header.e_machine;
  TRY_ASSIGN(library.soname, ReadSoname<Class>(bytes, header));
  return library;
}

template <class Class>
Result<std::string> ReadSection(const FileBytes& bytes, std::string_view name, std::size_t limit) {
  TRY_ASSIGN(const auto header, ReadHeader<Class>(bytes));
  if (header.e_shnum == 0) return Fail(NotFound("NoSuchSection", std::string(name)));
  if (header.e_shentsize != sizeof(typename Class::Section) ||
      header.e_shstrndx >= header.e_shnum) {
    return Fail(NotElf("section headers"));
  }
  TRY_ASSIGN(const auto sections,
             bytes.Table<typename Class::Section>(header.e_shoff, header.e_shnum));
  const std::uint64_t names = sections[header.e_shstrndx].sh_offset;
  for (const auto& section : sections) {
    const auto found = bytes.Name(names + section.sh_name);
    if (!found || *found != name) continue;
    std::string content(std::min(limit, static_cast<std::size_t>(section.sh_size)), '\0');
    TRY(bytes.Read(section.sh_offset, content.data(), content.size()));
    return content;
  }
  return Fail(NotFound("NoSuchSection", std::string(name)));
}

// True for 64 bit; kInvalid when the file is no little-endian ELF file.
Result<bool> ReadIdentification(const FileBytes& bytes) {
  std::array<char, EI_NIDENT> ident;
  TRY(bytes.Read(0, ident.data(), ident.size()));
  if (!std::string_view(ident.data(), ident.size()).starts_with(ELFMAG))
    return Fail(NotElf("magic number"));
  if (ident[EI_DATA] != ELFDATA2LSB) return Fail(NotElf("byte order"));
  if (ident[EI_CLASS] == ELFCLASS64) return true;
  if (ident[EI_CLASS] == ELFCLASS32) return false;
  return Fail(NotElf("class"));
}

}  // namespace

Result<ElfLibrary> ReadElfLibrary(int fd) {
  const FileBytes bytes(fd);
  TRY_ASSIGN(const bool is_64_bit, ReadIdentification(bytes));
  return is_64_bit ? ReadLibrary<Elf64>(bytes) : ReadLibrary<Elf32>(bytes);
}

Result<std::string> ReadElfSection(int fd, std::string_view name, std::size_t limit) {
  const FileBytes bytes(fd);
  TRY_ASSIGN(const bool is_64_bit, ReadIdentification(bytes));
  return is_64_bit ? ReadSection<Elf64>(bytes, name, limit)
                   : ReadSection<Elf32>(bytes, name, limit);
}

}  // namespace pitcrew::base
