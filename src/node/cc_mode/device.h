// One GPU or NVSwitch whose mode is read and changed through its registers, without a driver
// (virtualisation-and-olm.md section 12.2). Private to this room.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "host/pci.h"
#include "host/pci_registers.h"
#include "node/cc_mode/chip.h"
#include "node/cc_mode/mode.h"
#include "node/cc_mode/node.h"

namespace pitcrew::node::cc_mode {

class Device {
 public:
  // Wakes the device, and keeps it awake while this object lives. kUnsupported "NotCapable" for a
  // chip without such modes.
  static base::Result<Device> Open(const Settings& settings, const host::PciDevice& device);
  Device(Device&& other) noexcept;
  Device& operator=(Device&&) = delete;
  ~Device();

  [[nodiscard]] const host::PciDevice& pci() const { return pci_; }
  // Whether it can be in this mode; every device can be in `off`.
  [[nodiscard]] bool Can(Mode mode) const;

  // The mode in force. Waits until the firmware has started: kTimeout "GpuNotBooted".
  [[nodiscard]] base::Result<Mode> ReadMode() const;
  // Has the firmware take this mode at the next reset. Not kInvalid, and only what it can.
  base::Status Stage(Mode mode);
  // Its firmware starts anew, which AwaitBoot waits for.
  [[nodiscard]] base::Status Reset() const;
  [[nodiscard]] base::Status AwaitBoot() const;

 private:
  Device(const Settings& settings, host::PciDevice pci, host::PciRegisters registers,
         const Chip* chip, std::string power);
  [[nodiscard]] base::Status AwaitFirewall(base::Deadline deadline) const;
  [[nodiscard]] base::Result<std::uint32_t> ReadRegister(std::size_t offset) const;

  host::Root root_;
  std::chrono::milliseconds patience_;
  int stop_fd_;
  host::PciDevice pci_;
  host::PciRegisters registers_;
  const Chip* chip_;   // null: moved from
  std::string power_;  // what its power control was; empty: it stays as it is
};

}  // namespace pitcrew::node::cc_mode
