// The metrics that every Prometheus client has of its own process.
#pragma once

#include "prom/exposition.h"

namespace pitcrew::prom {

// process_cpu_seconds_total and the like, from /proc/self; what cannot be read is left out.
void ExposeProcess(Exposition& exposition);

}  // namespace pitcrew::prom
