// The process that is told about its new configuration (device-plugin.md section 19).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace pitcrew::node::config_manager {

// The first process whose argv[0] is `name`, or has the same last part, as programs are started
// with and without their folder. Where processes of other pods can be seen (hostPID), one of this
// pod is preferred, as control groups tell. kNotFound "ProcessNotFound" when there is none; a
// process that ends meanwhile is passed over.
base::Result<pid_t> FindProcess(std::string_view name, const std::filesystem::path& proc = "/proc");

}  // namespace pitcrew::node::config_manager
