// A made-up root as glibc's ldconfig leaves it, and what its cache leads to.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/ld_cache.h"
#include "tests/support/program.h"

namespace pitcrew::shim::testing {

inline std::filesystem::path Below(const std::filesystem::path& root, std::string_view path) {
  return root / path.substr(1);
}

// False without root's rights, which `ldconfig -r` needs.
inline bool RunLdconfig(const std::filesystem::path& root) {
  return ::geteuid() == 0 &&
         test_support::Program("/sbin/ldconfig", {"-r", root.string()}, {}).Wait() == 0;
}

// Name of the loader and the file that it leads to, links followed, in the order of the cache; an
// empty path where there is no such file.
inline std::vector<std::pair<std::string, std::filesystem::path>> ReadCachedFiles(
    const std::filesystem::path& root) {
  std::vector<std::pair<std::string, std::filesystem::path>> files;
  const auto bytes = base::ReadFile(Below(root, "/etc/ld.so.cache"));
  const auto cache = base::ParseLdCache(bytes ? *bytes : "");
  if (!cache) return files;
  for (const auto& entry : cache->entries) {
    std::error_code missing;
    auto file = std::filesystem::canonical(Below(root, entry.path), missing);
    files.emplace_back(entry.name, missing ? std::filesystem::path() : std::move(file));
  }
  return files;
}

}  // namespace pitcrew::shim::testing
