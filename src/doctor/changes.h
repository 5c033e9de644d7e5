// What changed between two looks, one line each: for `status --watch` into a file or a pipe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fleet/report.h"

namespace pitcrew::doctor {

// "node gpu-b" to "driver: the image ... cannot be pulled": whatever a reader wants to be told.
using Facts = std::map<std::string, std::string>;
Facts FactsOf(const fleet::Report& report);
std::vector<std::string> Changes(const Facts& before, const Facts& now);

}  // namespace pitcrew::doctor
