// Registers with effects, in a file: the test program's mappings of it let no access through, so
// that each one is carried out by a model of the hardware, as a bus would. For code that maps a
// device's resource<N> of sysfs. x86-64 Linux only; a program that links pitcrew_test_registers has
// its mmap and munmap looked at (--wrap).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace pitcrew::test_support {

// 32 bits at byte offsets. Called within the access, in the thread that makes it.
class RegisterModel {
 public:
  virtual ~RegisterModel() = default;
  virtual std::uint32_t Read(std::size_t offset) = 0;
  virtual void Write(std::size_t offset, std::uint32_t value) = 0;
};

// Makes `file` with that size; what maps it while this object lives talks with the model.
class RegisterTrap {
 public:
  RegisterTrap(std::filesystem::path file, std::size_t size, RegisterModel& model);
  ~RegisterTrap();
  RegisterTrap(const RegisterTrap&) = delete;
  RegisterTrap& operator=(const RegisterTrap&) = delete;

 private:
  std::filesystem::path file_;
};

}  // namespace pitcrew::test_support
