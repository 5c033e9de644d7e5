// Small text operations that every room needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pitcrew::base {

// Splits at every `separator`; "a,,b" gives "a", "", "b"; "" gives one empty piece.
std::vector<std::string> Split(std::string_view text, char separator);
// Splits, trims white space, and drops empty pieces.
std::vector<std::string> SplitTrimmed(std::string_view text, char separator);
std::string Join(const std::vector<std::string>& pieces, std::string_view separator);
std::string_view Trim(std::string_view text);
std::string ToLower(std::string_view text);
std::string ReplaceAll(std::string text, std::string_view from, std::string_view to);

// The whole text must be a decimal number.
Result<std::uint64_t> ParseUnsigned(std::string_view text);
Result<std::int64_t> ParseInteger(std::string_view text);
Result<double> ParseDouble(std::string_view text);
// Go's strconv.ParseBool: 1, t, T, TRUE, true, True, and the same for false.
Result<bool> ParseGoBool(std::string_view text);

// FNV-1a, 32 bit.
std::uint32_t HashFnv1a32(std::string_view bytes);

}  // namespace pitcrew::base
