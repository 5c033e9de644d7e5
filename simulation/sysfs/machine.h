// A machine as the kernel's PCI, VFIO and mediated device code sees it: devices, drivers, groups,
// virtual functions, vGPUs. Pure: no files, no clock, no threads. Every operation is one write to
// sysfs and answers as the kernel does, with 0 or an errno.
//
// What the kernel does is known from its sources (Linux 6.1: drivers/base/bus.c, drivers/base/dd.c,
// drivers/pci/pci-driver.c, drivers/pci/iov.c, drivers/vfio) and held against a real one by
// tests/kernel/expectations; what NVIDIA's driver does has no such proof here: vgpu.h names its
// sources.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/pci_address.h"
#include "simulation/sysfs/security_processor.h"
#include "simulation/sysfs/vgpu.h"

namespace pitcrew::simulation::sysfs {

constexpr std::uint16_t kNvidiaVendor = 0x10de;
// Groups of chipset and bridges come first on real machines; those of the devices here follow.
constexpr std::uint32_t kFirstGroup = 40;

// What was written without the newline of `echo`.
constexpr std::string_view WithoutNewline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}
// Of a GPU's memory region 0.
inline constexpr std::size_t kRegisterBytes = 16UL << 20U;

using gpu::PciAddress;

// 0, or what errno is after the write.
using Errno = int;

struct PciIds {
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint16_t subsystem_vendor = 0;
  std::uint16_t subsystem_device = 0;
  std::uint32_t class_code = 0;  // 24 bits
};

// What can be made to go wrong.
enum class FaultPoint { kBind, kSriov, kVgpu, kReset };
std::optional<FaultPoint> FaultPointFrom(std::string_view word);
std::string_view Name(FaultPoint point);

struct Device {
  PciAddress address;
  PciIds ids;
  int numa_node = -1;
  std::string cpus;      // local_cpulist, without the newline
  std::string resource;  // the attributes' whole content
  std::string config;
  bool boot_vga = false;
  std::optional<std::uint32_t> group;  // IOMMU group
  std::vector<PciAddress> consumers;   // devices that need this one: its audio function
  std::string driver;                  // that has it; empty: none
  std::string driver_override;         // empty: none
  std::uint32_t total_functions = 0;   // of SR-IOV; 0: it has no such capability
  std::uint32_t functions = 0;
  bool probe_functions = true;         // sriov_drivers_autoprobe
  std::optional<PciAddress> physical;  // of a virtual function
  std::optional<std::size_t> gpu;  // position in Machine::gpus, also of a GPU's virtual functions
  std::uint32_t vgpu_type = 0;     // vendor-specific framework: the vGPU on this virtual function
  std::optional<std::uint32_t> character;  // N of vfio-dev/vfioN
  bool used = false;                       // a virtual machine has it open
  std::map<FaultPoint, Errno> faults;
};

struct Driver {
  enum class Kind { kPlain, kNvidia, kSwitch, kVfio };
  std::string name;
  std::string module;  // its folder in /sys/module; empty: part of the kernel
  Kind kind = Kind::kPlain;
  bool sriov = false;                             // can make virtual functions
  std::function<bool(const PciIds&)> recognises;  // its table of ids; empty: it has none
  std::vector<std::pair<std::uint16_t, std::uint16_t>> dynamic_ids;  // vendor, device
};

struct Mdev {
  std::string uuid;
  PciAddress parent;
  std::uint32_t type = 0;
  std::uint32_t group = 0;
  bool used = false;
};

// What confidential virtual machines need of a processor, and the host's kernel uses.
enum class HostProtection { kNone, kTdx, kSnp };

// What there is at the start, and which kernel runs on it.
struct Platform {
  bool iommu = true;
  bool vfio = true;      // the kernel has vfio-pci built in
  bool iommufd = false;  // and gives every device a node of its own
  HostProtection confidential = HostProtection::kNone;
  std::vector<std::string> variants;  // further VFIO drivers, for example nvgrace_gpu_vfio_pci
  VgpuFramework framework = VgpuFramework::kNone;  // of the driver that is loaded later
};

// NVIDIA's kernel module while it is loaded.
struct NvidiaModule {
  std::string version;  // empty: it tells none
  // It goes with its last user, as no rmmod reaches it: the container that loaded it cannot take it
  // out while programs use it, and whoever would do that next has only the real kernel's call.
  bool goes_with_users = false;
  bool open = false;        // programs use it
  std::uint64_t loads = 0;  // how often it was loaded so far, this time included
};

// For the kernel's announcements.
struct Event {
  std::string action;  // "add", "remove", "bind", "unbind", "change"
  std::string device_path;
  std::map<std::string, std::string> fields;
};

class Machine {
 public:
  Machine(Platform platform, std::vector<Device> devices, std::vector<Gpu> gpus);

  // One write each. The address or name of something that is not there is ENODEV.
  Errno Bind(std::string_view driver, std::string_view address);
  Errno Unbind(std::string_view driver, std::string_view address);
  Errno Probe(std::string_view address);
  Errno SetOverride(const PciAddress& address, std::string_view value);
  Errno AddId(std::string_view driver, std::string_view value);
  Errno RemoveId(std::string_view driver, std::string_view value);
  Errno SetFunctions(const PciAddress& address, std::string_view value);
  Errno SetFunctionsProbe(const PciAddress& address, std::string_view value);
  Errno SetAutoprobe(std::string_view value);
  Errno Remove(const PciAddress& address, std::string_view value);
  Errno Rescan(std::string_view value);
  Errno CreateMdev(const PciAddress& parent, std::uint32_t type, std::string_view uuid);
  Errno RemoveMdev(std::string_view uuid, std::string_view value);
  Errno SetVgpuType(const PciAddress& function, std::string_view value);
  Errno Reset(const PciAddress& address);

  // One access to a register of a device's memory region 0. False where there is no such register.
  bool ReadRegister(std::string_view address, std::size_t offset, std::uint32_t& value);
  bool WriteRegister(std::string_view address, std::size_t offset, std::uint32_t value);

  // Beside sysfs: modules come and go, things go wrong, virtual machines start and end.
  Errno Load(std::string_view driver, NvidiaModule module = {});
  Errno Unload(std::string_view driver);
  Errno SetFault(std::string_view address, FaultPoint point, Errno error);
  // A device's address or an mdev's UUID.
  Errno SetUsed(std::string_view device, bool used);
  // Whether programs have NVIDIA's driver open, which its module counts.
  void SetDriverOpen(bool open) { nvidia_.open = open; }
  // How MIG divides the GPU now.
  void SetMig(std::size_t gpu, MigState state);

  [[nodiscard]] const Platform& platform() const { return platform_; }
  [[nodiscard]] const std::map<PciAddress, Device>& devices() const { return devices_; }
  [[nodiscard]] const std::map<std::string, Driver, std::less<>>& drivers() const {
    return drivers_;
  }
  [[nodiscard]] const std::map<std::string, Mdev, std::less<>>& mdevs() const { return mdevs_; }
  [[nodiscard]] const std::vector<Gpu>& gpus() const { return gpus_; }
  // nullptr: it is not loaded.
  [[nodiscard]] const NvidiaModule* nvidia() const {
    return drivers_.contains("nvidia") ? &nvidia_ : nullptr;
  }
  // Of the devices with modes of confidential computing.
  [[nodiscard]] const std::map<PciAddress, SecurityProcessor>& processors() const {
    return processors_;
  }
  [[nodiscard]] bool autoprobe() const { return autoprobe_; }
  [[nodiscard]] const Device* Find(const PciAddress& address) const;
  [[nodiscard]] const Device* Find(std::string_view address) const;
  // Of a physical one, in their order.
  [[nodiscard]] std::vector<const Device*> FunctionsOf(const PciAddress& physical) const;
  // IOMMU groups with a VFIO device: those that have a node in /dev/vfio.
  [[nodiscard]] std::set<std::uint32_t> VfioGroups() const;
  // Whether a VFIO driver, or NVIDIA's in the vendor-specific framework, offers it to virtual
  // machines.
  [[nodiscard]] bool IsVfioDevice(const Device& device) const;
  // Whether mediated devices can be made on it.
  [[nodiscard]] bool IsMdevParent(const Device& device) const;
  // Whether it is a virtual function with the vendor's own attributes.
  [[nodiscard]] bool HasVendorAttributes(const Device& device) const;
  // How many more vGPUs of the type fit on this device.
  [[nodiscard]] std::uint32_t Available(const Device& device, const VgpuType& type) const;
  // The same in two steps, for whoever asks for many devices of a GPU: how many fit on the GPU, and
  // how many of those on this device of it.
  [[nodiscard]] std::uint32_t Room(std::size_t gpu, const VgpuType& type) const;
  [[nodiscard]] std::uint32_t Share(const Device& device, std::uint32_t room) const;
  [[nodiscard]] std::string DevicePath(
      const PciAddress& address) const;  // "/devices/pci0000:1b/0000:1b:00.0"

  // What happened since the last call.
  std::vector<Event> TakeEvents();

 private:
  Device* Lookup(std::string_view address);
  SecurityProcessor* Processor(std::string_view address, std::size_t offset);
  [[nodiscard]] bool Matches(const Driver& driver, const Device& device) const;
  [[nodiscard]] bool CanProbe(const Device& device) const;
  Errno Attach(const Driver& driver, Device& device);
  void Detach(Device& device);
  void Attach(Device& device);  // whichever driver takes it
  void MakeFunctions(Device& device, std::uint32_t count);
  void RemoveFunctions(Device& device);
  void Erase(const PciAddress& address);
  void RemoveVgpusOf(const Device& device);
  [[nodiscard]] std::uint32_t FreeGroup() const;
  [[nodiscard]] std::uint32_t FreeCharacter() const;
  [[nodiscard]] std::vector<VgpuInUse> InUse(std::size_t gpu) const;
  void AddDrivers();
  void Announce(std::string action, const Device& device, std::string_view driver = {});

  Platform platform_;
  std::map<PciAddress, Device> devices_;
  std::map<PciAddress, Device> unplugged_;  // removed; come back with a rescan
  std::map<std::string, Driver, std::less<>> drivers_;
  std::map<std::string, Mdev, std::less<>> mdevs_;
  std::vector<Gpu> gpus_;
  std::map<PciAddress, SecurityProcessor> processors_;
  std::vector<Event> events_;
  bool autoprobe_ = true;
  NvidiaModule nvidia_;
};

}  // namespace pitcrew::simulation::sysfs
