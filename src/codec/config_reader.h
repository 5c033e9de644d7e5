// Reading configuration files: each member by its name and kind, errors with the member's path and
// its place in the file, for example "config.yaml:7:11: sharing.mps.resources[0].name must be a
// text". Members that are missing or null are unset.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codec/json.h"
#include "codec/yaml.h"

namespace pitcrew::codec {

// How names of members match. Go's decoder of plain structures takes any case, an exact match
// first; structures with a decoder of their own match exactly.
enum class Names { kAnyCase, kExact };

// One mapping of a document. Borrows the document.
class ConfigReader {
 public:
  // `source` names the document in errors; empty: errors begin with the path. kInvalid
  // "InvalidConfiguration" when the document is no mapping.
  static base::Result<ConfigReader> Create(const Json& document, std::string_view source,
                                           Names names = Names::kAnyCase);

  // Null when missing or null. Borrowed.
  [[nodiscard]] const Json* Find(std::string_view name) const;
  // True when the member is there, even as null.
  [[nodiscard]] bool Has(std::string_view name) const;

  // Each leaves `target` as it is when the member is unset, and is kInvalid "InvalidConfiguration"
  // when it has another kind or does not fit.
  base::Status Read(std::string_view name, bool& target) const;
  base::Status Read(std::string_view name, std::string& target) const;
  base::Status Read(std::string_view name, int& target) const;
  base::Status Read(std::string_view name, std::vector<std::string>& target) const;
  // Go's duration text, or a whole number of nanoseconds.
  base::Status Read(std::string_view name, std::chrono::nanoseconds& target) const;
  template <class T>
  base::Status Read(std::string_view name, std::optional<T>& target) const {
    if (Find(name) == nullptr) return {};
    return Read(name, target.emplace());
  }
  [[nodiscard]] base::Result<std::string> RequiredText(std::string_view name) const;

  // A reader that finds nothing when the member is unset.
  [[nodiscard]] base::Result<ConfigReader> Object(std::string_view name) const;
  // A member that must be there and be a mapping; names in it match exactly.
  [[nodiscard]] base::Result<ConfigReader> RequiredObject(std::string_view name) const;
  // The mappings of a list; names in them match exactly. Empty when the member is unset.
  [[nodiscard]] base::Result<std::vector<ConfigReader>> List(std::string_view name) const;
  // Every member with its name, in the order of names; each must be a mapping.
  [[nodiscard]] base::Result<std::vector<std::pair<std::string, ConfigReader>>> Members() const;

  // kInvalid for the first member that is none of `names`.
  [[nodiscard]] base::Status RefuseOthers(std::initializer_list<std::string_view> names) const;

  // "sharing.mps.resources[0].name"; with "" this mapping itself.
  [[nodiscard]] std::string PathOf(std::string_view name) const;
  // The error about a member: "<place>: <path> <what>". Returned as it is from any function with a
  // Result.
  [[nodiscard]] std::unexpected<base::Error> Wrong(std::string_view name,
                                                   std::string_view what) const;

 private:
  friend class ConfigDocument;
  ConfigReader() = default;
  [[nodiscard]] ConfigReader Inner(const Json* value, std::string_view name, std::string_view step,
                                   Names names) const;
  // With what stands there instead.
  [[nodiscard]] std::unexpected<base::Error> WrongKind(std::string_view name,
                                                       std::string_view what) const;

  const Json* object_ = nullptr;  // null: empty
  const YamlPlaces* places_ = nullptr;
  std::string source_;
  std::string path_;
  std::string pointer_;  // the same path as a JSON pointer
  Names names_ = Names::kAnyCase;
};

// The text of one configuration file with the places of its values.
class ConfigDocument {
 public:
  // YAML, of which JSON is a part.
  static base::Result<ConfigDocument> Parse(std::string_view text, std::string_view source);
  // The same for a file. kNotFound when it is missing.
  static base::Result<ConfigDocument> Load(const std::filesystem::path& file);

  [[nodiscard]] const Json& value() const { return value_; }
  // Whether there is nothing but comments.
  [[nodiscard]] bool empty() const { return value_.is_null(); }
  // Borrows this document. kInvalid when it is no mapping.
  [[nodiscard]] base::Result<ConfigReader> Root(Names names = Names::kAnyCase) const&;

 private:
  Json value_;
  std::string source_;
  YamlPlaces places_;
};

}  // namespace pitcrew::codec
