// Which NVIDIA chips can do confidential computing, and where each says so
// (virtualisation-and-olm.md section 12.2). A chip that is not in the table is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "host/pci.h"

namespace pitcrew::node::cc_mode {

// How the host talks with the chip's security processor.
enum class Channel {
  kMemory,   // through its memory (EMEM) and queues of message places
  kMailbox,  // through words of a mailbox (MNOC)
};

struct Chip {
  std::string_view name;  // "GH100"
  bool confidential;      // has modes of confidential computing
  bool protected_pcie;    // has protected PCIe: several GPUs and their switches together
  bool decoupler;         // its setting of the decoupler of region 0 goes with the mode
  bool firewall;          // region 0 answers only once a bit in configuration space is clear
  Channel channel;
  std::size_t boot;        // register that reads 0xff when the firmware has started
  int boot_patience;       // how many times an answer's time that may take
  std::size_t mode;        // register of the mode in force; unused without `confidential`
  std::size_t protection;  // register of protected PCIe, and its bit
  std::uint32_t protection_bit;
};

// Null for a GPU that cannot do confidential computing, or that is not known. `device` is its PCI
// device id.
const Chip* GpuChip(std::uint16_t device);
// By the register at offset 0; null for switches without protected PCIe.
const Chip* SwitchChip(std::uint32_t boot_id);

}  // namespace pitcrew::node::cc_mode
