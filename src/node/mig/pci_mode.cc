#include "node/mig/pci_mode.h"

#include <fmt/format.h>

#include <chrono>

#include "base/deadline.h"
#include "host/pause.h"
#include "host/pci_registers.h"

namespace pitcrew::node::mig {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kChip = 0x0;
constexpr std::uint32_t kGa100 = 0x170000a1;
constexpr std::size_t kBoot = 0x118234;
constexpr std::uint32_t kBooted = 0x3ff;
constexpr std::size_t kMode = 0x1404;
constexpr std::uint32_t kModeOn = 0x8000;
constexpr std::size_t kRequest = 0x118f78;
constexpr std::uint32_t kRequestMask = 0xc000;
constexpr std::uint32_t kRequestOn = 0xc000;
constexpr std::uint32_t kRequestOff = 0x8000;

base::Status RequireCapable(const host::PciRegisters& registers,
                            const std::filesystem::path& device) {
  TRY_ASSIGN(const auto chip, registers.Read(kChip));
  if (chip == kGa100) return {};
  return base::Fail(
      base::Error{base::Code::kUnsupported, "NotMigCapable",
                  fmt::format("non Mig-capable GPU: {}", device.filename().string())});
}

// A register has no event: it is read again every 100 ms, as long as upstream does.
base::Status WaitForBoot(const host::PciRegisters& registers, const std::filesystem::path& device,
                         int stop_fd) {
  const auto deadline = base::Deadline::After(5s);
  while (true) {
    TRY_ASSIGN(const auto state, registers.Read(kBoot));
    if (state == kBooted) return {};
    if (deadline.passed()) break;
    TRY(host::PauseBeforeReadingAgain(100ms, stop_fd));
  }
  return base::Fail(base::Error{
      base::Code::kTimeout, "GpuNotBooted",
      fmt::format("error waiting for GPU to boot: timeout after 5s seconds: {}; reset it, or start "
                  "the node anew",
                  device.filename().string())});
}

base::Result<host::PciRegisters> OpenBooted(const std::filesystem::path& device, int stop_fd = -1) {
  TRY_ASSIGN(auto registers, host::PciRegisters::Open(device));
  TRY(RequireCapable(registers, device));
  TRY(WaitForBoot(registers, device, stop_fd));
  return registers;
}

}  // namespace

base::Result<gpu::MigMode> ReadModeRegisters(const std::filesystem::path& device, int stop_fd) {
  TRY_ASSIGN(const auto registers, OpenBooted(device, stop_fd));
  TRY_ASSIGN(const auto mode, registers.Read(kMode));
  TRY_ASSIGN(const auto request, registers.Read(kRequest));
  gpu::MigMode read;
  read.current = (mode & kModeOn) != 0;
  read.pending = read.current ? (request & kRequestMask) != kRequestOff
                              : (request & kRequestMask) == kRequestOn;
  return read;
}

base::Status RequestModeByRegisters(const std::filesystem::path& device, bool enabled) {
  TRY_ASSIGN(auto registers, OpenBooted(device));
  TRY_ASSIGN(const auto request, registers.Read(kRequest));
  return registers.Write(kRequest,
                         (request & ~kRequestMask) | (enabled ? kRequestOn : kRequestOff));
}

}  // namespace pitcrew::node::mig
