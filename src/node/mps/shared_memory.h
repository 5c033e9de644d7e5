// The shared memory of MPS clients and servers, /mps/shm on the node and /dev/shm in its containers
// (device-plugin.md section 17.2).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::node::mps {

// The option size= of its tmpfs: half of the memory that the text of /proc/meminfo tells, in the
// form of upstream ("8192000k"); "65536k" when it tells none.
std::string SharedMemorySize(std::string_view meminfo);

// Mounts a new tmpfs at `folder`. One that is there is taken off; clients that have it keep it.
// Needs CAP_SYS_ADMIN.
base::Status MountSharedMemory(const std::filesystem::path& folder,
                               const std::filesystem::path& proc = "/proc");

}  // namespace pitcrew::node::mps
