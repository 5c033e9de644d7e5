#include "codec/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::codec {
namespace {

base::Error InvalidConfiguration(std::string message) {
  return base::Invalid("InvalidConfiguration", std::move(message));
}

// The name as it is written in the document; empty when there is none.
std::string_view WrittenName(const Json* object, std::string_view name, Names names) {
  if (object == nullptr) return {};
  if (const auto found = object->find(name); found != object->end()) return found.key();
  if (names == Names::kExact) return {};
  const auto wanted = base::ToLower(name);
  for (auto member = object->begin(); member != object->end(); ++member) {
    if (base::ToLower(member.key()) == wanted) return member.key();
  }
  return {};
}

}  // namespace

base::Result<ConfigReader> ConfigReader::Create(const Json& document, std::string_view source,
                                                Names names) {
  if (!document.is_object()) {
    return base::Fail(InvalidConfiguration(
        fmt::format("{}{}the document must be a mapping", source, source.empty() ? "" : ": ")));
  }
  ConfigReader reader;
  reader.object_ = &document;
  reader.source_ = source;
  reader.names_ = names;
  return reader;
}

const Json* ConfigReader::Find(std::string_view name) const {
  const auto written = WrittenName(object_, name, names_);
  if (written.empty()) return nullptr;
  const auto& value = *object_->find(written);
  return value.is_null() ? nullptr : &value;
}

bool ConfigReader::Has(std::string_view name) const {
  return !WrittenName(object_, name, names_).empty();
}

base::Status ConfigReader::Read(std::string_view name, bool& target) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) return WrongKind(name, "must be true or false");
  target = value->get<bool>();
  return {};
}

base::Status ConfigReader::Read(std::string_view name, std::string& target) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (!value->is_string()) return WrongKind(name, "must be a text");
  target = value->get<std::string>();
  return {};
}

base::Status ConfigReader::Read(std::string_view name, int& target) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<int>::max()}) &&
      value->get<std::int64_t>() >= std::numeric_limits<int>::min() &&
      value->get<std::int64_t>() <= std::numeric_limits<int>::max();
  if (!fits) return WrongKind(name, "must be a whole number");
  target = value->get<int>();
  return {};
}

base::Status ConfigReader::Read(std::string_view name, std::vector<std::string>& target) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  const auto is_text = [](const Json& item) { return item.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_text)) {
    return WrongKind(name, "must be a list of texts");
  }
  target = value->get<std::vector<std::string>>();
  return {};
}

base::Status ConfigReader::Read(std::string_view name, std::chrono::nanoseconds& target) const {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (value->is_number_integer()) {
    target = std::chrono::nanoseconds(value->get<std::int64_t>());
    return {};
  }
  if (value->is_string()) {
    if (const auto parsed = base::ParseGoDuration(value->get<std::string>())) {
      target = *parsed;
      return {};
    }
  }
  return WrongKind(name, "must be a duration such as 60s");
}

base::Result<std::string> ConfigReader::RequiredText(std::string_view name) const {
  if (Find(name) == nullptr) return Wrong(name, "is required");
  std::string text;
  TRY(Read(name, text));
  return text;
}

ConfigReader ConfigReader::Inner(const Json* value, std::string_view name, std::string_view step,
                                 Names names) const {
  ConfigReader inner = *this;
  inner.object_ = value;
  inner.path_ = PathOf(name);
  inner.pointer_ = fmt::format("{}/{}", pointer_, step);
  inner.names_ = names;
  return inner;
}

base::Result<ConfigReader> ConfigReader::Object(std::string_view name) const {
  const Json* value = Find(name);
  if (value != nullptr && !value->is_object()) return WrongKind(name, "must be a mapping");
  return Inner(value, name, WrittenName(object_, name, names_), names_);
}

base::Result<ConfigReader> ConfigReader::RequiredObject(std::string_view name) const {
  const Json* value = Find(name);
  if (value == nullptr || !value->is_object()) return WrongKind(name, "must be a mapping");
  return Inner(value, name, WrittenName(object_, name, names_), Names::kExact);
}

base::Result<std::vector<ConfigReader>> ConfigReader::List(std::string_view name) const {
  std::vector<ConfigReader> readers;
  const Json* value = Find(name);
  if (value == nullptr) return readers;
  if (!value->is_array()) return WrongKind(name, "must be a list");
  const auto written = WrittenName(object_, name, names_);
  for (std::size_t i = 0; i < value->size(); ++i) {
    const auto& entry = (*value)[i];
    readers.push_back(Inner(&entry, fmt::format("{}[{}]", name, i),
                            fmt::format("{}/{}", written, i), Names::kExact));
    if (!entry.is_object()) return readers.back().Wrong("", "must be a mapping");
  }
  return readers;
}

base::Result<std::vector<std::pair<std::string, ConfigReader>>> ConfigReader::Members() const {
  std::vector<std::pair<std::string, ConfigReader>> members;
  if (object_ == nullptr) return members;
  for (auto member = object_->begin(); member != object_->end(); ++member) {
    if (!member->is_object()) return Wrong(member.key(), "must be a mapping");
    members.emplace_back(member.key(), Inner(&*member, member.key(), member.key(), names_));
  }
  return members;
}

base::Status ConfigReader::RefuseOthers(std::initializer_list<std::string_view> names) const {
  if (object_ == nullptr) return {};
  for (auto member = object_->begin(); member != object_->end(); ++member) {
    const bool known = std::ranges::any_of(names, [&](std::string_view name) {
      return name == member.key() ||
             (names_ == Names::kAnyCase && base::ToLower(name) == base::ToLower(member.key()));
    });
    if (!known) {
      return Wrong(member.key(), fmt::format("is not known; there are {}", fmt::join(names, ", ")));
    }
  }
  return {};
}

std::string ConfigReader::PathOf(std::string_view name) const {
  if (name.empty()) return path_;
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::unexpected<base::Error> ConfigReader::Wrong(std::string_view name,
                                                 std::string_view what) const {
  std::string place = source_;
  if (places_ != nullptr) {
    const auto written = WrittenName(object_, name, names_);
    place = places_->Of(written.empty() ? pointer_ : fmt::format("{}/{}", pointer_, written));
  }
  if (!place.empty()) place += ": ";
  return base::Fail(InvalidConfiguration(fmt::format("{}{} {}", place, PathOf(name), what)));
}

std::unexpected<base::Error> ConfigReader::WrongKind(std::string_view name,
                                                     std::string_view what) const {
  const Json* value = Find(name);
  if (value == nullptr) return Wrong(name, what);
  constexpr std::size_t kMostText = 60;
  std::string text = ToJsonText(*value);
  if (text.size() > kMostText) text = text.substr(0, kMostText) + "...";
  return Wrong(name, fmt::format("{}, not {}", what, text));
}

base::Result<ConfigDocument> ConfigDocument::Parse(std::string_view text, std::string_view source) {
  ConfigDocument document;
  document.source_ = source;
  TRY_ASSIGN(document.value_, ParseYaml(text, source, document.places_));
  return document;
}

base::Result<ConfigDocument> ConfigDocument::Load(const std::filesystem::path& file) {
  TRY_ASSIGN(const auto text, base::ReadFile(file));
  return Parse(text, file.string());
}

base::Result<ConfigReader> ConfigDocument::Root(Names names) const& {
  TRY_ASSIGN(auto reader, ConfigReader::Create(value_, source_, names));
  reader.places_ = &places_;
  return reader;
}

}  // namespace pitcrew::codec
