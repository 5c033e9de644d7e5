// Members of config.toml that nothing here heeds: most are for libnvidia-container, which CDI takes
// the place of. docs/differences.md has the whole list. Whoever sets one is told.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "codec/json.h"

namespace pitcrew::shim {

struct Unheeded {
  std::string member;  // "nvidia-container-cli.ldcache"
  std::string why;
  bool operator==(const Unheeded&) const = default;
};

// Those of a file's values that somebody has set to something else than the default; members that
// are not known too. `toolkit_folder` is where the toolkit is installed that wrote the file, ""
// where none did: its own programs are what it names.
std::vector<Unheeded> UnheededMembers(const codec::Json& values,
                                      const std::filesystem::path& toolkit_folder);

// "config.toml sets what has no effect: a (why); b (why)". `path` names the file.
std::string ToText(const std::vector<Unheeded>& members, const std::filesystem::path& path);

}  // namespace pitcrew::shim
