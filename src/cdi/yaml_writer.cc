#include "cdi/yaml_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/ascii.h"

namespace pitcrew::cdi {
namespace {

using base::IsDigit;
using Ordered = nlohmann::ordered_json;

bool AllDigits(std::string_view text, int base) {
  return !text.empty() && std::ranges::all_of(text, [base](char c) {
    if (base == 16) return std::isxdigit(static_cast<unsigned char>(c)) != 0;
    return c >= '0' && c < '0' + std::min(base, 10);
  });
}

std::string_view WithoutSign(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  return text;
}

// What strconv.ParseInt(text, 0, 64) takes once underscores are gone.
bool LooksLikeInteger(std::string_view text) {
  std::string plain(WithoutSign(text));
  std::erase(plain, '_');
  const std::string_view rest = plain;
  if (rest.starts_with("0x") || rest.starts_with("0X")) return AllDigits(rest.substr(2), 16);
  if (rest.starts_with("0b") || rest.starts_with("0B")) return AllDigits(rest.substr(2), 2);
  if (rest.starts_with("0o") || rest.starts_with("0O")) return AllDigits(rest.substr(2), 8);
  return AllDigits(rest, 10);
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool LooksLikeFloat(std::string_view text) {
  text = WithoutSign(text);
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at - begin;
  };
  const std::size_t whole = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0 && whole == 0) return false;
  } else if (whole == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

// YAML 1.1 numbers to base 60, as "10:30": every part after a colon is 0 to 59.
bool LooksLikeBase60(std::string_view text) {
  text = WithoutSign(text);
  if (text.empty() || !IsDigit(text.front()) || text.find(':') == std::string_view::npos) {
    return false;
  }
  std::size_t at = 0;
  while (at < text.size() && (IsDigit(text[at]) || text[at] == '_')) ++at;
  while (at < text.size() && text[at] == ':') {
    const std::size_t begin = ++at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    const auto part = text.substr(begin, at - begin);
    if (part.empty() || part.size() > 2 || (part.size() == 2 && part.front() > '5')) return false;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    while (at < text.size() && (IsDigit(text[at]) || text[at] == '_')) ++at;
  }
  return at == text.size();
}

// A date as 2026-01-31, perhaps with a time behind it.
bool LooksLikeTimestamp(std::string_view text) {
  if (text.size() < 8 || !AllDigits(text.substr(0, 4), 10) || text[4] != '-') return false;
  const auto rest = text.substr(5);
  const auto dash = rest.find('-');
  return (dash == 1 || dash == 2) && AllDigits(rest.substr(0, dash), 10) &&
         dash + 1 < rest.size() && IsDigit(rest[dash + 1]);
}

bool IsSpecialWord(std::string_view text) {
  static constexpr std::string_view kWords[] = {
      "",      "~",     "null",  "Null", "NULL", "true", "True", "TRUE",  "false", "False",
      "FALSE", ".nan",  ".NaN",  ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF",
      "-.inf", "-.Inf", "-.INF", "<<",   "y",    "Y",    "yes",  "Yes",   "YES",   "on",
      "On",    "ON",    "n",     "N",    "no",   "No",   "NO",   "off",   "Off",   "OFF"};
  return std::ranges::find(kWords, text) != std::end(kWords);
}

// Whether the text would be read back as something else than text.
bool ResolvesToOther(std::string_view text) {
  return IsSpecialWord(text) || LooksLikeInteger(text) || LooksLikeFloat(text) ||
         LooksLikeBase60(text) || LooksLikeTimestamp(text);
}

bool HasControlCharacters(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// Whether YAML's syntax forbids the text as a plain scalar in block context.
bool NeedsQuotes(std::string_view text) {
  if (text.front() == ' ' || text.back() == ' ') return true;
  if (text.starts_with("---") || text.starts_with("...")) return true;
  static constexpr std::string_view kIndicators = "#,[]{}&*!|>'\"%@`";
  if (kIndicators.find(text.front()) != std::string_view::npos) return true;
  const bool first_ends = text.size() == 1 || text[1] == ' ';
  if ((text.front() == '?' || text.front() == ':' || text.front() == '-') && first_ends)
    return true;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == ':' && (i + 1 == text.size() || text[i + 1] == ' ')) return true;
    if (text[i] == '#' && text[i - 1] == ' ') return true;
  }
  return false;
}

std::string SingleQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += c;
  }
  return out + "'";
}

std::string DoubleQuoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (HasControlCharacters({&c, 1})) {
          out += fmt::format("\\x{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::size_t NextStep(std::size_t column) { return (column / 4 + 1) * 4; }

bool IsBlock(const Ordered& value) { return value.is_structured() && !value.empty(); }

std::string FlowText(const Ordered& value) {
  if (value.is_object()) return "{}";
  if (value.is_array()) return "[]";
  if (value.is_string()) return GoYamlScalar(value.get_ref<const std::string&>());
  return value.dump();
}

void AppendBlock(std::string& out, const Ordered& value, std::size_t column, bool first_in_place);

// "key: value" lines of an object at `column`; the first line's indentation may stand already.
void AppendObject(std::string& out, const Ordered& object, std::size_t column,
                  bool first_in_place) {
  for (const auto& [key, member] : object.items()) {
    if (!first_in_place) out += std::string(column, ' ');
    first_in_place = false;
    out += GoYamlScalar(key) + ":";
    if (IsBlock(member)) {
      out += "\n";
      AppendBlock(out, member, NextStep(column), false);
    } else {
      out += " " + FlowText(member) + "\n";
    }
  }
}

void AppendBlock(std::string& out, const Ordered& value, std::size_t column, bool first_in_place) {
  if (value.is_object()) return AppendObject(out, value, column, first_in_place);
  for (const auto& item : value) {
    out += std::string(column, ' ') + "- ";
    if (IsBlock(item)) {
      AppendBlock(out, item, column + 2, true);
    } else {
      out += FlowText(item) + "\n";
    }
  }
}

}  // namespace

std::string GoYamlScalar(std::string_view text) {
  if (ResolvesToOther(text) || HasControlCharacters(text)) return DoubleQuoted(text);
  return NeedsQuotes(text) ? SingleQuoted(text) : std::string(text);
}

std::string WriteGoYaml(const nlohmann::ordered_json& value) {
  std::string out;
  if (IsBlock(value)) {
    AppendBlock(out, value, 0, false);
  } else {
    out = FlowText(value) + "\n";
  }
  return out;
}

}  // namespace pitcrew::cdi
