#include "api/plugin_config_reader.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace pitcrew::api {

using base::Result;
using base::Status;
using codec::Json;

Result<ConfigReader> ConfigReader::Create(const Json& document, std::string_view source) {
  if (document.is_object()) return ConfigReader(&document, std::string(source), "", false);
  return base::Fail(
      base::Invalid("BadPluginConfig", fmt::format("{}: the document must be a mapping", source)));
}

const Json* ConfigReader::Find(std::string_view name) const {
  if (object_ == nullptr) return nullptr;
  if (const auto found = object_->find(std::string(name)); found != object_->end()) {
    return found->is_null() ? nullptr : &*found;
  }
  if (exact_) return nullptr;
  const auto wanted = base::ToLower(name);
  for (const auto& [key, value] : object_->items()) {
    if (base::ToLower(key) == wanted) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

bool ConfigReader::Has(std::string_view name) const {
  return object_ != nullptr && object_->contains(std::string(name));
}

Status ConfigReader::Read(std::string_view name, std::optional<std::string>& target) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (!value->is_string()) return Wrong(name, "must be a text");
  target = value->get<std::string>();
  return {};
}

Status ConfigReader::Read(std::string_view name, std::optional<bool>& target) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return Wrong(name, "must be true or false");
  target = value->get<bool>();
  return {};
}

Result<std::string> ConfigReader::RequiredText(std::string_view name) const {
  std::optional<std::string> value;
  TRY(Read(name, value));
  if (!value) return base::Fail(Wrong(name, "is required").error());
  return *std::move(value);
}

Result<ConfigReader> ConfigReader::Object(std::string_view name) const {
  const Json* value = Find(name);
  if (value != nullptr && !value->is_object()) {
    return base::Fail(Wrong(name, "must be a mapping").error());
  }
  return ConfigReader(value, source_, PathOf(name), exact_);
}

Result<ConfigReader> ConfigReader::Exact(std::string_view name) const {
  const Json* value = Find(name);
  if (value == nullptr || !value->is_object()) {
    return base::Fail(Wrong(name, "must be a mapping").error());
  }
  return ConfigReader(value, source_, PathOf(name), true);
}

Result<std::vector<ConfigReader>> ConfigReader::List(std::string_view name) const {
  std::vector<ConfigReader> readers;
  const Json* value = Find(name);
  if (value == nullptr) return readers;
  if (!value->is_array()) return base::Fail(Wrong(name, "must be a list").error());
  for (std::size_t i = 0; i < value->size(); ++i) {
    const auto& entry = (*value)[i];
    const auto path = fmt::format("{}[{}]", PathOf(name), i);
    if (!entry.is_object()) {
      return base::Fail(Wrong(fmt::format("{}[{}]", name, i), "must be a mapping").error());
    }
    readers.push_back(ConfigReader(&entry, source_, path, true));
  }
  return readers;
}

std::string ConfigReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

Status ConfigReader::Wrong(std::string_view name, std::string_view what) const {
  return base::Fail(
      base::Invalid("BadPluginConfig", fmt::format("{}: {} {}", source_, PathOf(name), what)));
}

}  // namespace pitcrew::api
