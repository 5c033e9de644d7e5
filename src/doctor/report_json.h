// Reports as JSON, for programs. docs/troubleshooting.md describes the members.
#pragma once

#include "codec/json.h"
#include "fleet/report.h"

namespace pitcrew::doctor {

codec::Json ToJson(const fleet::Report& report);

}  // namespace pitcrew::doctor
