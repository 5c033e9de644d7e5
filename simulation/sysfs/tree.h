// The machine as a tree of files, laid out as the kernel lays out /sys (Linux:
// Documentation/ABI/testing/sysfs-bus-pci, sysfs-kernel-iommu_groups, sysfs-bus-vfio-mdev). A
// value: made anew after every change.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "simulation/sysfs/machine.h"

namespace pitcrew::simulation::sysfs {

struct Node {
  enum class Kind { kFolder, kFile, kLink };
  Kind kind = Kind::kFolder;
  unsigned mode = 0755;  // permission bits
  std::string content;   // of a file; where a link leads
  std::size_t size = 4096;
  std::function<Errno(Machine&, std::string_view)> store;  // of a file that can be written
  std::set<std::string> children;                          // names in a folder
  bool is_registers = false;                               // a device's memory: mapped, not read
  std::uint64_t incarnation = 0;  // what is made anew at this path is another inode
};

// What else is in the tree: mount points for what the real /sys has, and links into it.
struct Surroundings {
  std::set<std::string> folders;             // "/block"
  std::set<std::string> files;               // mount points that are files
  std::map<std::string, std::string> links;  // "/class/net" and where it leads
};

class Tree {
 public:
  // nullptr: there is nothing at `path` ("/bus/pci"; "/" is the root).
  [[nodiscard]] const Node* Find(std::string_view path) const;
  [[nodiscard]] const std::map<std::string, Node, std::less<>>& nodes() const { return nodes_; }

  // With all folders on the way.
  void AddFolder(const std::string& path);
  void AddLink(const std::string& path, const std::string& target);
  void AddFile(const std::string& path, std::string content, unsigned mode = 0444);
  void AddCommand(const std::string& path, std::function<Errno(Machine&, std::string_view)> store);
  // Readable and writable.
  void AddSetting(const std::string& path, std::string content,
                  std::function<Errno(Machine&, std::string_view)> store);
  // Memory region 0 of a device.
  void AddRegisters(const std::string& path);
  // There must be something at `path`.
  void SetIncarnation(const std::string& path, std::uint64_t incarnation);
  // From a link in the folder of `from` to `to`, both in this tree.
  void AddLinkTo(const std::string& from, const std::string& to);

 private:
  Node& Add(const std::string& path, Node node);

  std::map<std::string, Node, std::less<>> nodes_;
};

Tree BuildTree(const Machine& machine, const Surroundings& surroundings);

}  // namespace pitcrew::simulation::sysfs
