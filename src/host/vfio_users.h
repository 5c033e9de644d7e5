// Which processes have VFIO devices open: virtual machines, and what serves them
// (virtualisation-and-olm.md section 4.4: open descriptors on /dev/vfio).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/root.h"

namespace pitcrew::host {

struct VfioUser {
  int pid = 0;          // as the process tree that was read counts
  std::string program;  // "qemu-kvm"
  std::string machine;  // what QEMU was told that its guest is called; empty: not said
  // "qemu-kvm (process 4242, virtual machine default_web)".
  [[nodiscard]] std::string ToString() const;
  bool operator==(const VfioUser&) const = default;
};

// By device node below /dev/vfio: "12" for a group, "devices/vfio3" for a device of iommufd. `root`
// has /proc of all processes that are to be seen: inside a container the host's. kDenied
// "ProcessesHidden" when one does not let itself be looked at: then nobody knows who uses what.
base::Result<std::map<std::string, std::vector<VfioUser>>> ListVfioUsers(const Root& root);

// The device nodes by which a device can be opened, as ListVfioUsers names them. `device` is its
// folder in sysfs, of PCI or of mediated devices. Empty when it has no driver that offers it.
base::Result<std::vector<std::string>> VfioNodes(const std::filesystem::path& device);

// The guest's name in a command line as /proc/<pid>/cmdline has it: "-name guest=<name>,..." or
// "-name <name>".
std::string GuestName(std::string_view command_line);

}  // namespace pitcrew::host
