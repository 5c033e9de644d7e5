// Reading one YAML mapping with errors that name the place, what is wrong and what would be right.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pitcrew::simulation {

// Into a field of the state file, cut where the field ends.
template <std::size_t N>
void CopyText(char (&field)[N], const std::string& text) {
  std::snprintf(field, N, "%s", text.c_str());
}

// Where a text comes from and the first error found in it; shared by all its mappings.
struct Source {
  std::string name;
  std::optional<base::Error> error;

  // Keeps the first error: "name:line:column: what". Lines and columns count from 1.
  void Fail(const YAML::Mark& mark, const std::string& what);
};

// One mapping. A wrong or missing value records an error in the source and yields the fallback or a
// zero value, so that a caller reads everything and looks at the error once.
class Mapping {
 public:
  // `what` names the mapping in errors: "a GPU", "the driver".
  Mapping(Source& source, YAML::Node node, std::string what);

  [[nodiscard]] bool Has(std::string_view key) const;
  [[nodiscard]] const YAML::Mark mark() const { return node_.Mark(); }

  // Without a fallback the key is required.
  std::uint64_t Unsigned(std::string_view key, std::uint64_t low, std::uint64_t high,
                         std::optional<std::uint64_t> fallback = std::nullopt);
  std::int64_t Signed(std::string_view key, std::int64_t low, std::int64_t high,
                      std::optional<std::int64_t> fallback = std::nullopt);
  bool Boolean(std::string_view key, std::optional<bool> fallback = std::nullopt);
  std::string Text(std::string_view key, std::optional<std::string> fallback = std::nullopt);
  // One of the words, as its position.
  std::size_t Word(std::string_view key, std::span<const std::string_view> words,
                   std::optional<std::size_t> fallback = std::nullopt);
  std::vector<std::uint64_t> Unsigneds(std::string_view key, std::size_t fewest, std::size_t most,
                                       std::uint64_t high);
  // A list of words.
  std::vector<std::string> Texts(std::string_view key);
  // A missing mapping is an empty one.
  Mapping Inner(std::string_view key, std::string what);
  std::vector<Mapping> Inners(std::string_view key, std::string what);
  // Members as they stand: key, value, place.
  struct Member {
    std::string key;
    YAML::Node value;
  };
  std::vector<Member> Members();

  // Records an error for every key that nobody asked for.
  void RefuseOthers();
  void Fail(std::string_view key, const std::string& what);

  [[nodiscard]] Source& source() { return *source_; }

 private:
  YAML::Node Value(std::string_view key, bool required);

  Source* source_;
  YAML::Node node_;
  std::string what_;
  std::vector<std::string> asked_;
};

// A non-negative decimal or 0x number; nullopt for anything else.
std::optional<std::uint64_t> ParseNumber(const YAML::Node& node);

// One document; errors of syntax become the source's error and an empty node.
YAML::Node ParseDocument(Source& source, const std::string& text);

}  // namespace pitcrew::simulation
