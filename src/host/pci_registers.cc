#include "host/pci_registers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "base/file_descriptor.h"

namespace pitcrew::host {
namespace {

// NVIDIA's register of the byte order, and what it reads where the order is the other one.
constexpr std::size_t kByteOrder = 4;
constexpr std::uint32_t kBigEndian = 0x01000001;

std::uint32_t Swap(std::uint32_t value) { return __builtin_bswap32(value); }

volatile std::uint32_t* At(std::byte* start, std::size_t offset) {
  return reinterpret_cast<volatile std::uint32_t*>(start + offset);
}

std::uint32_t FromLittleEndian(std::uint32_t value) {
  return std::endian::native == std::endian::little ? value : Swap(value);
}

}  // namespace

base::Result<PciRegisters> PciRegisters::Open(const std::filesystem::path& device) {
  const auto file = device / "resource0";
  const base::FileDescriptor region(::open(file.c_str(), O_RDWR | O_SYNC | O_CLOEXEC));
  if (!region.valid() && errno == ENOENT) {
    return base::Fail(base::NotFound(
        "NoRegisters", fmt::format("missing bar0 MMIO resource: there is no {}", file.string())));
  }
  if (!region.valid()) return base::Fail(base::FromErrno(errno, "open " + file.string()));
  struct stat status{};
  if (::fstat(region.get(), &status) != 0) {
    return base::Fail(base::FromErrno(errno, "read the size of " + file.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    return base::Fail(base::NotFound(
        "NoRegisters", fmt::format("missing bar0 MMIO resource: {} is empty", file.string())));
  }
  void* start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, region.get(), 0);
  if (start == MAP_FAILED) return base::Fail(base::FromErrno(errno, "map " + file.string()));
  return PciRegisters(static_cast<std::byte*>(start), size, file.string());
}

PciRegisters::PciRegisters(PciRegisters&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)),
      size_(other.size_),
      name_(std::move(other.name_)) {}

PciRegisters::~PciRegisters() {
  if (start_ != nullptr) ::munmap(start_, size_);
}

base::Status PciRegisters::RequireInside(std::size_t offset) const {
  if (offset % 4 == 0 && offset < size_ && size_ - offset >= 4) return {};
  return base::Fail(
      base::Invalid("NoSuchRegister", fmt::format("{} has no register at {:#x}", name_, offset)));
}

bool PciRegisters::is_big_endian() const {
  return size_ >= kByteOrder + 4 && FromLittleEndian(*At(start_, kByteOrder)) == kBigEndian;
}

base::Result<std::uint32_t> PciRegisters::Read(std::size_t offset) const {
  TRY(RequireInside(offset));
  const std::uint32_t value = FromLittleEndian(*At(start_, offset));
  return is_big_endian() ? Swap(value) : value;
}

base::Status PciRegisters::Write(std::size_t offset, std::uint32_t value) {
  TRY(RequireInside(offset));
  if (is_big_endian()) value = Swap(value);
  *At(start_, offset) = FromLittleEndian(value);
  if (::msync(start_, size_, MS_SYNC) == 0) return {};
  // A mapped device has nothing to write back, and some kernels say so.
  if (errno == EINVAL) return {};
  return base::Fail(base::FromErrno(errno, "write to " + name_));
}

}  // namespace pitcrew::host
