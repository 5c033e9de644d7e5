// What is known of a node before a GPU of it goes to a virtual machine: read once, then only looked
// at (virtualisation-and-olm.md section 4, vfio-manager.md section 3).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/observed.h"
#include "base/result.h"
#include "gpu/pci_address.h"
#include "host/pci.h"
#include "host/root.h"

namespace pitcrew::node::vfio {

// Where this process sees things.
struct Settings {
  host::Root root;       // /sys, and /proc of the kernel
  host::Root host_root;  // the node's files: its kernel modules, and the /proc of its processes
  // Loads a kernel module with what it needs; other than libkmod for tests.
  std::function<base::Status(const std::string& module)> load_module = {};

  // /proc with all processes of the node.
  [[nodiscard]] std::filesystem::path processes() const { return host_root.At("/proc"); }
};

enum class Cpu { kIntel, kAmd, kArm, kOther };

// What switches translation of devices' addresses on and off.
struct Translation {
  std::vector<std::string> iommus;  // that the kernel uses; empty: it is off
  Cpu cpu = Cpu::kOther;
  bool is_virtual_machine = false;     // this node itself runs on a hypervisor
  std::vector<std::string> arguments;  // the kernel's command line
  // Whether the firmware describes an IOMMU (ACPI tables DMAR, IVRS, IORT).
  base::Observed<bool> in_firmware = base::Observed<bool>::Missing();
  bool unsafe_without = false;  // vfio's enable_unsafe_noiommu_mode: it binds without an IOMMU
};

struct Node {
  host::PciScan scan;
  // NVIDIA devices that are listed and cannot be read.
  std::vector<base::Error> unread;
  Translation translation;
  std::map<std::uint32_t, std::vector<gpu::PciAddress>> groups;  // of NVIDIA's devices
  // Functions that work only while a GPU does, by GPU with graphics (class 0x030000).
  std::map<gpu::PciAddress, std::vector<gpu::PciAddress>> consumers;

  // Null when it is not there, or was not readable.
  [[nodiscard]] const host::PciDevice* Find(const gpu::PciAddress& address) const;
};

base::Result<Node> ReadNode(const Settings& settings);

// NVIDIA's display controllers, virtual functions too.
bool IsGpu(const host::PciDevice& device);

}  // namespace pitcrew::node::vfio
