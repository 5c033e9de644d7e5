#include "base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace pitcrew::base {
namespace {

template <class Number>
Result<Number> ParseNumber(std::string_view text, std::string_view what) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty()) {
    return Fail(Invalid("InvalidNumber", fmt::format("\"{}\" is not {}", text, what)));
  }
  return value;
}

}  // namespace

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (;;) {
    const auto at = text.find(separator);
    pieces.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string> SplitTrimmed(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (const auto& piece : Split(text, separator)) {
    if (const auto trimmed = Trim(piece); !trimmed.empty()) pieces.emplace_back(trimmed);
  }
  return pieces;
}

std::string Join(const std::vector<std::string>& pieces, std::string_view separator) {
  std::string text;
  for (const auto& piece : pieces) {
    if (&piece != &pieces.front()) text += separator;
    text += piece;
  }
  return text;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

std::string ReplaceAll(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos;
       at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

Result<std::uint64_t> ParseUnsigned(std::string_view text) {
  return ParseNumber<std::uint64_t>(text, "a whole number of zero or more");
}

Result<std::int64_t> ParseInteger(std::string_view text) {
  return ParseNumber<std::int64_t>(text, "a whole number");
}

Result<double> ParseDouble(std::string_view text) { return ParseNumber<double>(text, "a number"); }

Result<bool> ParseGoBool(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "TRUE", "true", "True"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "f", "F", "FALSE", "false", "False"}) {
    if (text == no) return false;
  }
  return Fail(Invalid("InvalidBoolean", fmt::format("\"{}\" is neither true nor false", text)));
}

std::uint32_t HashFnv1a32(std::string_view bytes) {
  std::uint32_t hash = 2166136261U;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 16777619U;
  }
  return hash;
}

}  // namespace pitcrew::base
