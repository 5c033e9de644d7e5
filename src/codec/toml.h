// TOML to and from JSON values. Tables become objects; integers, floats, booleans and text keep
// their kinds.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::codec {

// `source` names the text in errors, which say "source:line:column: what is wrong". Dates and times
// become their text. Empty text is an empty object.
base::Result<Json> ParseToml(std::string_view text, std::string_view source = "TOML");

// The layout of upstream's writer (container-toolkit.md 2.1): sorted keys, plain values before
// sub-tables, two spaces per depth, an empty line before every table header, inline tables spelled
// out. `value` must be an object; members that are null are left out, since TOML has no null. An
// empty object gives empty text.
std::string ToTomlText(const Json& value);

}  // namespace pitcrew::codec
