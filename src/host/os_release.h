// /etc/os-release (os-release(5)).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::host {

struct OsRelease {
  // Every KEY=value with a value, quotes taken off.
  std::map<std::string, std::string> fields;

  // "" when the key is missing.
  [[nodiscard]] std::string id() const { return Get("ID"); }
  [[nodiscard]] std::string version_id() const { return Get("VERSION_ID"); }
  [[nodiscard]] std::string Get(const std::string& key) const;
};

// Lines that are not KEY=value are skipped: os-release(5) asks readers to ignore what they do not
// know.
OsRelease ParseOsRelease(std::string_view text);
// `file` is for example Root("/host").At("/etc/os-release").
base::Result<OsRelease> ReadOsRelease(const std::filesystem::path& file);

}  // namespace pitcrew::host
