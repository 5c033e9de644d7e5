// Reading what a driver has counted and remembers of a GPU. Which call of NVML answers what:
// metrics-exporter.md sections 8 and 11.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "node/qualification/measurement.h"
#include "nvml/meter.h"

namespace pitcrew::node::qualification {

// An error is that of a GPU that does not answer.
base::Result<Health> ReadHealth(nvml::Meter& meter, const std::string& uuid);

// Whether the driver was loaded with NVreg_NvLinkDisable=1, as its `params` below `proc` tell;
// false where they cannot be read. It then tells of no link at all (seen on an H200 with
// 580.159.04).
bool AreNvLinksSwitchedOff(const std::filesystem::path& proc);

}  // namespace pitcrew::node::qualification
