#include "prom/sample.h"

#include <cmath>

#include "base/strings.h"

namespace pitcrew::prom {
namespace {

// The end of a label's value: a quotation mark before ',' or '}', as nothing in it is escaped.
std::size_t EndOfValue(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '"' && (text[i + 1] == ',' || text[i + 1] == '}')) return i;
  }
  return std::string_view::npos;
}

}  // namespace

std::string_view Sample::Label(std::string_view name_now, std::string_view name_before) const {
  for (const std::string_view key : {name_now, name_before}) {
    const auto found = labels.find(key);
    if (found != labels.end()) return found->second;
  }
  return {};
}

std::optional<Sample> ReadSample(std::string_view line) {
  const auto brace = line.find('{');
  if (line.starts_with('#') || brace == std::string_view::npos) return std::nullopt;
  Sample sample{.name = line.substr(0, brace), .labels = {}};
  std::string_view rest = line.substr(brace + 1);
  while (!rest.starts_with('}')) {
    const auto equals = rest.find("=\"");
    if (equals == std::string_view::npos) return std::nullopt;
    const auto end = EndOfValue(rest.substr(equals + 2));
    if (end == std::string_view::npos) return std::nullopt;
    sample.labels[rest.substr(0, equals)] = rest.substr(equals + 2, end);
    rest.remove_prefix(equals + 2 + end + 1);
    if (rest.starts_with(',')) rest.remove_prefix(1);
  }
  const auto number = base::Trim(rest.substr(1));
  const auto value = base::ParseDouble(number.substr(0, number.find(' ')));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  sample.value = *value;
  return sample;
}

void ForEachSample(std::string_view text, const std::function<void(const Sample&)>& take) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (const auto sample = ReadSample(text.substr(0, end))) take(*sample);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace pitcrew::prom
