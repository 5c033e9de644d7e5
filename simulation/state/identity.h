// Identifiers that are the same every time for the same node and GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pitcrew::simulation {

// 128 well-mixed bits of `text`, as 8-4-4-4-12 hexadecimal digits with the version and variant bits
// of a name-based UUID.
[[nodiscard]] std::string NamedUuid(std::string_view text);
// 32 well-mixed bits of `text`.
[[nodiscard]] std::uint32_t NamedNumber(std::string_view text);
// 13 decimal digits, as on a board's label.
[[nodiscard]] std::string NamedSerial(std::string_view text);

}  // namespace pitcrew::simulation
