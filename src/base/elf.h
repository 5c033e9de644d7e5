// What a shared library's ELF headers say. The file may come from an untrusted container: every
// offset is checked, sizes are bounded, nothing is mapped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::base {

struct ElfLibrary {
  bool is_64_bit = false;
  std::uint16_t machine = 0;  // EM_X86_64 = 62, EM_AARCH64 = 183
  std::string soname;         // empty when the library names none
};

// `fd` is an open regular file (borrowed). kInvalid when it is not a little-endian ELF shared
// object, or names several SONAMEs.
Result<ElfLibrary> ReadElfLibrary(int fd);

// The bytes of the first section of that name, at most `limit`. kNotFound when there is none.
Result<std::string> ReadElfSection(int fd, std::string_view name, std::size_t limit = 1U << 20);

}  // namespace pitcrew::base
