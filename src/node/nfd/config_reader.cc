#include "node/nfd/config_reader.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "codec/yaml.h"

namespace pitcrew::node::nfd {
namespace {

base::Result<codec::Json> ParseConfig(const std::string& text, const std::string& source) {
  if (base::Trim(text).empty()) return codec::Json::object();
  TRY_ASSIGN(auto json, codec::ParseYaml(text, source));
  if (json.is_null()) return codec::Json::object();
  if (!json.is_object()) {
    return base::Fail(
        base::Invalid("InvalidConfiguration", fmt::format("{} is not a mapping", source)));
  }
  return json;
}

}  // namespace

base::Result<ConfigTexts> ReadConfigTexts(const std::filesystem::path& file,
                                          const std::string& options) {
  ConfigTexts texts{codec::Json::object(), codec::Json::object()};
  const auto text = base::ReadFile(file);
  if (text) {
    TRY_ASSIGN(texts.file, ParseConfig(*text, file.string()));
  } else if (text.error().code == base::Code::kNotFound) {
    base::LogInfo("There is no configuration file; defaults are used", {{"file", file.string()}});
  } else {
    return base::Fail(text.error());
  }
  TRY_ASSIGN(texts.options, ParseConfig(options, "-options"));
  return texts;
}

codec::Json MergedConfig(const ConfigTexts& texts) {
  auto merged = texts.file;
  codec::ApplyMergePatch(merged, texts.options);
  return merged;
}

const codec::Json* ConfigReader::Find(std::string_view key) const {
  if (section_ == nullptr || !section_->is_object()) return nullptr;
  const auto wanted = base::ToLower(key);
  for (const auto& [name, value] : section_->items()) {
    if (base::ToLower(name) == wanted) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

ConfigReader ConfigReader::Section(std::string_view key) const {
  return {Find(key), path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

base::Error ConfigReader::WrongKind(std::string_view key, std::string_view expected) const {
  return base::Invalid("InvalidConfiguration",
                       fmt::format("{}{}{} must be {}, and is {}", path_, path_.empty() ? "" : ".",
                                   key, expected, codec::ToJsonText(*Find(key))));
}

base::Status ConfigReader::Read(std::string_view key, bool& target) const {
  const auto* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return base::Fail(WrongKind(key, "true or false"));
  target = value->get<bool>();
  return {};
}

base::Status ConfigReader::Read(std::string_view key, std::string& target) const {
  const auto* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_string()) return base::Fail(WrongKind(key, "text"));
  target = value->get<std::string>();
  return {};
}

base::Status ConfigReader::Read(std::string_view key, int& target) const {
  const auto* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_number_integer()) return base::Fail(WrongKind(key, "a whole number"));
  target = value->get<int>();
  return {};
}

base::Status ConfigReader::Read(std::string_view key, std::vector<std::string>& target) const {
  const auto* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return base::Fail(WrongKind(key, "a list of texts"));
  std::vector<std::string> list;
  for (const auto& item : *value) {
    if (!item.is_string()) return base::Fail(WrongKind(key, "a list of texts"));
    list.push_back(item.get<std::string>());
  }
  target = std::move(list);
  return {};
}

base::Status ConfigReader::Read(std::string_view key,
                                std::optional<std::vector<std::string>>& target) const {
  if (Find(key) == nullptr) return {};
  std::vector<std::string> list;
  TRY(Read(key, list));
  target = std::move(list);
  return {};
}

base::Status ConfigReader::Read(std::string_view key, std::chrono::nanoseconds& target) const {
  const auto* value = Find(key);
  if (value == nullptr) return {};
  if (value->is_number_integer()) {
    target = std::chrono::nanoseconds(value->get<std::int64_t>());
    return {};
  }
  const auto parsed = value->is_string() ? base::ParseGoDuration(value->get<std::string>())
                                         : base::Fail(base::Error{});
  if (!parsed) return base::Fail(WrongKind(key, "a duration such as 60s"));
  target = *parsed;
  return {};
}

}  // namespace pitcrew::node::nfd
