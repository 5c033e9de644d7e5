// A node's tree of plain files in a temporary folder: what is read is as on a node; a write has its
// effect on the file only. What the kernel makes of it is tried on the simulated sysfs and on a
// kernel (tests/kernel).
#pragma once

#include <string>

#include "node/vfio/node.h"
#include "tests/support/temporary_folder.h"

namespace pitcrew::node::vfio::testing {

class Tree {
 public:
  Tree();

  struct Device {
    std::string address;
    std::string class_code = "0x030200";
    std::string vendor = "0x10de";
    std::string device = "0x2330";
    std::string driver = {};  // "": none
    int group = -1;           // below 0: none
  };
  void Add(const Device& device) const;
  // A PCI driver that the kernel has.
  void AddDriver(const std::string& name) const;
  void Bind(const std::string& address, const std::string& driver) const;
  void Write(const std::string& inside, const std::string& text) const;
  void Link(const std::string& inside, const std::string& target) const;
  void Folder(const std::string& inside) const;
  [[nodiscard]] std::string Read(const std::string& inside) const;  // "missing"
  // Everything that commands to the kernel were written to.
  [[nodiscard]] std::string Commands() const;
  [[nodiscard]] Settings settings() const;
  [[nodiscard]] Node ReadAll() const;

  static gpu::PciAddress At(const std::string& address);

 private:
  test_support::TemporaryFolder folder_;
};

}  // namespace pitcrew::node::vfio::testing
