#include "operator/metrics/exposition.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace pitcrew::gpu_operator {
namespace {

std::string Escape(std::string_view value) {
  std::string text = base::ReplaceAll(std::string(value), "\\", "\\\\");
  text = base::ReplaceAll(std::move(text), "\"", "\\\"");
  return base::ReplaceAll(std::move(text), "\n", "\\n");
}

}  // namespace

Exposition::Family& Exposition::FamilyOf(std::string_view name, std::string_view type,
                                         std::string_view help) {
  const auto known = families_.find(name);
  if (known != families_.end()) return known->second;
  return families_
      .emplace(std::string(name),
               Family{.type = std::string(type), .help = std::string(help), .samples = {}})
      .first->second;
}

void Exposition::AddSample(Family& family, std::string_view name, const MetricLabels& labels,
                           double value) {
  family.samples += name;
  if (!labels.empty()) {
    std::vector<std::string> parts;
    parts.reserve(labels.size());
    for (const auto& [key, text] : labels) {
      parts.push_back(fmt::format("{}=\"{}\"", key, Escape(text)));
    }
    family.samples += "{" + base::Join(parts, ",") + "}";
  }
  family.samples += fmt::format(" {}\n", value);
}

void Exposition::AddGauge(std::string_view name, std::string_view help, double value,
                          const MetricLabels& labels) {
  AddSample(FamilyOf(name, "gauge", help), name, labels, value);
}

void Exposition::AddCounter(std::string_view name, std::string_view help, double value,
                            const MetricLabels& labels) {
  AddSample(FamilyOf(name, "counter", help), name, labels, value);
}

void Exposition::AddHistogram(std::string_view name, std::string_view help,
                              const std::vector<double>& bounds,
                              const std::vector<std::uint64_t>& counts, double sum,
                              const MetricLabels& labels) {
  Family& family = FamilyOf(name, "histogram", help);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
    MetricLabels with_bound = labels;
    with_bound.emplace_back("le", bound);
    AddSample(family, fmt::format("{}_bucket", name), with_bound, static_cast<double>(below));
  }
  AddSample(family, fmt::format("{}_sum", name), labels, sum);
  AddSample(family, fmt::format("{}_count", name), labels, static_cast<double>(below));
}

std::string Exposition::Text() const {
  std::string text;
  for (const auto& [name, family] : families_) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, family.help, family.type);
    text += family.samples;
  }
  return text;
}

}  // namespace pitcrew::gpu_operator
