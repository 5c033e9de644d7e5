// One access of a program to a register, from the bytes of the x86-64 instruction that makes it
// (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: section 2.1 on the form
// of instructions, MOV). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace pitcrew::simulation::sysfs {

struct RegisterAccess {
  bool is_write = false;
  // The general register, as the processor numbers them, that is read into or written from ...
  unsigned general_register = 0;
  // ... or the value that is written.
  std::optional<std::uint32_t> value;
  std::size_t length = 0;  // of the instruction
};

// The longest instruction.
inline constexpr std::size_t kInstructionBytes = 15;

// Of instructions that move 32 bits between memory and a general register, or write a constant:
// what compilers make of an access to a volatile word. Nothing for all others.
std::optional<RegisterAccess> DecodeAccess(std::span<const std::uint8_t> code);

}  // namespace pitcrew::simulation::sysfs
