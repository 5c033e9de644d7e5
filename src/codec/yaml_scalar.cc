#include "codec/yaml_scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "codec/base64.h"

namespace pitcrew::codec {
namespace {

using base::IsDigit;

constexpr std::string_view kTagPrefix = "tag:yaml.org,2002:";

std::unexpected<base::Error> Wrong(std::string message) {
  return base::Fail(base::Invalid("InvalidYaml", std::move(message)));
}

// Texts that stand for a value as they are.
std::optional<Json> WordFrom(std::string_view text) {
  const auto any = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, text) != words.end();
  };
  if (any({"", "~", "null", "Null", "NULL"})) return Json();
  if (any({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (any({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    return false;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (any({".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  if (any({".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})) return kInfinity;
  if (any({"-.inf", "-.Inf", "-.INF"})) return -kInfinity;
  return std::nullopt;
}

// Go's strconv.ParseInt and ParseUint with base 0: 0x, 0b, 0o, and 0 alone for octal.
std::optional<Json> IntegerFrom(std::string_view text) {
  const bool sign = text.starts_with('-') || text.starts_with('+');
  const bool negative = text.starts_with('-');
  if (sign) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    text.remove_prefix(letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
  }
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (negative && value <= kMost + 1) return Json(static_cast<std::int64_t>(0 - value));
  if (negative || (sign && value > kMost)) return std::nullopt;
  return value <= kMost ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
std::optional<Json> FloatFrom(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > begin;
  };
  const auto one_of = [&](std::string_view letters) {
    const bool there = text.find_first_of(letters, at) == at;
    if (there) ++at;
    return there;
  };
  one_of("+-");
  const bool whole = digits();
  const bool part = one_of(".") && digits();
  if (!whole && !part) return std::nullopt;
  if (one_of("eE")) {
    one_of("+-");
    if (!digits()) return std::nullopt;
  }
  if (at != text.size()) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  // Too large stays text; too small is 0 in Go.
  if (problem == std::errc::result_out_of_range) {
    const auto exponent = text.find_first_of("eE");
    const bool small = exponent != std::string_view::npos && text[exponent + 1] == '-';
    return small ? std::optional(Json(0.0)) : std::nullopt;
  }
  return problem == std::errc() ? std::optional(Json(value)) : std::nullopt;
}

std::optional<Json> NumberFrom(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  if (auto integer = IntegerFrom(plain)) return integer;
  return FloatFrom(plain);
}

// A date with fields of one or two digits, alone or with a time: "T" or "t" and a zone, or a blank
// and none.
bool IsTimestamp(const std::string& text) {
  if (text.size() < 5 || !std::all_of(text.begin(), text.begin() + 4, IsDigit)) return false;
  std::tm time{};
  const auto rest_of = [&](const char* from, const char* format) {
    return ::strptime(from, format, &time);
  };
  const char* rest = rest_of(text.c_str(), "%Y-%m-%d");
  if (rest == nullptr) return false;
  const std::array<int, 12> days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const int year = time.tm_year + 1900;
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  const auto month = static_cast<std::size_t>(time.tm_mon);
  if (time.tm_mday > days.at(month) + (leap && month == 1 ? 1 : 0)) return false;
  if (*rest == '\0') return true;
  const bool zoned = *rest == 'T' || *rest == 't';
  if (!zoned && *rest != ' ') return false;
  rest = rest_of(rest + 1, "%H:%M:%S");
  if (rest == nullptr || time.tm_sec > 59) return false;
  if (*rest == '.' && IsDigit(rest[1])) {
    ++rest;
    while (IsDigit(*rest)) ++rest;
  }
  if (!zoned) return *rest == '\0';
  if (*rest == 'Z') return rest[1] == '\0';
  const std::string_view offset(rest);
  return offset.size() == 6 && (offset[0] == '+' || offset[0] == '-') && IsDigit(offset[1]) &&
         IsDigit(offset[2]) && offset[3] == ':' && IsDigit(offset[4]) && IsDigit(offset[5]);
}

// Bytes that are no UTF-8 become U+FFFD, one each, as Go's JSON writes them.
std::string ValidUtf8(const std::string& text) {
  std::string valid;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const std::string one = text.substr(at, length);
    const bool fits = one.size() == length && Json::accept("\"" + one + "\"");
    if (fits || lead < 0x80) {
      valid += one;
      at += length;
    } else {
      valid += "\xEF\xBF\xBD";
      ++at;
    }
  }
  return valid;
}

base::Result<Json> BinaryFrom(std::string_view text) {
  std::string encoded(text);
  std::erase_if(encoded, [](char c) { return c == '\n' || c == '\r'; });
  const auto bytes = DecodeBase64(encoded);
  if (!bytes || encoded.find_first_of(" \t") != std::string::npos)
    return Wrong("!!binary needs base64");
  return Json(ValidUtf8(*bytes));
}

// Plain text without a tag, or with one that a number or word has to fit.
Json Guess(const std::string& text) {
  if (text.empty()) return {};
  const char first = text.front();
  const bool number = IsDigit(first) || first == '+' || first == '-';
  if (!number && std::string_view("yYnNtTfFoO~.").find(first) == std::string_view::npos)
    return text;
  if (auto word = WordFrom(text)) return *std::move(word);
  std::optional<Json> value;
  if (number) value = NumberFrom(text);
  if (first == '.') value = FloatFrom(text);
  return value ? *std::move(value) : Json(text);
}

// The shortest digits that mean this number, and the power of ten of the first one.
template <class Number>
std::pair<std::string, int> Shortest(Number value) {
  std::array<char, 64> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value),
                                     std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  const auto exponent = text.find('e');
  std::string digits(text.substr(0, exponent));
  std::erase(digits, '.');
  const char* power = text.data() + exponent + 1 + (text[exponent + 1] == '+' ? 1 : 0);
  int first = 0;
  std::from_chars(power, text.data() + text.size(), first);
  return {digits, first};
}

// Go's strconv.FormatFloat(value, 'g', -1, 32).
std::string FloatKey(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(static_cast<float>(value))) return value > 0 ? ".inf" : "-.inf";
  const auto [digits, power] = Shortest(static_cast<float>(value));
  const std::string sign = std::signbit(value) ? "-" : "";
  if (power < -4 || power >= 6) {
    const std::string rest = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], rest, power < 0 ? '-' : '+',
                       std::abs(power));
  }
  if (power < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-power - 1), '0') + digits;
  const auto before = static_cast<std::size_t>(power) + 1;
  if (digits.size() <= before) return sign + digits + std::string(before - digits.size(), '0');
  return sign + digits.substr(0, before) + "." + digits.substr(before);
}

}  // namespace

base::Result<Json> ResolveYamlScalar(std::string_view text, std::string_view tag) {
  const std::string word(text);
  if (tag.empty()) return Guess(word);
  if (!tag.starts_with(kTagPrefix)) return word;
  const std::string_view type = tag.substr(kTagPrefix.size());
  if (type == "binary") return BinaryFrom(text);
  const auto unfit = [&] { return Wrong(fmt::format("\"{}\" is no !!{}", text, type)); };
  if (type == "timestamp") return IsTimestamp(word) ? base::Result<Json>(word) : unfit();
  Json value = Guess(word);
  if (type == "null") return value.is_null() ? base::Result<Json>(value) : unfit();
  if (type == "bool") return value.is_boolean() ? base::Result<Json>(value) : unfit();
  if (type == "int") return value.is_number_integer() ? base::Result<Json>(value) : unfit();
  if (type == "float") {
    if (value.is_number_float()) return value;
    // Larger ones are not converted by the Go library.
    const bool small = value.is_number_integer() && !value.is_number_unsigned();
    return small ? base::Result<Json>(value.get<double>()) : unfit();
  }
  return word;  // !!str, and tags that nobody knows
}

base::Result<Json> YamlValue(Json resolved) {
  if (!resolved.is_number_float()) return resolved;
  const double value = resolved.get<double>();
  if (!std::isfinite(value)) return Wrong("JSON has no form for this number");
  constexpr double kMostDigits = 1e21;  // Go writes an exponent from here on
  if (value != std::trunc(value) || std::abs(value) >= kMostDigits) return resolved;
  if (value == 0) return Json(0);
  const auto [digits, power] = Shortest(value);
  const std::string text = (value < 0 ? "-" : "") + digits +
                           std::string(static_cast<std::size_t>(power) + 1 - digits.size(), '0');
  return Json::parse(text);
}

base::Result<std::string> YamlKey(const Json& resolved) {
  if (resolved.is_string()) return resolved.get<std::string>();
  if (resolved.is_boolean()) return resolved.get<bool>() ? "true" : "false";
  if (resolved.is_number_float()) return FloatKey(resolved.get<double>());
  if (resolved.is_number_integer() && !resolved.is_number_unsigned()) {
    return std::to_string(resolved.get<std::int64_t>());
  }
  if (resolved.is_null()) return Wrong("null cannot be a key");
  if (resolved.is_number()) return Wrong("this number is too large for a key");
  return Wrong("a key must be plain text");
}

}  // namespace pitcrew::codec
