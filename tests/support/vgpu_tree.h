// The part of sysfs that tells of vGPUs, as plain files: what is written there stays there, and
// nothing follows from it. For the vendor-specific VFIO framework that is all that a write does to
// its own virtual function; siblings and mediated devices need a tree with effects.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace pitcrew::test_support {

class VgpuTree {
 public:
  // An empty /sys and /proc.
  VgpuTree();

  [[nodiscard]] const std::filesystem::path& root() const { return folder_.path(); }

  // A GPU: "0000:41:00.0", device id "2335", subsystem "18be".
  void AddGpu(const std::string& address, const std::string& device,
              const std::string& subsystem = "0000") const;
  // A virtual function of it with an IOMMU group of its own.
  void AddFunction(const std::string& gpu, const std::string& address, int group) const;
  // As AddFunction, with the vendor-specific framework. `types`: lines as the driver writes them.
  void AddVendorFunction(const std::string& gpu, const std::string& address, int group,
                         std::string_view types) const;
  // A parent of mediated devices, with one type for each line "<id> <available> <name>".
  void AddMdevParent(const std::string& address, std::string_view types,
                     std::string_view description = "") const;
  void AddMdev(const std::string& parent, const std::string& uuid, std::string_view type,
               int group) const;
  // A process that has a file below /dev/vfio open.
  void AddVfioUser(int pid, std::string_view node, std::string_view command_line) const;
  void RemoveProcess(int pid) const;

  // Of a virtual function; "0" for none.
  [[nodiscard]] std::string VendorType(const std::string& function) const;
  void SetVendorType(const std::string& function, std::string_view type) const;
  // Below the root.
  [[nodiscard]] std::string Read(const std::filesystem::path& inside) const;
  void Write(const std::filesystem::path& inside, std::string_view text) const;

 private:
  void Link(const std::filesystem::path& inside, const std::filesystem::path& target) const;

  TemporaryFolder folder_;
};

}  // namespace pitcrew::test_support
