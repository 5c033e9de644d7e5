#include "codec/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "codec/yaml_block.h"

namespace pitcrew::codec {
namespace {

struct YamlProblem {
  YAML::Mark mark;
  std::string message;
};

base::Error ToError(std::string_view source, const YAML::Mark& mark, std::string_view message) {
  if (mark.is_null()) {
    return base::Invalid("InvalidYaml", fmt::format("{}: {}", source, message));
  }
  return base::Invalid(
      "InvalidYaml", fmt::format("{}:{}:{}: {}", source, mark.line + 1, mark.column + 1, message));
}

std::optional<Json> NumberFrom(const std::string& text) {
  const char* first = text.data();
  const char* last = first + text.size();
  if (text.starts_with('+')) ++first;
  if (text.starts_with("0x") || text.starts_with("0o")) {
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(first + 2, last, value, text[1] == 'x' ? 16 : 8);
    if (problem == std::errc() && end == last) return Json(value);
    return std::nullopt;
  }
  std::int64_t integer = 0;
  if (const auto [end, problem] = std::from_chars(first, last, integer);
      problem == std::errc() && end == last) {
    return Json(integer);
  }
  std::uint64_t big = 0;
  if (const auto [end, problem] = std::from_chars(first, last, big);
      problem == std::errc() && end == last) {
    return Json(big);
  }
  // from_chars also reads "inf" and "nan", which JSON has no form for.
  if (text.find_first_not_of("0123456789.eE+-") != std::string::npos ||
      text.find_first_of("0123456789") == std::string::npos) {
    return std::nullopt;
  }
  double real = 0;
  if (const auto [end, problem] = std::from_chars(first, last, real);
      problem == std::errc() && end == last && std::isfinite(real)) {
    return Json(real);
  }
  return std::nullopt;
}

using Marks = std::map<std::string, std::pair<int, int>, std::less<>>;

// `marks` may be null; `pointer` is the JSON pointer of `node`.
Json Convert(const YAML::Node& node, Marks* marks, const std::string& pointer) {
  if (marks != nullptr && node.IsDefined()) {
    (*marks)[pointer] = {node.Mark().line + 1, node.Mark().column + 1};
  }
  const auto below = [&](std::string_view name) {
    return marks == nullptr ? std::string() : fmt::format("{}/{}", pointer, name);
  };
  switch (node.Type()) {
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null:
      return {};
    case YAML::NodeType::Scalar:
      // yaml-cpp tags quoted scalars "!" and plain ones "?".
      return node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str"
                 ? Json(node.Scalar())
                 : PlainYamlScalar(node.Scalar());
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const auto& item : node) {
        list.push_back(Convert(item, marks, below(std::to_string(list.size()))));
      }
      return list;
    }
    case YAML::NodeType::Map: {
      Json object = Json::object();
      for (const auto& member : node) {
        if (!member.first.IsScalar()) {
          throw YamlProblem{member.first.Mark(), "a key must be plain text"};
        }
        const auto& key = member.first.Scalar();
        if (object.contains(key)) {
          throw YamlProblem{member.first.Mark(), fmt::format("key \"{}\" stands here twice", key)};
        }
        object[key] = Convert(member.second, marks, below(key));
      }
      return object;
    }
  }
  return {};
}

bool NeedsQuotes(const std::string& text) {
  if (!PlainYamlScalar(text).is_string()) return true;
  // YAML 1.1 readers take these for booleans.
  for (const std::string_view word : {"y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO",
                                      "on", "On", "ON", "off", "Off", "OFF"}) {
    if (text == word) return true;
  }
  return text == "=" || text == "<<";
}

void Emit(YAML::Emitter& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      if (value.empty()) {
        out << YAML::Flow;
      }
      out << YAML::BeginMap;
      for (const auto& [key, member] : value.items()) {
        out << YAML::Key;
        Emit(out, Json(key));
        out << YAML::Value;
        Emit(out, member);
      }
      out << YAML::EndMap;
      return;
    case Json::value_t::array:
      if (value.empty()) {
        out << YAML::Flow;
      }
      out << YAML::BeginSeq;
      for (const auto& item : value) Emit(out, item);
      out << YAML::EndSeq;
      return;
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      if (text.find('\n') != std::string::npos && text.find_first_of("\t\r") == std::string::npos &&
          text.back() == '\n' && !text.starts_with(' ') && !text.starts_with('\n') &&
          !text.ends_with("\n\n")) {
        out << YAML::Literal << text;
      } else if (text.find_first_of("\n\t\r") != std::string::npos || NeedsQuotes(text)) {
        out << YAML::DoubleQuoted << text;
      } else {
        out << text;
      }
      return;
    }
    case Json::value_t::null:
      out << YAML::Null;
      return;
    default:
      out << ToJsonText(value);
      return;
  }
}

}  // namespace

namespace {

base::Result<std::vector<Json>> ParseDocuments(std::string_view text, std::string_view source,
                                               Marks* marks) {
  if (marks == nullptr) {
    // Everything that the general reader would refuse is left to it, and so is the message.
    if (auto simple = ReadBlockYaml(text)) return *std::move(simple);
  }
  try {
    std::vector<Json> documents;
    for (const auto& node : YAML::LoadAll(std::string(text))) {
      auto value = Convert(node, marks, "");
      if (!value.is_null()) documents.push_back(std::move(value));
    }
    return documents;
  } catch (const YamlProblem& problem) {
    return base::Fail(ToError(source, problem.mark, problem.message));
  } catch (const YAML::Exception& problem) {
    return base::Fail(ToError(source, problem.mark, problem.msg));
  }
}

base::Result<Json> OneDocument(std::string_view text, std::string_view source, Marks* marks) {
  TRY_ASSIGN(auto documents, ParseDocuments(text, source, marks));
  if (documents.size() > 1) {
    return base::Fail(base::Invalid(
        "InvalidYaml",
        fmt::format("{}: one document is expected, not {}", source, documents.size())));
  }
  return documents.empty() ? Json() : std::move(documents.front());
}

}  // namespace

Json PlainYamlScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (auto number = NumberFrom(text)) return *std::move(number);
  return text;
}

base::Result<std::vector<Json>> ParseYamlStream(std::string_view text, std::string_view source) {
  return ParseDocuments(text, source, nullptr);
}

base::Result<Json> ParseYaml(std::string_view text, std::string_view source) {
  return OneDocument(text, source, nullptr);
}

base::Result<Json> ParseYaml(std::string_view text, std::string_view source, YamlPlaces& places) {
  places.source_ = source;
  return OneDocument(text, source, &places.marks_);
}

std::string YamlPlaces::Of(std::string_view pointer) const {
  for (;;) {
    if (const auto mark = marks_.find(pointer); mark != marks_.end()) {
      return fmt::format("{}:{}:{}", source_, mark->second.first, mark->second.second);
    }
    if (pointer.empty()) return source_;
    pointer = pointer.substr(0, pointer.rfind('/'));
  }
}

std::string ToYamlText(const Json& value) {
  YAML::Emitter out;
  out.SetIndent(2);
  out.SetNullFormat(YAML::LowerNull);
  Emit(out, value);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace pitcrew::codec
