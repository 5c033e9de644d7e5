// nvidia-cuda-mps-control, the driver's program: starts an MPS control daemon for one pipe folder
// and sends it commands (device-plugin.md section 17.1).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::node::mps {

inline constexpr std::string_view kControlProgram = "nvidia-cuda-mps-control";

class ControlProgram {
 public:
  // The folders of one server.
  ControlProgram(std::filesystem::path pipe, std::filesystem::path log)
      : pipe_(std::move(pipe)), log_(std::move(log)) {}

  // Starts the daemon in the background and returns its process, which is a child of this process
  // (host::AdoptOrphans must have been called). Clients can connect from then on.
  [[nodiscard]] base::Result<pid_t> StartDaemon(const io::StopToken& stop) const;
  // One command; what the program answers. An exit status other than 0 is an error.
  [[nodiscard]] base::Result<std::string> Send(std::string_view command,
                                               std::chrono::milliseconds timeout,
                                               const io::StopToken& stop) const;
  // Children of this process that serve these folders.
  [[nodiscard]] base::Result<std::vector<pid_t>> Processes() const;

 private:
  std::filesystem::path pipe_;
  std::filesystem::path log_;
};

}  // namespace pitcrew::node::mps
