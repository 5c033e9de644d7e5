// Reading what a driver has counted and remembers of a GPU. Which call of NVML answers what:
// metrics-exporter.md sections 8 and 11.
#pragma once

#include <string>

#include "base/result.h"
#include "node/qualification/measurement.h"
#include "nvml/meter.h"

namespace pitcrew::node::qualification {

// An error is that of a GPU that does not answer.
base::Result<Health> ReadHealth(nvml::Meter& meter, const std::string& uuid);

}  // namespace pitcrew::node::qualification
