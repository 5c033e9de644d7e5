#include "simulation/program/gpu_selection.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "simulation/program/commands.h"
#include "simulation/state/discovery.h"
#include "simulation/state/state_file.h"

namespace pitcrew::simulation {
namespace {

base::Status Apply(const std::string& state, const std::string& gpus, const GpuChange& change) {
  TRY_ASSIGN(const auto file, StateFile::Open(state));
  base::Status result;
  TRY(file->Update([&](NodeState& node) {
    const auto selected = SelectGpus(node, gpus);
    if (!selected) result = base::Fail(selected.error());
    for (std::size_t i = 0; result && i < selected->size(); ++i) {
      result = change(node, (*selected)[i]);
    }
    return result.has_value();
  }));
  return result;
}

}  // namespace

base::Result<std::vector<std::uint32_t>> SelectGpus(const NodeState& node, const std::string& gpu) {
  std::vector<std::uint32_t> selected;
  const auto index = base::ParseUnsigned(gpu);
  for (std::uint32_t i = 0; i < node.gpu_count; ++i) {
    if (gpu == "all" || (index && *index == i) || gpu == node.gpus[i].uuid) selected.push_back(i);
  }
  if (!selected.empty()) return selected;
  return base::Fail(base::Invalid(
      "NoSuchGpu", fmt::format("there is no GPU \"{}\"; give an index from 0 to {}, a UUID or all",
                               gpu, node.gpu_count == 0 ? 0 : node.gpu_count - 1)));
}

CLI::App* GpuCommands::Add(const char* name, const char* help,
                           std::function<base::Status(const std::string& state)> action) {
  auto* command = app_.add_subcommand(name, help);
  const auto state = std::make_shared<std::string>(kStatePath);
  command->add_option("--state", *state, "state file")->capture_default_str();
  command->callback([state, &exit_code = exit_code_, action = std::move(action)] {
    if (const auto status = action(*state); !status) exit_code = ExitCodeFor(status.error());
  });
  return command;
}

CLI::App* GpuCommands::AddChange(const char* name, const char* help, GpuChange change) {
  const auto gpus = std::make_shared<std::string>();
  auto* command = Add(name, help, [gpus, change = std::move(change)](const std::string& state) {
    return Apply(state, *gpus, change);
  });
  command->add_option("gpu", *gpus, "index, UUID or all")->required();
  return command;
}

}  // namespace pitcrew::simulation
