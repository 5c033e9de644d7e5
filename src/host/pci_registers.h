// Registers of a PCI device: its memory region 0 (BAR0), mapped. What a register means is the
// caller's knowledge (for example mig-manager.md section 5.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace pitcrew::host {

// Nothing else orders or caches these accesses: not for several threads at once.
class PciRegisters {
 public:
  // `device` is the device's folder in sysfs. kNotFound "NoRegisters" without region 0; kDenied
  // without the right to it (a locked-down kernel takes it from root, too).
  static base::Result<PciRegisters> Open(const std::filesystem::path& device);
  PciRegisters(PciRegisters&& other) noexcept;
  PciRegisters& operator=(PciRegisters&&) = delete;
  ~PciRegisters();

  // 32 bits at a byte offset, as the device's endianness has them: NVIDIA GPUs say it in the
  // register at offset 4. kInvalid "NoSuchRegister" behind the end of the region.
  [[nodiscard]] base::Result<std::uint32_t> Read(std::size_t offset) const;
  // Has reached the device when it returns.
  base::Status Write(std::size_t offset, std::uint32_t value);

 private:
  PciRegisters(std::byte* start, std::size_t size, std::string name)
      : start_(start), size_(size), name_(std::move(name)) {}
  [[nodiscard]] base::Status RequireInside(std::size_t offset) const;
  [[nodiscard]] bool is_big_endian() const;

  std::byte* start_;  // null: moved from
  std::size_t size_;
  std::string name_;  // the file, for messages
};

}  // namespace pitcrew::host
