// The programs that belong to a loaded driver and stay in the background: persistence daemon, vGPU
// licensing, topology, fabric manager (driver-lifecycle.md 9.7, 9.10).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/stop.h"
#include "node/driver_container/options.h"

namespace pitcrew::node::driver_container {

// How the GPUs of this node reach each other.
enum class Fabric {
  kNone,
  kSwitches,       // NVSwitches: the fabric manager sets them up
  kManagedSubnet,  // fifth generation and later: with a subnet manager over InfiniBand
};
base::Result<Fabric> FindFabric(const Places& places);

// `config` with each "KEY=value" of `settings` in the place of the line that sets KEY, or at its
// end. A setting without a name is none.
std::string EditFabricManagerConfig(std::string_view config,
                                    const std::map<std::string, std::string>& settings);

struct Daemon {
  std::string program;  // found on the image's path
  std::vector<std::string> arguments{};
  std::map<std::string, std::string> environment{};
  std::filesystem::path pid_file{};
  std::string process;   // the kernel's name of it
  bool required = true;  // an image without the program is no driver image
};

// In the order of their start.
std::vector<Daemon> DaemonsOf(const Options& options, Fabric fabric);

// Starts those that do not run; they put themselves into the background. kInternal "DaemonFailed"
// names the one that did not.
base::Status StartDaemons(const Options& options, const io::StopToken& stop);

// Ends those that run, in the order of their start. kTimeout "DaemonStays" when one is still there
// after five seconds. A PID file whose number belongs to another program by now is passed over.
base::Status StopDaemons(const Places& places);

// Their processes.
std::set<pid_t> RunningDaemons(const Places& places);

}  // namespace pitcrew::node::driver_container
