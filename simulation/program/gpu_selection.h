// What every command on single GPUs shares: options, choosing GPUs, changing them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

// Positions in NodeState::gpus. `gpu` is an index, a UUID or "all"; kInvalid "NoSuchGpu".
base::Result<std::vector<std::uint32_t>> SelectGpus(const NodeState& node, const std::string& gpu);

// Changes one GPU of the node.
using GpuChange = std::function<base::Status(NodeState&, std::uint32_t gpu)>;

// The subcommands of `pitcrew-simulate gpu`.
class GpuCommands {
 public:
  GpuCommands(CLI::App& app, int& exit_code) : app_(app), exit_code_(exit_code) {}

  // A command whose action gets the path of the state file.
  CLI::App* Add(const char* name, const char* help,
                std::function<base::Status(const std::string& state)> action);
  // A command on GPUs: `change` is made to each of those that the first argument names, to all or,
  // after an error, to none.
  CLI::App* AddChange(const char* name, const char* help, GpuChange change);

 private:
  CLI::App& app_;
  int& exit_code_;
};

// The commands that let faults happen, and end them.
void AddFaultCommands(GpuCommands& commands);

}  // namespace pitcrew::simulation
