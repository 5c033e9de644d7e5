// Waiting for a register: it has no event, so it is read again. Private to this room.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>

#include "base/deadline.h"
#include "base/result.h"
#include "host/pause.h"
#include "host/pci_registers.h"

namespace pitcrew::node::cc_mode {

// Whether `holds(value)` came true in time. The first reads follow each other closely: firmware
// answers within milliseconds. kCancelled when `stop_fd` (-1: none) becomes readable first.
base::Result<bool> AwaitRegister(const host::PciRegisters& registers, std::size_t offset,
                                 const std::predicate<std::uint32_t> auto& holds,
                                 base::Deadline deadline, int stop_fd) {
  for (int pause = 1;; pause = pause < 10 ? pause + 1 : 10) {
    TRY_ASSIGN(const auto value, registers.Read(offset));
    if (holds(value)) return true;
    if (deadline.passed()) return false;
    TRY(host::PauseBeforeReadingAgain(std::chrono::milliseconds(pause), stop_fd));
  }
}

}  // namespace pitcrew::node::cc_mode
