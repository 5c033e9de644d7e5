// Docker's daemon, asked over HTTP on its unix socket: who it is, when it has read its file again,
// and which runtimes it has then (container-toolkit.md 4.14).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "codec/json.h"
#include "io/stop.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/options.h"

namespace pitcrew::node::toolkit {

struct DockerAnswer {
  int status = 0;  // of HTTP
  std::string body;
  // Of the process that wrote the answer; 0: in another pid namespace. The connection's own
  // credentials are those of whoever called listen(2): systemd, where docker.socket is used.
  pid_t pid = 0;
};

// A GET of `path`. kUnavailable when nobody listens, or the connection ends before the answer does;
// kTimeout and kCancelled.
base::Result<DockerAnswer> AskDocker(const std::filesystem::path& socket, std::string_view path,
                                     const io::StopToken& stop, base::Deadline deadline);

// Sends SIGHUP to the daemon, and waits until it says that it has read its configuration again.
// Nothing where none is up: it reads the new one when it comes. kTimeout "EngineDidNotReload";
// "EngineNotVisible" as FindEngine, and what HangUp says.
base::Status ReloadDocker(const EngineOptions& options, const io::StopToken& stop,
                          base::Deadline deadline);

// Whether what the daemon tells of itself (GET /info) has all runtimes with their programs, and our
// default.
base::Status CheckDockerInfo(const EngineOptions& options, const std::vector<Runtime>& runtimes,
                             const codec::Json& info);

}  // namespace pitcrew::node::toolkit
