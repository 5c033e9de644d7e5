// Letters and digits of ASCII, whatever the locale.
#pragma once

#include <algorithm>
#include <string_view>

namespace pitcrew::base {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
// One digit or more, and nothing else.
constexpr bool IsDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsDigit);
}

}  // namespace pitcrew::base
