// The commands of nvidia-cuda-mps-control, and the clients that hold its limits. No I/O.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/state/mps.h"

namespace pitcrew::simulation {

class MpsControl {
 public:
  // UUIDs of the GPUs in the order of the numbers that commands use; `pid` is the daemon's, which
  // is its server too.
  MpsControl(std::vector<std::string> gpus, std::uint32_t pid)
      : gpus_(std::move(gpus)), pid_(pid) {}

  struct Answer {
    std::string text;  // without the last newline; may be empty
    bool failed = false;
    bool quit = false;
  };
  // One line of nvidia-cuda-mps-control's input.
  Answer Handle(std::string_view line);

  // A client starts, with the limits of the moment; the first one starts the server.
  MpsLimits Attach(std::uint32_t pid);
  void Detach(std::uint32_t pid);
  [[nodiscard]] bool HasClients() const { return !clients_.empty(); }

 private:
  Answer SetMemoryLimit(const std::string& device, const std::string& limit);
  // Null for a number that no GPU has.
  [[nodiscard]] const std::string* FindGpu(const std::string& device) const;

  std::vector<std::string> gpus_;
  std::uint32_t pid_;
  MpsLimits defaults_;
  bool server_ = false;
  std::multimap<std::uint32_t, MpsLimits> clients_;
};

}  // namespace pitcrew::simulation
