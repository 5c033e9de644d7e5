// The MPS server of one shared resource: brought up with its limits, watched, taken down
// (device-plugin.md section 17.1).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/result.h"
#include "io/stop.h"
#include "node/mps/control_program.h"
#include "node/mps/log_follower.h"
#include "node/mps/plan.h"
#include "node/mps_folder/mps_folder.h"
#include "nvml/nvml.h"

namespace pitcrew::node::mps {

// Where the node's files are, so that a test can give another tree.
struct NodePaths {
  std::filesystem::path mps_folder{mps_folder::kFolder};
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  // For NVML; "/" is the dynamic loader's own search.
  std::vector<std::filesystem::path> driver_roots = {"/"};
};

// Not thread-safe. This process must adopt orphans (host::AdoptOrphans), and only call waitpid for
// children that it does not know while no call of a server runs.
class Server {
 public:
  // Both must outlive the server. `children` gets SIGCHLD.
  Server(SharedResource resource, const NodePaths& paths, const io::SignalReceiver& children);

  [[nodiscard]] const SharedResource& resource() const { return resource_; }
  [[nodiscard]] bool serves() const { return daemon_ > 0; }
  // When Start is due, while it does not serve.
  [[nodiscard]] base::Deadline next_start() const { return next_start_; }
  // The folder in which its log is written.
  [[nodiscard]] std::filesystem::path log_folder() const;

  // Brings it up, if that is due. A failure is logged and tried again later.
  void Start(const io::StopToken& stop);
  // Ends it, clients included when they do not end by themselves, and gives its GPUs back.
  void Stop();
  // A child of this process has ended and has been reaped. True when it was this server's daemon.
  bool OnChildEnded(pid_t child);
  // What its daemon has written to its log goes to standard output.
  void CopyLog() { log_.Copy(); }

 private:
  base::Status BringUp(const io::StopToken& stop);
  base::Status PrepareFolders() const;
  base::Status SetComputeMode(nvml::ComputeMode mode) const;
  void RemoveStartedFile() const;
  // Its daemon by SIGKILL when it does not end in time, and whatever it has left behind.
  void AwaitEnd(base::Deadline deadline);
  void KillProcesses() const;
  void Failed(const base::Error& error);

  const SharedResource resource_;
  const NodePaths& paths_;
  const io::SignalReceiver& children_;
  const mps_folder::MpsFolder folder_;
  const ControlProgram control_;
  LogFollower log_;
  pid_t daemon_ = 0;
  base::SteadyClock::time_point since_;  // it serves
  int failures_ = 0;
  base::Deadline next_start_ = base::SteadyClock::time_point::min();
};

}  // namespace pitcrew::node::mps
