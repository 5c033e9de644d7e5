// What a virtual machine's pod gets for the devices that the kubelet chose
// (kubevirt-device-plugin.md sections 5 to 7; virtualisation-and-olm.md 1.4 and 11.2).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "node/sandbox_device_plugin/machine.h"
#include "node/sandbox_device_plugin/offers.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::sandbox_device_plugin {

// `machine` as it is now; `offered` are the devices of `resource` in it. Errors are kInvalid for an
// id that is not there, kUnavailable with the reason for a device that no virtual machine can have
// now.
base::Result<rpc::ContainerAllocation> Allocate(const std::string& resource,
                                                const std::vector<OfferedDevice>& offered,
                                                const std::vector<std::string>& ids,
                                                const Machine& machine, Client client);

// Devices of one NUMA node where there are enough of them, those that must be included first; else
// in the order of `available`. kInvalid when more must be included than are asked for.
base::Result<std::vector<std::string>> Prefer(const std::vector<OfferedDevice>& offered,
                                              const rpc::PreferredRequest& request);

}  // namespace pitcrew::node::sandbox_device_plugin
