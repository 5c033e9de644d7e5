// Which processes have device nodes open, by the nodes' numbers or as VFIO's nodes are called, and
// when they let go (virtualisation-and-olm.md section 4.4). Processes are those that `proc`
// shows: of the whole node when it is the host's (/host/proc in a pod), whose numbers then mean
// nothing to kill(2) or pidfd_open(2) here. Needs the right to look into other processes
// (CAP_SYS_PTRACE).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::host {

// Numbers of character device nodes, as st_rdev has them: a container's own node of a device is the
// same device.
using DeviceNumbers = std::set<dev_t>;

// From an attribute "dev" of sysfs, "195:0\n". kInvalid "MalformedDeviceNumber".
base::Result<dev_t> ReadDeviceNumber(const std::filesystem::path& attribute);

struct DeviceUser {
  pid_t pid = 0;             // as `proc` counts
  std::string program;       // the kernel's short name of it
  std::string machine = {};  // what QEMU was told that its guest is called; empty: not said
  std::vector<std::string> files = {};       // as the process sees them: "/dev/nvidia0", sorted
  std::vector<std::filesystem::path> links;  // one for each open file: <proc>/<pid>/fd/<n>

  // "qemu-kvm (process 4711, virtual machine default_web)", "python3 (process 12)".
  [[nodiscard]] std::string ToString() const;
};

// Processes with one of the devices open, by process number. A process that ends meanwhile is left
// out; kDenied "ProcessesHidden" when one does not let itself be looked at: then nobody knows who
// uses what.
base::Result<std::vector<DeviceUser>> FindDeviceUsers(const DeviceNumbers& devices,
                                                      const std::filesystem::path& proc = "/proc");

// The same of whoever has nodes below /dev/vfio open, by node: "12" for a group, "devices/vfio3"
// for a device of iommufd. By names, so that mediated devices without a node in sysfs are found,
// too.
base::Result<std::map<std::string, std::vector<DeviceUser>>> ListVfioUsers(
    const std::filesystem::path& proc);

// The guest's name in a command line as /proc/<pid>/cmdline has it: "-name guest=<name>,..." or
// "-name <name>".
std::string GuestName(std::string_view command_line);

// Tells when users close what they have open, however they do: also when they are killed.
class DeviceUserWatcher {
 public:
  static base::Result<DeviceUserWatcher> Create();
  // From now on also the nodes that these users have open. Look for users again after this: one may
  // have let go in between.
  void Watch(const std::vector<DeviceUser>& users);
  // Readable when a watched node was closed by somebody. Borrowed.
  [[nodiscard]] int fd() const { return events_.get(); }
  // Takes note of what was closed so far.
  void Take();

 private:
  explicit DeviceUserWatcher(base::FileDescriptor events) : events_(std::move(events)) {}
  base::FileDescriptor events_;
};

}  // namespace pitcrew::host
