// From what NVML answers to the text of a value (metrics-exporter.md 4.3 and section 8).
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <variant>

#include "gpu/inventory.h"
#include "node/metrics_exporter/fields.h"

namespace pitcrew::node::metrics_exporter {

// A value, or why there is none: a constant text.
using Value = std::expected<std::variant<std::int64_t, double, std::string>, std::string_view>;
using ValueText = std::expected<std::string, std::string_view>;

std::string_view Reason(nvml::Silence silence);

Value Convert(Conversion conversion, const nvml::Answer& answer);
// As the field's type wants it. What DCGM writes for "no value" is none: its numbers may stand in
// what NVML reports.
ValueText FormatValue(FieldType type, const Value& value);

// `instance` is null for the whole GPU.
Value FactValue(Fact fact, const gpu::Inventory& inventory, const gpu::Device& device,
                const gpu::MigDevice* instance);

// "Invalid or corrupted push buffer stream"; "Unknown Error".
std::string_view XidMessage(std::uint64_t xid);

// Runs of white space become "-", those at the ends go.
std::string ReplaceBlanks(std::string_view name);

}  // namespace pitcrew::node::metrics_exporter
