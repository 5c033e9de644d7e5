// What stands: which GPU is with whom, and why one cannot go to a virtual machine.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "host/device_users.h"
#include "host/pci.h"
#include "node/vfio/node.h"

namespace pitcrew::node::vfio {

struct DeviceStatus {
  host::PciDevice device;  // GPU or NVSwitch
  std::vector<host::PciDevice> companions;
  std::vector<gpu::PciAddress> sharing;  // other devices of its group
  std::string best_module;               // of VFIO, for the device; "" when it is not known
  bool ready = false;                    // with VFIO, and nothing keeps a virtual machine from it
  std::vector<base::Error> obstacles;
  std::vector<host::DeviceUser> users;
};

struct NodeStatus {
  std::vector<DeviceStatus> devices;  // by address
  std::vector<base::Error> failures;  // of devices that could not be read
};

// All GPUs that are no virtual functions, and NVSwitches. Changes and loads nothing.
base::Result<NodeStatus> ReadStatus(const Settings& settings);

}  // namespace pitcrew::node::vfio
