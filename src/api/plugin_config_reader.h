// Reads members of one JSON object of a configuration and says where it is wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::api {

// Borrows the document. Members that are missing or null are unset.
class ConfigReader {
 public:
  static base::Result<ConfigReader> Create(const codec::Json& document, std::string_view source);

  // Null when missing or null. Plain structures accept any case of a name, as Go's decoder does.
  [[nodiscard]] const codec::Json* Find(std::string_view name) const;
  // True when the member is there, even as null.
  [[nodiscard]] bool Has(std::string_view name) const;

  base::Status Read(std::string_view name, std::optional<std::string>& target) const;
  base::Status Read(std::string_view name, std::optional<bool>& target) const;
  [[nodiscard]] base::Result<std::string> RequiredText(std::string_view name) const;
  // An empty reader when the member is missing.
  [[nodiscard]] base::Result<ConfigReader> Object(std::string_view name) const;
  // Like Object, but the member must be an object, and names in it match exactly.
  [[nodiscard]] base::Result<ConfigReader> Exact(std::string_view name) const;
  // The objects of a list; names in them match exactly. Empty when the member is missing.
  [[nodiscard]] base::Result<std::vector<ConfigReader>> List(std::string_view name) const;

  // "sharing.mps.resources[0].name".
  [[nodiscard]] std::string PathOf(std::string_view name) const;
  // The error for a member: kInvalid "BadPluginConfig".
  [[nodiscard]] base::Status Wrong(std::string_view name, std::string_view what) const;

 private:
  ConfigReader(const codec::Json* object, std::string source, std::string path, bool exact)
      : object_(object), source_(std::move(source)), path_(std::move(path)), exact_(exact) {}

  const codec::Json* object_;  // null: empty
  std::string source_;
  std::string path_;
  bool exact_;
};

}  // namespace pitcrew::api
