// The driver's files in its image: unpacked, compiled for a kernel, installed. Nothing here changes
// the node: a driver that is loaded goes on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_container/facts.h"
#include "node/driver_container/module_build.h"
#include "node/driver_container/options.h"
#include "node/driver_container/plan.h"

namespace pitcrew::node::driver_container {

class DriverFiles {
 public:
  DriverFiles(const Options& options, Facts facts, InstallPlan plan, io::StopToken stop)
      : options_(options),
        facts_(std::move(facts)),
        plan_(plan),
        stop_(std::move(stop)),
        build_(options_, facts_, stop_) {}
  // Removes what was unpacked.
  ~DriverFiles();
  DriverFiles(const DriverFiles&) = delete;
  DriverFiles& operator=(const DriverFiles&) = delete;

  // Headers, unpacking, compiling, signing: all that can fail for want of something.
  base::Status Prepare();
  // Programs and libraries, and what Prepare has compiled, to where they belong.
  base::Status Install();

  // The network driver's headers, for modules that are compiled with them; before Prepare.
  base::Status LinkNetworkDriverHeaders();

 private:
  base::Status Extract();
  base::Status Compile();
  base::Status InstallPrograms();

  const Options& options_;
  Facts facts_;
  InstallPlan plan_;
  io::StopToken stop_;
  ModuleBuild build_;
  std::filesystem::path unpacked_{};                       // of the run file
  std::vector<std::filesystem::path> compiled_modules_{};  // *.ko
};

// What nvidia-installer is told when it installs a driver's programs and libraries alone
// (driver-lifecycle.md 9.3). `dummy` is a path that leads nowhere.
std::vector<std::string> InstallerArguments(const std::filesystem::path& dummy, unsigned branch);

}  // namespace pitcrew::node::driver_container
