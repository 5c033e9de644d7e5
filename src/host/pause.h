// Registers and some files of sysfs tell nobody when they change: who waits for one reads it again
// after a pause.
#pragma once

#include <chrono>

#include "base/result.h"

namespace pitcrew::host {

// kCancelled "Stopped" as soon as `stop_fd` (borrowed; -1: none) is readable.
base::Status PauseBeforeReadingAgain(std::chrono::milliseconds pause, int stop_fd);

}  // namespace pitcrew::host
