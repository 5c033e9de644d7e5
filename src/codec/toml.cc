#include "codec/toml.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/toml_library.h"

namespace pitcrew::codec {
namespace {

Json Convert(const toml::node& node);

Json ConvertTable(const toml::table& table) {
  Json object = Json::object();
  for (const auto& [key, member] : table) object[std::string(key.str())] = Convert(member);
  return object;
}

template <class Time>
std::string TimeText(const Time& time) {
  return fmt::format("{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
}

template <class Date>
std::string DateText(const Date& date) {
  return fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
}

Json Convert(const toml::node& node) {
  if (const auto* table = node.as_table()) return ConvertTable(*table);
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const auto& item : *array) list.push_back(Convert(item));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* date = node.as_date()) return DateText(date->get());
  if (const auto* time = node.as_time()) return TimeText(time->get());
  if (const auto* moment = node.as_date_time()) {
    return DateText(moment->get().date) + "T" + TimeText(moment->get().time);
  }
  return {};
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '\b':
        out += "\\b";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\r':
        out += "\\r";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::string KeyText(const std::string& key) {
  const bool bare = !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return bare ? key : Quoted(key);
}

std::string FloatText(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string ValueText(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string:
      return Quoted(value.get_ref<const std::string&>());
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::number_float:
      return FloatText(value.get<double>());
    case Json::value_t::array: {
      std::string text = "[";
      for (const auto& item : value) {
        if (text.size() > 1) text += ", ";
        text += ValueText(item);
      }
      return text + "]";
    }
    case Json::value_t::object: {  // a table inside a mixed array can only be inline
      std::string text = "{";
      for (const auto& [key, member] : value.items()) {
        if (text.size() > 1) text += ", ";
        text += KeyText(key) + " = " + ValueText(member);
      }
      return text + "}";
    }
    default:
      return value.dump();
  }
}

bool IsTableArray(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const Json& item) { return item.is_object(); });
}

void AppendTable(std::string& out, const Json& table, const std::string& path, std::size_t depth) {
  const std::string indent(2 * depth, ' ');
  for (const auto& [key, value] : table.items()) {
    if (value.is_object() || value.is_null() || IsTableArray(value)) continue;
    out += indent + KeyText(key) + " = " + ValueText(value) + "\n";
  }
  for (const auto& [key, value] : table.items()) {
    const std::string name = path.empty() ? KeyText(key) : path + "." + KeyText(key);
    if (value.is_object()) {
      out += fmt::format("\n{}[{}]\n", indent, name);
      AppendTable(out, value, name, depth + 1);
    } else if (IsTableArray(value)) {
      for (const auto& item : value) {
        out += fmt::format("\n{}[[{}]]\n", indent, name);
        AppendTable(out, item, name, depth + 1);
      }
    }
  }
}

}  // namespace

base::Result<Json> ParseToml(std::string_view text, std::string_view source) {
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const auto& problem = result.error();
    return base::Fail(base::Invalid(
        "InvalidToml", fmt::format("{}:{}:{}: {}", source, problem.source().begin.line,
                                   problem.source().begin.column, problem.description())));
  }
  return ConvertTable(result.table());
}

std::string ToTomlText(const Json& value) {
  std::string out;
  AppendTable(out, value, "", 0);
  return out;
}

}  // namespace pitcrew::codec
