#include "desired/quantity.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace pitcrew::desired {
namespace {

// In billionths, the finest amount that Kubernetes keeps.
__extension__ using Amount = __int128;

constexpr int kFinest = 9;    // decimal places of an amount
constexpr int kLongest = 18;  // digits of a number that can be scaled without overflow

struct Suffix {
  std::string_view text;
  int decimal;  // power of 10
  int binary;   // power of 2
};

constexpr Suffix kSuffixes[] = {{"Ki", 0, 10}, {"Mi", 0, 20}, {"Gi", 0, 30}, {"Ti", 0, 40},
                                {"Pi", 0, 50}, {"Ei", 0, 60}, {"n", -9, 0},  {"u", -6, 0},
                                {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},   {"G", 9, 0},
                                {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"", 0, 0}};

// Takes the suffix or exponent off the end of `text`.
std::optional<Suffix> TakeSuffix(std::string_view& text) {
  const auto exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos &&
      text.find_first_of("+-0123456789", exponent) == exponent + 1) {  // and not exbibytes
    std::string_view digits = text.substr(exponent + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto power = base::ParseInteger(digits);
    if (!power || *power < -kLongest || *power > kLongest) return std::nullopt;
    text = text.substr(0, exponent);
    return Suffix{"", static_cast<int>(*power), 0};
  }
  for (const Suffix& suffix : kSuffixes) {
    if (!text.ends_with(suffix.text)) continue;
    text.remove_suffix(suffix.text.size());
    return suffix;
  }
  return std::nullopt;
}

// Multiplies by a power of 10 and one of 2; nothing when that overflows or leaves a rest.
std::optional<Amount> Scale(Amount amount, int decimal, int binary) {
  const Amount kLimit = std::numeric_limits<Amount>::max() / 10;
  for (; decimal > 0; --decimal) {
    if (amount > kLimit || amount < -kLimit) return std::nullopt;
    amount *= 10;
  }
  for (; binary > 0; --binary) {
    if (amount > kLimit || amount < -kLimit) return std::nullopt;
    amount *= 2;
  }
  for (; decimal < 0; ++decimal) {
    if (amount % 10 != 0) return std::nullopt;
    amount /= 10;
  }
  return amount;
}

std::optional<Amount> ReadQuantity(std::string_view text) {
  const auto suffix = TakeSuffix(text);
  if (!suffix) return std::nullopt;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto point = text.find('.');
  std::string digits(text.substr(0, point));
  int places = 0;
  if (point != std::string_view::npos) {
    const std::string_view fraction = text.substr(point + 1);
    places = static_cast<int>(fraction.size());
    digits += fraction;
  }
  if (digits.empty() || digits.size() > kLongest) return std::nullopt;
  const auto number = base::ParseUnsigned(digits);
  if (!number) return std::nullopt;
  const Amount amount = negative ? -static_cast<Amount>(*number) : static_cast<Amount>(*number);
  return Scale(amount, kFinest - places + suffix->decimal, suffix->binary);
}

std::optional<Amount> ReadQuantity(const codec::Json& value) {
  if (value.is_string()) return ReadQuantity(std::string_view(value.get_ref<const std::string&>()));
  if (value.is_number()) return ReadQuantity(std::string_view(codec::ToJsonText(value)));
  return std::nullopt;
}

}  // namespace

bool SameQuantity(const codec::Json& a, const codec::Json& b) {
  const auto first = ReadQuantity(a);
  return first && first == ReadQuantity(b);
}

}  // namespace pitcrew::desired
