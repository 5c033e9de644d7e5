#include "simulation/state/mps.h"

#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace pitcrew::simulation {
namespace {

template <class Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::filesystem::path MpsPipeFolder() {
  const char* folder = std::getenv(kMpsPipeVariable);
  return folder != nullptr && *folder != 0 ? folder : kMpsPipeFolder;
}

std::filesystem::path MpsSocket() { return MpsPipeFolder() / "control"; }

std::string MpsLimits::ToText() const {
  char percentage[32];
  std::snprintf(percentage, sizeof(percentage), "%g", active_thread_percentage);
  std::string text = percentage;
  for (const auto& [gpu, bytes] : pinned_memory) text += " " + gpu + "=" + std::to_string(bytes);
  return text;
}

std::optional<MpsLimits> MpsLimits::Parse(std::string_view text) {
  MpsLimits limits;
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (first) {
      const auto percentage = ParseThreadPercentage(word);
      if (!percentage) return std::nullopt;
      limits.active_thread_percentage = *percentage;
      first = false;
      continue;
    }
    const auto sign = word.find('=');
    if (sign == std::string_view::npos) return std::nullopt;
    const auto bytes = ParseWhole<std::uint64_t>(word.substr(sign + 1));
    if (!bytes) return std::nullopt;
    limits.pinned_memory[std::string(word.substr(0, sign))] = *bytes;
  }
  if (first) return std::nullopt;
  return limits;
}

std::optional<std::uint64_t> ParseMemoryLimit(std::string_view text) {
  const auto digits = text.find_first_not_of("0123456789");
  const auto number = ParseWhole<std::uint64_t>(text.substr(0, digits));
  std::string unit;
  if (digits != std::string_view::npos) {
    for (const char c : text.substr(digits)) {
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (unit.size() == 2 && unit[1] == 'b') unit.pop_back();
  const int shift = unit.empty() ? 0 : unit == "k" ? 10 : unit == "m" ? 20 : unit == "g" ? 30 : -1;
  if (!number || shift < 0 || *number > (~std::uint64_t{0} >> shift)) return std::nullopt;
  return *number << shift;
}

std::optional<double> ParseThreadPercentage(std::string_view text) {
  const auto value = ParseWhole<double>(text);
  if (!value || !(*value > 0 && *value <= 100)) return std::nullopt;
  return value;
}

}  // namespace pitcrew::simulation
