// The smallest shared library that tells a SONAME, for tests that need driver libraries without a
// driver.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <string_view>

namespace pitcrew::base::testing {

// Empty `soname`: none. `section` adds a section of that name with `content`.
inline std::string MakeElfLibrary(std::string_view soname, std::string_view section = "",
                                  std::string_view content = "") {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  header.e_phoff = sizeof(Elf64_Ehdr);

  const std::string names = std::string(1, '\0') + std::string(soname) + '\0';
  const std::size_t dynamic_at = header.e_phoff + 2 * sizeof(Elf64_Phdr);
  const Elf64_Dyn dynamic[3] = {
      {DT_STRTAB, {dynamic_at + sizeof(dynamic)}},
      {soname.empty() ? Elf64_Sxword{DT_DEBUG} : Elf64_Sxword{DT_SONAME}, {1}},
      {DT_NULL, {0}}};
  const std::size_t content_at = dynamic_at + sizeof(dynamic) + names.size();
  const std::string section_names =
      std::string(1, '\0') + std::string(section) + '\0' + ".shstrtab" + '\0';
  const std::size_t sections_at = content_at + content.size() + section_names.size();

  Elf64_Phdr segments[2] = {};
  segments[0].p_type = PT_LOAD;
  segments[0].p_filesz = segments[0].p_memsz = content_at;
  segments[1].p_type = PT_DYNAMIC;
  segments[1].p_offset = segments[1].p_vaddr = dynamic_at;
  segments[1].p_filesz = segments[1].p_memsz = sizeof(dynamic);

  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_NOTE;
  sections[1].sh_offset = content_at;
  sections[1].sh_size = content.size();
  sections[2].sh_name = static_cast<Elf64_Word>(section.size() + 2);
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = content_at + content.size();
  sections[2].sh_size = section_names.size();
  header.e_shoff = sections_at;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;

  const auto bytes = [](const auto& value) {
    std::string text(sizeof(value), '\0');
    std::memcpy(text.data(), &value, sizeof(value));
    return text;
  };
  return bytes(header) + bytes(segments) + bytes(dynamic) + names + std::string(content) +
         section_names + bytes(sections);
}

}  // namespace pitcrew::base::testing
