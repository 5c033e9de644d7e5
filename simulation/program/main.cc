// pitcrew-simulate: makes simulated GPUs on a node and lets things happen to them. Under the name
// nvidia-driver it is the entry program of the simulated driver image, as sriov-manage what
// NVIDIA's vGPU manager brings.
#include <fmt/format.h>

#include <exception>
#include <filesystem>

#include "simulation/program/commands.h"

namespace pitcrew::simulation {

int ExitCodeFor(const base::Error& error) {
  fmt::print(stderr, "pitcrew-simulate: {}\n", error.message);
  const bool malformed = error.code == base::Code::kInvalid || error.reason == "UnknownProfile";
  return malformed ? 2 : 1;
}

namespace {

int Main(int argc, char** argv) {
  const auto name = std::filesystem::path(argv[0]).filename();
  if (name == "nvidia-driver") return DriverContainerCommand(argc, argv);
  if (name == "sriov-manage") return SriovManageCommand(argc, argv);
  CLI::App app("Simulated NVIDIA GPUs: descriptions, drivers, incidents", "pitcrew-simulate");
  app.require_subcommand(1);
  int exit_code = 0;
  AddNodeCommands(app, exit_code);
  AddSysfsCommands(app, exit_code);
  AddStateCommands(app, exit_code);
  AddGpuCommands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}

}  // namespace
}  // namespace pitcrew::simulation

int main(int argc, char** argv) {
  try {
    return pitcrew::simulation::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "pitcrew-simulate: {}\n", error.what());
    return 1;
  }
}
