#include "simulation/testing/simulated_sysfs.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "simulation/sysfs/control_file.h"
#include "simulation/testing/test_node.h"
#include "tests/support/folders.h"

namespace pitcrew::simulation {

namespace fs = std::filesystem;

bool SimulatedSysfs::IsPossible() {
  return ::geteuid() == 0 && ::access("/dev/fuse", R_OK | W_OK) == 0;
}

SimulatedSysfs::SimulatedSysfs(const std::string& description, bool load_driver,
                               const fs::path& state)
    : root_(MakeTemporaryFolder()) {
  fs::create_directories(sys());
  fs::create_directories(dev());
  std::ofstream(root_ / "description.yaml") << description;
  // A test that is killed leaves no mount behind.
  std::vector<std::string> arguments = {
      "setpriv",
      "--pdeathsig",
      "TERM",
      "--",
      (test_support::BuildFolder() / "bin/pitcrew-simulate").string(),
      "sysfs",
      "--node-name",
      "test-node",
      "--no-uevents",
      "--description",
      root_ / "description.yaml",
      "--into",
      sys(),
      "--dev",
      dev()};
  if (load_driver) arguments.emplace_back("--load-driver");
  if (!state.empty()) arguments.insert(arguments.end(), {"--state", state});
  program_ = std::make_unique<Process>(arguments);
  if (!program_->ReadLine().empty()) return;
  std::fprintf(stderr, "no simulated sysfs: %s\n", program_->Wait().errors.c_str());
  std::abort();
}

SimulatedSysfs::~SimulatedSysfs() {
  program_->Signal(SIGTERM);
  (void)program_->Wait();
  std::error_code error;
  fs::remove_all(root_, error);
}

void SimulatedSysfs::Command(const std::string& line) const {
  const auto status = sysfs::WriteControl(sys(), line);
  if (status) return;
  std::fprintf(stderr, "%s: %s\n", line.c_str(), status.error().message.c_str());
  std::abort();
}

}  // namespace pitcrew::simulation
