// CDI specifications of the devices for Kata Containers, whose runtime turns each id that the
// kubelet allocated into the CDI name <resource>=<id> (virtualisation-and-olm.md 11.2 and 11.4).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "cdi/spec.h"
#include "node/sandbox_device_plugin/machine.h"
#include "node/sandbox_device_plugin/offers.h"

namespace pitcrew::node::sandbox_device_plugin {

// The specification of one resource: its kind is the resource's name, its devices are those that a
// virtual machine can have. Without any of them it has no device, which CDI does not allow in a
// file.
cdi::Spec CdiSpec(const std::string& resource, const std::vector<OfferedDevice>& devices,
                  const Machine& machine);

// Keeps one file for each resource. Not for several threads at once.
class CdiFiles {
 public:
  explicit CdiFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Writes what differs, and removes the files that this object wrote for resources that are gone.
  // Failures by resource; they are tried again with the next call.
  std::map<std::string, base::Error> Update(const Resources& resources, const Machine& machine);

 private:
  base::Status Write(const std::string& resource, const std::vector<OfferedDevice>& devices,
                     const Machine& machine);

  const std::filesystem::path folder_;
  std::map<std::string, std::filesystem::path> written_;  // by resource
};

}  // namespace pitcrew::node::sandbox_device_plugin
