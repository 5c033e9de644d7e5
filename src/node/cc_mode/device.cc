#include "node/cc_mode/device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "host/iommu.h"
#include "host/pause.h"
#include "host/pci_control.h"
#include "host/sysfs.h"
#include "node/cc_mode/firmware.h"
#include "node/cc_mode/register_wait.h"

namespace pitcrew::node::cc_mode {
namespace {

namespace fs = std::filesystem;
using base::Deadline;

// Configuration space (PCI Express specification): the command register with its bit for memory,
// and extended capabilities, of which NVIDIA's own (DVSEC of its vendor, id 0) has the firewall.
constexpr off_t kCommand = 4;
constexpr std::uint16_t kMemory = 0x2;
constexpr off_t kExtended = 0x100;
constexpr std::uint32_t kDvsec = 0x23;
constexpr std::uint32_t kFirewall = 1U << 20U;

class ConfigurationSpace {
 public:
  static base::Result<ConfigurationSpace> Open(const fs::path& device) {
    const auto file = device / "config";
    base::FileDescriptor opened(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    if (!opened.valid()) return base::Fail(base::FromErrno(errno, "open " + file.string()));
    return ConfigurationSpace(std::move(opened), file);
  }

  template <class Value>
  [[nodiscard]] base::Result<Value> Read(off_t offset) const {
    std::array<unsigned char, sizeof(Value)> bytes{};
    const auto got = ::pread(file_.get(), bytes.data(), bytes.size(), offset);
    if (got != static_cast<ssize_t>(bytes.size())) {
      return base::Fail(base::FromErrno(got < 0 ? errno : EIO, "read " + name_.string()));
    }
    Value value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = static_cast<Value>(value << 8U | bytes[i]);
    return value;
  }

  [[nodiscard]] base::Status EnableMemory() const {
    TRY_ASSIGN(const auto command, Read<std::uint16_t>(kCommand));
    if ((command & kMemory) != 0) return {};
    const std::array<unsigned char, 2> bytes = {static_cast<unsigned char>(command | kMemory),
                                                static_cast<unsigned char>(command >> 8U)};
    if (::pwrite(file_.get(), bytes.data(), bytes.size(), kCommand) == 2) return {};
    return base::Fail(base::FromErrno(errno, "write " + name_.string()));
  }

  // Where NVIDIA's own capability is; nothing when there is none.
  [[nodiscard]] std::optional<off_t> FindFirewall() const {
    off_t offset = kExtended;
    // A list that leads nowhere ends after as many entries as fit.
    for (int left = 960; left > 0 && offset >= kExtended; --left) {
      const auto head = Read<std::uint32_t>(offset);
      if (!head || *head == 0 || *head == 0xffffffff) return std::nullopt;
      if ((*head & 0xffffU) == kDvsec) {
        const auto owner = Read<std::uint32_t>(offset + 4);
        const auto id = Read<std::uint16_t>(offset + 8);
        if (owner && id && (*owner & 0xffffU) == host::kVendorNvidia && *id == 0) return offset;
      }
      offset = static_cast<off_t>(*head >> 20U);
    }
    return std::nullopt;
  }

 private:
  ConfigurationSpace(base::FileDescriptor file, fs::path name)
      : file_(std::move(file)), name_(std::move(name)) {}

  base::FileDescriptor file_;
  fs::path name_;
};

// A device that sleeps answers nothing. "" when it is awake for good already.
base::Result<std::string> Wake(const fs::path& device) {
  const auto file = device / "power/control";
  const auto before = host::ReadAttribute(file);
  if (!before && before.error().code == base::Code::kNotFound) return "";
  TRY(before);
  if (*before == "on") return "";
  TRY(host::WriteAttribute(file, "on", "wake " + device.filename().string()));
  return *before;
}

bool IsUnreadable(std::uint32_t value) { return value == 0xffffffff || value >> 16U == 0xbadf; }

std::unexpected<base::Error> NotCapable(const host::PciDevice& device) {
  return base::Fail(base::Error{
      base::Code::kUnsupported, "NotCapable",
      fmt::format("{} [{:04x}:{:04x}] has no mode of confidential computing that is known",
                  device.address.SysfsName(), device.vendor, device.device)});
}

base::Result<const Chip*> ChipOf(const host::PciDevice& device,
                                 const host::PciRegisters& registers) {
  const Chip* chip = nullptr;
  if (host::IsNvSwitch(device)) {
    TRY_ASSIGN(const auto id, registers.Read(0));
    chip = SwitchChip(id);
  } else {
    chip = GpuChip(device.device);
  }
  if (chip == nullptr) return NotCapable(device);
  return chip;
}

base::Status StageOff(const Firmware& firmware, const Chip& chip) {
  if (chip.protected_pcie) TRY(firmware.Set(Knob::kProtectedPcie, 0));
  if (chip.decoupler) TRY(firmware.Set(Knob::kDecoupler, 0));
  if (!chip.confidential) return {};
  TRY(firmware.Set(Knob::kDevtools, 0));
  return firmware.Set(Knob::kConfidential, 0);
}

base::Status StageConfidential(const Firmware& firmware, const Chip& chip, bool devtools) {
  if (chip.protected_pcie) TRY(firmware.Set(Knob::kProtectedPcie, 0));
  if (chip.decoupler) TRY(firmware.Set(Knob::kDecoupler, devtools ? 0 : 2));
  TRY(firmware.Set(Knob::kConfidential, 1));
  return firmware.Set(Knob::kDevtools, devtools ? 1 : 0);
}

base::Status StageProtectedPcie(const Firmware& firmware, const Chip& chip) {
  if (chip.confidential) {
    TRY(firmware.Set(Knob::kDevtools, 0));
    TRY(firmware.Set(Knob::kConfidential, 0));
  }
  if (chip.decoupler) TRY(firmware.Set(Knob::kDecoupler, 2));
  return firmware.Set(Knob::kProtectedPcie, 1);
}

// The settings of a mode, in the order in which debugging is never on without the rest.
base::Status StageMode(const Firmware& firmware, const Chip& chip, Mode mode) {
  if (mode == Mode::kOff) return StageOff(firmware, chip);
  for (const Knob knob : {Knob::kTest2, Knob::kTest4, Knob::kTest34}) TRY(firmware.Set(knob, 0));
  if (mode == Mode::kPpcie) return StageProtectedPcie(firmware, chip);
  return StageConfidential(firmware, chip, mode == Mode::kDevtools);
}

}  // namespace

Device::Device(const Settings& settings, host::PciDevice pci, host::PciRegisters registers,
               const Chip* chip, std::string power)
    : root_(settings.root),
      patience_(settings.patience),
      stop_fd_(settings.stop_fd),
      pci_(std::move(pci)),
      registers_(std::move(registers)),
      chip_(chip),
      power_(std::move(power)) {}

Device::Device(Device&& other) noexcept
    : root_(std::move(other.root_)),
      patience_(other.patience_),
      stop_fd_(other.stop_fd_),
      pci_(std::move(other.pci_)),
      registers_(std::move(other.registers_)),
      chip_(std::exchange(other.chip_, nullptr)),
      power_(std::exchange(other.power_, "")) {}

Device::~Device() {
  if (power_.empty()) return;
  const auto put_back = host::WriteAttribute(pci_.folder / "power/control", power_,
                                             "let " + pci_.address.SysfsName() + " sleep again");
  if (!put_back) base::LogInfo("A device stays awake", {{"why", put_back.error().message}});
}

base::Result<Device> Device::Open(const Settings& settings, const host::PciDevice& device) {
  const bool is_switch = host::IsNvSwitch(device);
  // An older GPU needs no look into its registers.
  if (!is_switch && GpuChip(device.device) == nullptr) return NotCapable(device);
  TRY_ASSIGN(auto power, Wake(device.folder));
  TRY_ASSIGN(const auto space, ConfigurationSpace::Open(device.folder));
  TRY(space.EnableMemory());
  TRY_ASSIGN(auto registers, host::PciRegisters::Open(device.folder));
  TRY_ASSIGN(const auto* chip, ChipOf(device, registers));
  return Device(settings, device, std::move(registers), chip, std::move(power));
}

bool Device::Can(Mode mode) const {
  if (mode == Mode::kOff) return true;
  return mode == Mode::kPpcie ? chip_->protected_pcie : chip_->confidential;
}

base::Status Device::AwaitFirewall(Deadline deadline) const {
  TRY_ASSIGN(const auto space, ConfigurationSpace::Open(pci_.folder));
  const auto capability = space.FindFirewall();
  if (!capability) return {};
  while (true) {
    TRY_ASSIGN(const auto value, space.Read<std::uint32_t>(*capability + 8));
    if ((value & kFirewall) == 0) return {};
    if (deadline.passed()) {
      return base::Fail(base::Error{
          base::Code::kTimeout, "GpuNotBooted",
          fmt::format("{} does not let its registers be read (firewall of region 0); a cold start "
                      "of the node may help",
                      pci_.address.SysfsName())});
    }
    TRY(host::PauseBeforeReadingAgain(std::chrono::milliseconds(10), stop_fd_));
  }
}

base::Status Device::AwaitBoot() const {
  const auto deadline = Deadline::After(patience_ * chip_->boot_patience);
  if (chip_->firewall) TRY(AwaitFirewall(deadline));
  TRY_ASSIGN(const bool booted,
             AwaitRegister(
                 registers_, chip_->boot, [](std::uint32_t value) { return value == 0xff; },
                 deadline, stop_fd_));
  if (booted) return {};
  return base::Fail(base::Error{
      base::Code::kTimeout, "GpuNotBooted",
      fmt::format("the firmware of {} ({}) has not started within {} ms; a cold start of the node "
                  "may help",
                  pci_.address.SysfsName(), chip_->name,
                  (patience_ * chip_->boot_patience).count())});
}

base::Result<std::uint32_t> Device::ReadRegister(std::size_t offset) const {
  TRY_ASSIGN(const auto value, registers_.Read(offset));
  if (!IsUnreadable(value)) return value;
  return base::Fail(base::Unavailable(
      "RegisterUnreadable", fmt::format("register {:#x} of {} cannot be read ({:#x})", offset,
                                        pci_.address.SysfsName(), value)));
}

base::Result<Mode> Device::ReadMode() const {
  TRY(AwaitBoot());
  if (chip_->protected_pcie) {
    TRY_ASSIGN(const auto protection, ReadRegister(chip_->protection));
    if ((protection & chip_->protection_bit) != 0) return Mode::kPpcie;
  }
  if (!chip_->confidential) return Mode::kOff;
  TRY_ASSIGN(const auto mode, ReadRegister(chip_->mode));
  constexpr std::array<Mode, 4> kModes = {Mode::kOff, Mode::kOn, Mode::kInvalid, Mode::kDevtools};
  return kModes.at(mode & 0x3U);
}

base::Status Device::Stage(Mode mode) {
  TRY(AwaitBoot());
  TRY_ASSIGN(const auto firmware, Firmware::Open(registers_, chip_->channel, patience_));
  const auto staged = StageMode(firmware, *chip_, mode);
  if (staged) return {};
  return base::Fail(staged.error().Within(pci_.address.SysfsName()));
}

base::Status Device::Reset() const { return host::ResetDevice(root_, pci_.address); }

}  // namespace pitcrew::node::cc_mode
