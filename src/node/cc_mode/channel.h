// Messages to a chip's security processor and its answers (virtualisation-and-olm.md section 12.2,
// "Transport"). Private to this room.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "host/pci_registers.h"
#include "node/cc_mode/chip.h"

namespace pitcrew::node::cc_mode {

using Words = std::vector<std::uint32_t>;

// One message at a time, of no more words than go into one packet.
class MessageChannel {
 public:
  virtual ~MessageChannel() = default;
  // kTimeout "FirmwareSilent" when no answer comes.
  virtual base::Result<Words> Exchange(const Words& message) = 0;
};

// `registers` must outlive it; `patience` is how long an answer may take. What an earlier process
// did not fetch is left behind.
base::Result<std::unique_ptr<MessageChannel>> OpenChannel(host::PciRegisters& registers,
                                                          Channel channel,
                                                          std::chrono::milliseconds patience);

}  // namespace pitcrew::node::cc_mode
