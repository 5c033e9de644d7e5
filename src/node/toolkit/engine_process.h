// The running container engine, found through its socket: who listens, how to make it read its
// configuration again, and when it answers again (container-toolkit.md 4.14).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

struct EngineProcess {
  pid_t pid = 0;
  // A pidfd: still means this process when the number is reused. Invalid where the kernel (before
  // 5.3) or a seccomp profile has none; then the connection tells.
  base::FileDescriptor handle;
  // To the socket that it serves: closed by the kernel when the process ends, if not by it before.
  base::FileDescriptor connection;
};

// The process that listens on `socket`, from the connection's peer credentials: not that of an
// engine whose socket systemd has made (docker.h). kNotFound or kUnavailable when nobody does;
// kUnsupported "EngineNotVisible" when it lives in a pid namespace that this process does not see
// (hostPID is missing).
base::Result<EngineProcess> FindEngine(const std::filesystem::path& socket);

// Whether the engine answers on its socket: the gRPC servers of containerd and CRI-O must greet
// (HTTP/2 SETTINGS), Docker must answer a request. kUnavailable when not yet.
base::Status ProbeEngine(EngineKind kind, const std::filesystem::path& socket,
                         const io::StopToken& stop, base::SteadyClock::time_point deadline);

// Waits by events of the socket's folder until ProbeEngine succeeds, and for containerd and CRI-O
// until they take the kubelet's calls too: containerd greets before it has recovered its state.
base::Status WaitForEngine(EngineKind kind, const std::filesystem::path& socket,
                           const io::StopToken& stop, base::SteadyClock::time_point deadline);

// Waits until the distribution has put another process in the place of the one that ran `before`
// its files changed, and that one answers. kTimeout "EngineDidNotRestart".
base::Status AwaitNextEngine(const EngineOptions& options, const EngineProcess& before,
                             const io::StopToken& stop, base::SteadyClock::time_point deadline);

// Restarts or reloads the engine in the mode of the options and waits until it answers again. In
// the mode kByDistribution it only waits for an answer.
base::Status RestartEngine(const EngineOptions& options, const io::StopToken& stop,
                           base::SteadyClock::time_point deadline);

// The engine's configuration: as it would be loaded now, from containerd's own "config dump"; as it
// is in the process that runs, from CRI-O's "status config". The program is options.executable,
// else the one that runs now, else the one in the host's standard folders.
base::Result<std::string> DumpEngineConfig(const EngineOptions& options);

}  // namespace pitcrew::node::toolkit
