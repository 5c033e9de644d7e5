// Settings that the firmware keeps over resets, and that count from the next one on
// (virtualisation-and-olm.md section 12.2, "knobs"). Private to this room.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "host/pci_registers.h"
#include "node/cc_mode/channel.h"

namespace pitcrew::node::cc_mode {

enum class Knob : std::uint16_t {
  kTest2 = 2,  // NVIDIA's tool sets these three to 0 and does not say what they are
  kTest4 = 4,
  kTest34 = 34,
  kDevtools = 6,      // CCD
  kConfidential = 8,  // CCM
  kDecoupler = 10,    // of region 0
  kProtectedPcie = 45,
};

class Firmware {
 public:
  // As OpenChannel.
  static base::Result<Firmware> Open(host::PciRegisters& registers, Channel channel,
                                     std::chrono::milliseconds patience);

  // kUnsupported "UnknownSetting" where the firmware is older than the setting.
  [[nodiscard]] base::Result<std::uint16_t> Read(Knob knob) const;
  // Writes only what differs. A setting that the firmware lacks counts as 0. kDenied
  // "SettingLocked" where the firmware takes no changes from the host.
  [[nodiscard]] base::Status Set(Knob knob, std::uint16_t value) const;

 private:
  explicit Firmware(std::unique_ptr<MessageChannel> channel) : channel_(std::move(channel)) {}
  // The payload of the answer.
  [[nodiscard]] base::Result<Words> Ask(const Words& payload) const;

  std::unique_ptr<MessageChannel> channel_;
};

}  // namespace pitcrew::node::cc_mode
