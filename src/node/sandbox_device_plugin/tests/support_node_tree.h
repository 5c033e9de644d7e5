// A node's /sys and /dev in a temporary folder, written as golden cases describe it.
#pragma once

#include <string>

#include "codec/json.h"
#include "host/root.h"
#include "node/sandbox_device_plugin/offers.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::sandbox_device_plugin::testing {

// `description` has
//   pci:  [{at: "0000:65:00.0", is: "10de:2236", class: "0302", driver, group, numa, vfio, physfn,
//           vgpu: 1414, creatable: ["1414 : NVIDIA H200X-1-18C"]}]
//   mdev: [{uuid, type, parent}]
//   egm:  {egm0: "0000:65:00.0 0000:66:00.0"}
//   dev:  [iommu, vfio/12, ...]; without it, what VFIO makes for the devices that have its drivers
//   files: {path: content}, links: {path: target}
// A member of a device that is left out has no file.
class NodeTree {
 public:
  explicit NodeTree(const codec::Json& description);

  [[nodiscard]] host::Root root() const { return host::Root(folder_.path()); }
  [[nodiscard]] const test_support::TemporaryFolder& folder() const { return folder_; }

  void AddPci(const codec::Json& device) const;
  // Gives it to a driver, or takes it away ("").
  void Bind(const std::string& address, const std::string& driver) const;
  // Of a virtual function with the vendor-specific VFIO framework; in place, as sysfs is written.
  void SetVgpu(const std::string& address, const std::string& type) const;
  void RemovePci(const std::string& address) const;
  void AddMdev(const codec::Json& mdev) const;
  void AddNode(const std::string& below_dev) const;
  void RemoveNode(const std::string& below_dev) const;
  [[nodiscard]] std::filesystem::path PciFolder(const std::string& address) const;

 private:
  void Link(const std::filesystem::path& link, const std::filesystem::path& target) const;
  void AddDefaultNodes(const codec::Json& device) const;

  test_support::TemporaryFolder folder_;
};

// The database that the image has.
gpu::DeviceNames ImageNames();

}  // namespace pitcrew::node::sandbox_device_plugin::testing
