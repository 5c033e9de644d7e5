#include "node/metrics_exporter/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "node/metrics_exporter/csv.h"

namespace pitcrew::node::metrics_exporter {
namespace {

constexpr std::size_t kCells = 3;
constexpr std::array<std::string_view, 5> kTypes = {"gauge", "counter", "histogram", "summary",
                                                    "label"};
struct DerivedName {
  std::string_view name;
  Derived derived;
};
constexpr DerivedName kDerived[] = {
    {"DCGM_EXP_XID_ERRORS_COUNT", Derived::kXidCount},
    {"DCGM_EXP_CLOCK_EVENTS_COUNT", Derived::kClockEvents},
    {"DCGM_EXP_GPU_HEALTH_STATUS", Derived::kHealth},
    {"DCGM_EXP_P2P_STATUS", Derived::kPeerStatus},
    {"DCGM_FI_UNKNOWN", Derived::kUnknown},
};

// Spaces only, as upstream.
std::string_view TrimSpaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::unexpected<base::Error> Wrong(std::string_view source, const Cell& cell, std::string what) {
  return base::Fail(base::Invalid(
      "BadCounterFile", fmt::format("{}:{}:{}: {}", source, cell.line, cell.column, what)));
}

base::Result<Counter> ReadCounter(const Record& record, std::string_view source) {
  if (record.size() != kCells) {
    return Wrong(source, record.front(),
                 fmt::format("malformed CSV record: {} cells, expected 3 fields (name, type, help; "
                             "a help text with a comma needs quotation marks around it)",
                             record.size()));
  }
  Counter counter;
  counter.name = TrimSpaces(record[0].text);
  counter.type = TrimSpaces(record[1].text);
  counter.help = TrimSpaces(record[2].text);
  counter.field = FindField(counter.name);
  if (counter.field == nullptr) {
    counter.derived = FindDerived(counter.name);
    if (counter.derived == Derived::kNone) {
      return Wrong(source, record[0],
                   fmt::format("could not find DCGM field: unknown ExporterCounter field '{}'",
                               counter.name));
    }
  }
  if (std::ranges::find(kTypes, counter.type) == kTypes.end()) {
    return Wrong(source, record[1],
                 fmt::format("could not find Prometheus metric type '{}'; one of {}", counter.type,
                             fmt::join(kTypes, ", ")));
  }
  return counter;
}

}  // namespace

unsigned Counter::Order() const {
  constexpr unsigned kBehindFields = 9000;
  return field != nullptr ? field->id : kBehindFields + static_cast<unsigned>(derived);
}

Derived FindDerived(std::string_view name) {
  const auto* found = std::ranges::find(kDerived, name, &DerivedName::name);
  return found == std::end(kDerived) ? Derived::kNone : found->derived;
}

base::Result<CounterFile> ParseCounters(std::string_view text, std::string_view source) {
  auto records = ParseCsv(text);
  if (!records) {
    return base::Fail(
        base::Invalid("BadCounterFile", fmt::format("{}:{}", source, records.error().message)));
  }
  CounterFile file;
  std::set<std::string> names;
  for (const auto& record : *records) {
    TRY_ASSIGN(auto counter, ReadCounter(record, source));
    if (!names.insert(counter.name).second) {
      file.warnings.push_back(fmt::format("{}:{}: {} stands there a second time; the first counts",
                                          source, record[0].line, counter.name));
      continue;
    }
    file.counters.push_back(std::move(counter));
  }
  return file;
}

}  // namespace pitcrew::node::metrics_exporter
