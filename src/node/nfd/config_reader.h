// Reading configuration files of node feature discovery: a missing key keeps the default, an
// unknown key is ignored, a value of the wrong kind is an error with the key's path.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::node::nfd {

// The file's content with `options` (YAML or JSON text, may be empty) merged over it: mappings
// merge, lists replace. A missing file is an empty configuration.
struct ConfigTexts {
  codec::Json file;
  codec::Json options;
};
base::Result<ConfigTexts> ReadConfigTexts(const std::filesystem::path& file,
                                          const std::string& options);
codec::Json MergedConfig(const ConfigTexts& texts);

class ConfigReader {
 public:
  // `section` is borrowed; `path` names it in errors ("core").
  ConfigReader(const codec::Json* section, std::string path)
      : section_(section), path_(std::move(path)) {}

  // A reader of a member; one that finds nothing when the member is missing.
  [[nodiscard]] ConfigReader Section(std::string_view key) const;
  // Each leaves `target` as it is when the key is missing or null.
  base::Status Read(std::string_view key, bool& target) const;
  base::Status Read(std::string_view key, std::string& target) const;
  base::Status Read(std::string_view key, int& target) const;
  base::Status Read(std::string_view key, std::vector<std::string>& target) const;
  base::Status Read(std::string_view key, std::optional<std::vector<std::string>>& target) const;
  // Go's duration text, or a number of nanoseconds.
  base::Status Read(std::string_view key, std::chrono::nanoseconds& target) const;
  // Null when missing. Keys match whatever their case, as Go's decoder does.
  [[nodiscard]] const codec::Json* Find(std::string_view key) const;

 private:
  [[nodiscard]] base::Error WrongKind(std::string_view key, std::string_view expected) const;
  const codec::Json* section_;
  std::string path_;
};

}  // namespace pitcrew::node::nfd
