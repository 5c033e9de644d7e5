// Prometheus' text format, read line by line.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>

namespace pitcrew::prom {

// Borrowed from the text.
struct Sample {
  std::string_view name;
  std::map<std::string_view, std::string_view> labels;
  double value = 0;

  // The first of these that there is: names of former versions still occur.
  [[nodiscard]] std::string_view Label(std::string_view name_now,
                                       std::string_view name_before = {}) const;
};

// NAME{LABEL="VALUE",...} NUMBER; nothing for any other line. Upstream's metrics exporter escapes
// nothing in values of labels (metrics-exporter.md section 4.3), so nothing is unescaped.
std::optional<Sample> ReadSample(std::string_view line);

// Every line that is a sample; the others tell nothing.
void ForEachSample(std::string_view text, const std::function<void(const Sample&)>& take);

}  // namespace pitcrew::prom
