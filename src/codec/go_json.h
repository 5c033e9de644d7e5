// JSON as Go's encoder writes it, where others compare bytes or have seen only that.
#pragma once

#include <string>
#include <string_view>

namespace pitcrew::codec {

// <, > and & as escapes; everything else of the JSON text stays.
std::string EscapeAsGo(std::string_view json);

}  // namespace pitcrew::codec
