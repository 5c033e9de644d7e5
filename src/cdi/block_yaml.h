// Specifications in the plain form in which they are nearly always written, ours and those of Go
// programs: one member a line, lists by dashes, nothing quoted that needs escapes. A container's
// start waits for it, and this takes a tenth of the time of a YAML parser.
#pragma once

#include <optional>
#include <string_view>

#include "cdi/spec.h"

namespace pitcrew::cdi {

// What ParseSpec (format.h) makes of the text; nothing where that is not certain: then the text has
// to be read as the YAML that it may be, or the error that it may be has to be found.
std::optional<Spec> ReadBlockYaml(std::string_view text);

}  // namespace pitcrew::cdi
