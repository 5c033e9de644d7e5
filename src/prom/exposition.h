// Prometheus' text format, built family by family.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pitcrew::prom {

// Names and values of labels, in the order in which they are written.
using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

// Whether a text may be the name of a metric or of a label: kInvalid "InvalidMetricName" or
// "InvalidLabelName" with the text.
base::Status CheckMetricName(std::string_view name);
base::Status CheckLabelName(std::string_view name);

// Names given here are the caller's constants, or were checked. Label values and help texts may
// hold anything: they are escaped.
//
// Samples of one family may come from several places: they are written together, as the format
// wants it.
class Exposition {
 public:
  // `help` and the type of the first sample of a family count.
  void AddGauge(std::string_view name, std::string_view help, double value,
                const Labels& labels = {});
  void AddCounter(std::string_view name, std::string_view help, double value,
                  const Labels& labels = {});
  // `bounds` are the upper ones, ascending; `counts` has one more entry, for what is above the
  // last. Counts are per bucket, not cumulated.
  void AddHistogram(std::string_view name, std::string_view help, const std::vector<double>& bounds,
                    const std::vector<std::uint64_t>& counts, double sum,
                    const Labels& labels = {});

  [[nodiscard]] std::string Text() const;

 private:
  struct Family {
    std::string type;
    std::string help;
    std::string samples;
  };
  Family& FamilyOf(std::string_view name, std::string_view type, std::string_view help);
  static void AddSample(Family& family, std::string_view name, const Labels& labels, double value);
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace pitcrew::prom
