// glibc's /etc/ld.so.cache in its current form (glibc: sysdeps/generic/dl-cache.h, elf/cache.c):
// reading and writing it without ldconfig, of which a container or an immutable host may have none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::base {

struct LdCacheEntry {
  std::int32_t flags = 0;  // kind of library: LibraryFlags
  std::string name;        // "libcuda.so.1"
  std::string path;        // "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  std::uint32_t os_version = 0;
  std::uint64_t hwcap = 0;
  // Of its folder among those that the loader searches. No part of the file: a cache that was read
  // tells its order by the entries'.
  std::uint32_t rank = 0;
  bool operator==(const LdCacheEntry&) const = default;
};

struct LdCache {
  // Among entries of one name and kind the loader takes the first that fits.
  std::vector<LdCacheEntry> entries;
  // Names of glibc-hwcaps subfolders, which entries refer to by index.
  std::vector<std::string> hwcaps;
};

// Text of a cache file, perhaps with the old form in front. kInvalid when any offset is wrong.
Result<LdCache> ParseLdCache(std::string_view bytes);

// Sorts as the loader's binary search needs it; entries of one name and kind by their rank, those
// of one rank stay in their order. Entries that repeat name, kind, path and hwcap of an earlier one
// are dropped.
std::string WriteLdCache(const LdCache& cache);

// The loader's flag for a library of this ELF machine, 0 for a machine that it does not know.
std::int32_t LibraryFlags(std::uint16_t machine, bool is_64_bit);

// glibc's order of library names: by bytes, runs of digits by value. Negative, 0 or positive.
int CompareLibraryNames(std::string_view a, std::string_view b);

}  // namespace pitcrew::base
