// The subcommands of pitcrew-simulate. Each adds itself to the program and runs in a callback that
// returns the exit code through `exit_code`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"

namespace pitcrew::simulation {

void AddNodeCommands(CLI::App& app, int& exit_code);   // pci-tree, driver-install, driver
void AddSysfsCommands(CLI::App& app, int& exit_code);  // sysfs, pci
void AddStateCommands(CLI::App& app, int& exit_code);  // state create, state show
void AddGpuCommands(CLI::App& app, int& exit_code);    // gpu list, gpu xid, ...

// `nvidia-driver <word>`: what the driver container's entry program does. Exit code.
int DriverContainerCommand(int argc, char** argv);

// `sriov-manage -e|-d ADDRESS|ALL`: makes and removes virtual functions, on the /sys of its root.
// Exit code.
int SriovManageCommand(int argc, char** argv);

// This machine's name, "node" where it has none.
std::string OwnHostName();

// Prints the error; 2 for malformed input, 1 for everything else.
int ExitCodeFor(const base::Error& error);

}  // namespace pitcrew::simulation
