// The modes of a node's GPUs and NVSwitches, and what would have to change
// (virtualisation-and-olm.md section 12.1).
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/root.h"
#include "node/cc_mode/mode.h"

namespace pitcrew::node::cc_mode {

struct Settings {
  host::Root root;       // with /sys
  host::Root processes;  // whose /proc has all processes of the node
  std::filesystem::path journal;
  // How long a GPU's firmware may take to answer; to start, Blackwell's may take twice as long.
  std::chrono::milliseconds patience{5000};
  // PlanNode, which waits for GPUs that start, ends when it becomes readable (borrowed; -1: none).
  // Changes do not hear it.
  int stop_fd = -1;
};

struct DeviceMode {
  gpu::PciAddress address;
  bool is_switch = false;
  Mode mode = Mode::kOff;
};

struct Plan {
  Mode wanted = Mode::kOff;
  std::vector<DeviceMode> devices;  // those that have modes, by address
  // Those of them that are not as wanted, and, after a change that was cut off, all: their firmware
  // may have been told already.
  std::vector<DeviceMode> changes;
  // GPUs that have no such modes, which only `off` leaves alone: their addresses.
  std::vector<std::string> incapable;
};

// Changes nothing. kUnsupported "NotCapable" names each device that cannot be in that mode,
// kNotFound "NoGpus" without any GPU; kUnavailable "DevicesUnreadable" when one that is listed
// could not be read: it may be one of them; kCancelled on stop.
base::Result<Plan> PlanNode(const Settings& settings, Mode wanted);

// Whether these devices can be taken now. kConflict "DriverBound" or "InUse" names the driver, or
// the virtual machine, that has one.
base::Status RequireUnused(const Settings& settings, const std::vector<DeviceMode>& devices);
// The same of virtual machines only: before operands are disturbed.
base::Status RequireNoMachines(const Settings& settings, const std::vector<DeviceMode>& devices);

// Whether this host can run confidential virtual machines: Intel TDX, or AMD SEV-SNP
// (virtualisation-and-olm.md section 4.5).
bool IsHostCapable(const host::Root& root);

}  // namespace pitcrew::node::cc_mode
