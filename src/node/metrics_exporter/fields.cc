#include "node/metrics_exporter/fields.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

namespace pitcrew::node::metrics_exporter {
namespace {

using nvml::Quantity;

constexpr Source Ask(Quantity quantity, std::uint16_t number, std::uint32_t scope,
                     Conversion conversion) {
  return {.kind = Source::Kind::kQuestion,
          .question = {quantity, number, scope},
          .conversion = conversion};
}
constexpr Source FieldValue(std::uint16_t number, Conversion conversion, std::uint32_t scope = 0) {
  return Ask(Quantity::kField, number, scope, conversion);
}
// A register of the port of the series' own link: nvmlPRMCounterId_t.
constexpr Source PortCounter(std::uint16_t number) {
  return Ask(Quantity::kPortCounter, number, kOwnLink, Conversion::kAsIs);
}
constexpr Source Gpm(std::uint16_t number, Conversion conversion) {
  return Ask(Quantity::kGpm, number, 0, conversion);
}
constexpr Source Know(Fact fact) { return {.kind = Source::Kind::kFact, .fact = fact}; }
constexpr Source LinkRate(Direction direction, std::uint32_t link) {
  return {.kind = Source::Kind::kLinkRate,
          .question = {Quantity::kField, 0, link},
          .direction = direction};
}
constexpr Source GpmLink(Direction direction) {
  return {.kind = Source::Kind::kLinkGpm,
          .conversion = Conversion::kMebibytesPerSecond,
          .direction = direction};
}
constexpr Source UsedShare() { return {.kind = Source::Kind::kUsedShare}; }
constexpr Source Xid() { return {.kind = Source::Kind::kXid}; }
constexpr Source Nothing(std::string_view reason) { return {.reason = reason}; }

constexpr Field kFields[] = {
#define FIELD(id, name, older, type, level, source) \
  {id, name, older, FieldType::type, Level::level, source},
#include "node/metrics_exporter/fields_device.def"
#include "node/metrics_exporter/fields_nvlink.def"
#include "node/metrics_exporter/fields_other.def"
#include "node/metrics_exporter/fields_profiling.def"
#undef FIELD
};

struct OldName {
  std::string_view name;
  std::uint16_t id;
};
// Appendix C: names of the exporter's first versions.
constexpr OldName kOldNames[] = {
#define OLD_NAME(name, id) {name, id},
#include "node/metrics_exporter/old_names.def"
#undef OLD_NAME
};

struct Table {
  std::vector<Field> fields{std::begin(kFields), std::end(kFields)};
  std::unordered_map<std::string, const Field*> by_name;

  Table() {
    std::ranges::sort(fields, {}, &Field::id);
    for (const auto& field : fields) {
      by_name.emplace("DCGM_FI_" + std::string(field.name), &field);
      if (!field.older.empty()) by_name.emplace("DCGM_FI_" + std::string(field.older), &field);
    }
    for (const auto& old : kOldNames) {
      const auto found = std::ranges::lower_bound(fields, old.id, {}, &Field::id);
      by_name.emplace(old.name, &*found);
    }
  }
};

const Table& TheTable() {
  static const Table table;
  return table;
}

}  // namespace

std::span<const Field> AllFields() { return TheTable().fields; }

const Field* FindField(std::string_view name) {
  const auto& names = TheTable().by_name;
  const auto found = names.find(std::string(name));
  return found == names.end() ? nullptr : found->second;
}

}  // namespace pitcrew::node::metrics_exporter
