// The command that NVIDIA's vGPU manager brings along as /usr/lib/nvidia/sriov-manage.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "simulation/program/commands.h"
#include "simulation/sysfs/sriov.h"

namespace pitcrew::simulation {

int SriovManageCommand(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  if (argc != 3 || (option != "-e" && option != "-d")) {
    fmt::print(stderr, "usage: sriov-manage -e|-d ADDRESS|ALL\n");
    return 1;
  }
  const std::string which = argv[2];
  std::vector<std::string> addresses = {which};
  if (which == "ALL" || which == "all") {
    auto all = sysfs::SriovGpus("/sys");
    if (!all) return ExitCodeFor(all.error());
    addresses = *std::move(all);
  }
  int exit_code = 0;
  for (const auto& address : addresses) {
    fmt::print("{} VFs on {}\n", option == "-e" ? "Enabling" : "Disabling", address);
    if (const auto done = sysfs::SetVirtualFunctions("/sys", address, option == "-e"); !done) {
      exit_code = ExitCodeFor(done.error());
    }
  }
  return exit_code;
}

}  // namespace pitcrew::simulation
