// config.toml of the container runtime as people read and change it (container-toolkit.md 3, 5.5):
// what somebody has set, and for the rest a hint of what could be. What the runtime makes of the
// file is shim/config.h.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::node::toolkit {

class ConfigDocument {
 public:
  // What holds without a file. `root` is the node's: ldconfig and the distribution are looked up
  // there (3.2).
  static ConfigDocument Defaults(const std::filesystem::path& root = "/");
  // Of a file's text. Keys that are not known stay as they are.
  static base::Result<ConfigDocument> Parse(std::string_view text, std::string_view source);
  // Of a file; Defaults when it does not exist.
  static base::Result<ConfigDocument> Read(const std::filesystem::path& file);

  // "nvidia-container-runtime.mode=cdi"; "disable-require" switches on; "features.NAME=nil" takes a
  // feature back. Lists are split at `separator` when the text has it, else at commas. kInvalid
  // "UnknownOption" and "BadValue" name the assignment; nothing has changed then.
  base::Status Set(std::string_view assignment, char separator);

  // A text value, "" when it is not set.
  [[nodiscard]] std::string Text(std::string_view key) const;

  // Keys in alphabetical order, tables behind values, no indentation; defaults that nobody has set
  // as comments (2.2, 3.3).
  [[nodiscard]] std::string ToText() const;

  // All values, in tables.
  [[nodiscard]] const codec::Json& values() const { return values_; }

 private:
  explicit ConfigDocument(codec::Json values) : values_(std::move(values)) {}

  codec::Json values_;
  // "nvidia-container-runtime.mode": never a comment, whatever its value.
  std::set<std::string, std::less<>> explicit_;
};

}  // namespace pitcrew::node::toolkit
