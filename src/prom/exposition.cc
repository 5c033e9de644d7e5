#include "prom/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace pitcrew::prom {
namespace {

// What a help text may not hold as it is; label values are between quotes as well.
std::string EscapeHelp(std::string_view help) {
  std::string text = base::ReplaceAll(std::string(help), "\\", "\\\\");
  return base::ReplaceAll(std::move(text), "\n", "\\n");
}

std::string EscapeValue(std::string_view value) {
  return base::ReplaceAll(EscapeHelp(value), "\"", "\\\"");
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

bool IsName(std::string_view name, bool colons) {
  const auto fits = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (colons && c == ':');
  };
  return !name.empty() && (name.front() < '0' || name.front() > '9') &&
         std::ranges::all_of(name, fits);
}

}  // namespace

base::Status CheckMetricName(std::string_view name) {
  if (IsName(name, true)) return {};
  return base::Fail(base::Invalid(
      "InvalidMetricName",
      fmt::format("\"{}\" cannot name a metric: letters, digits, _ and :, no digit in front",
                  name)));
}

base::Status CheckLabelName(std::string_view name) {
  if (IsName(name, false) && !name.starts_with("__")) return {};
  return base::Fail(base::Invalid(
      "InvalidLabelName",
      fmt::format("\"{}\" cannot name a label: letters, digits and _, no digit and not __ in front",
                  name)));
}

Exposition::Family& Exposition::FamilyOf(std::string_view name, std::string_view type,
                                         std::string_view help) {
  const auto known = families_.find(name);
  if (known != families_.end()) return known->second;
  return families_
      .emplace(std::string(name),
               Family{.type = std::string(type), .help = std::string(help), .samples = {}})
      .first->second;
}

void Exposition::AddSample(Family& family, std::string_view name, const Labels& labels,
                           double value) {
  family.samples += name;
  if (!labels.empty()) {
    std::vector<std::string> parts;
    parts.reserve(labels.size());
    for (const auto& [key, text] : labels) {
      parts.push_back(fmt::format("{}=\"{}\"", key, EscapeValue(text)));
    }
    family.samples += "{" + base::Join(parts, ",") + "}";
  }
  family.samples += fmt::format(" {}\n", NumberText(value));
}

void Exposition::AddGauge(std::string_view name, std::string_view help, double value,
                          const Labels& labels) {
  AddSample(FamilyOf(name, "gauge", help), name, labels, value);
}

void Exposition::AddCounter(std::string_view name, std::string_view help, double value,
                            const Labels& labels) {
  AddSample(FamilyOf(name, "counter", help), name, labels, value);
}

void Exposition::AddHistogram(std::string_view name, std::string_view help,
                              const std::vector<double>& bounds,
                              const std::vector<std::uint64_t>& counts, double sum,
                              const Labels& labels) {
  Family& family = FamilyOf(name, "histogram", help);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
    Labels with_bound = labels;
    with_bound.emplace_back("le", bound);
    AddSample(family, fmt::format("{}_bucket", name), with_bound, static_cast<double>(below));
  }
  AddSample(family, fmt::format("{}_sum", name), labels, sum);
  AddSample(family, fmt::format("{}_count", name), labels, static_cast<double>(below));
}

std::string Exposition::Text() const {
  std::string text;
  for (const auto& [name, family] : families_) {
    text +=
        fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, EscapeHelp(family.help), family.type);
    text += family.samples;
  }
  return text;
}

}  // namespace pitcrew::prom
