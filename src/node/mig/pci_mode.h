// The MIG mode of a board without a driver: through its registers (mig-manager.md section 5.2).
// Only GA100 (A100) is known to this way.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "gpu/inventory.h"

namespace pitcrew::node::mig {

// `device` is the board's folder in sysfs. kUnsupported "NotMigCapable" for other chips; kTimeout
// "GpuNotBooted" when the board's firmware has not started after five seconds; kCancelled when
// `stop_fd` (borrowed; -1: none) becomes readable before.
base::Result<gpu::MigMode> ReadModeRegisters(const std::filesystem::path& device, int stop_fd = -1);
// Counts after a reset of the board.
base::Status RequestModeByRegisters(const std::filesystem::path& device, bool enabled);

}  // namespace pitcrew::node::mig
