// SIGHUP to a container engine, and to nothing else: whoever listens on its socket, or answers
// there, need not be the engine (systemd listens for a unit with a .socket; proxies answer).
#pragma once

#include <sys/types.h>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

// A pidfd of the process; an invalid one where the kernel (before 5.3) or a seccomp profile has
// none. kUnavailable when the process is gone.
base::Result<base::FileDescriptor> OpenProcess(pid_t pid);

// `handle` is OpenProcess(pid). kUnsupported "NotTheEngine" when the process runs another program,
// "RestartSignalIgnored" when the signal would do nothing.
base::Status HangUp(EngineKind kind, pid_t pid, const base::FileDescriptor& handle);

}  // namespace pitcrew::node::toolkit
