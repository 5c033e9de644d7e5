#include "simulation/sysfs/register_bus.h"

#include <fmt/format.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "simulation/sysfs/register_access.h"

#if defined(__x86_64__)
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "base/log.h"
#endif

namespace pitcrew::simulation::sysfs {

struct RegisterBus::Shared {
  std::mutex mutex;
  Devices devices;  // empty functions: the end
  std::set<pid_t> followed;
};

RegisterBus::RegisterBus(Devices devices) : shared_(std::make_shared<Shared>()) {
  shared_->devices = std::move(devices);
}

RegisterBus::~RegisterBus() {
  const std::lock_guard lock(shared_->mutex);
  shared_->devices = {};
}

#if defined(__x86_64__)
namespace {

struct RegisterPlace {
  std::string device;  // PCI address
  std::size_t offset = 0;
};

// What lies at an address of the process, when it is a region of registers.
std::optional<RegisterPlace> FindPlace(pid_t thread, std::uintptr_t address) {
  constexpr std::string_view kRegion = "/resource0";
  std::ifstream maps(fmt::format("/proc/{}/maps", thread));
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    std::size_t start = 0;
    char dash = 0;
    std::string rights;
    std::string number;
    std::string path;
    words >> std::hex >> first >> dash >> end >> rights >> start >> number >> number >> path;
    if (address < first || address >= end) continue;
    if (!path.ends_with(kRegion)) return std::nullopt;
    path.resize(path.size() - kRegion.size());
    return RegisterPlace{path.substr(path.rfind('/') + 1), start + (address - first)};
  }
  return std::nullopt;
}

unsigned long long& GeneralRegister(user_regs_struct& registers, unsigned number) {
  const std::array<unsigned long long*, 16> places = {
      &registers.rax, &registers.rcx, &registers.rdx, &registers.rbx,
      &registers.rsp, &registers.rbp, &registers.rsi, &registers.rdi,
      &registers.r8,  &registers.r9,  &registers.r10, &registers.r11,
      &registers.r12, &registers.r13, &registers.r14, &registers.r15};
  return *places.at(number);
}

std::optional<RegisterAccess> AccessAt(pid_t thread, std::uintptr_t instruction) {
  std::array<std::uint8_t, kInstructionBytes> code{};
  const iovec here{code.data(), code.size()};
  const iovec there{reinterpret_cast<void*>(instruction), code.size()};
  const auto got = ::process_vm_readv(thread, &here, 1, &there, 1, 0);
  if (got <= 0) return std::nullopt;
  return DecodeAccess({code.data(), static_cast<std::size_t>(got)});
}

// The access that a stopped thread's fault is about. False: it is none, or cannot be carried out.
bool CarryOut(RegisterBus::Shared& bus, pid_t thread) {
  siginfo_t fault{};
  user_regs_struct registers{};
  if (::ptrace(PTRACE_GETSIGINFO, thread, nullptr, &fault) != 0) return false;
  const auto place = FindPlace(thread, reinterpret_cast<std::uintptr_t>(fault.si_addr));
  if (!place || ::ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return false;
  const auto access = AccessAt(thread, registers.rip);
  if (!access) {
    base::LogWarning(
        "An instruction that no device understands: registers are read and written as "
        "32 bits at a time",
        {{"device", place->device}, {"offset", fmt::format("{:#x}", place->offset)}});
    return false;
  }
  auto& general = GeneralRegister(registers, access->general_register);
  {
    const std::lock_guard lock(bus.mutex);
    std::uint32_t value = access->value.value_or(static_cast<std::uint32_t>(general));
    if (!bus.devices.read) return false;
    const bool done = access->is_write ? bus.devices.write(place->device, place->offset, value)
                                       : bus.devices.read(place->device, place->offset, value);
    if (!done) return false;
    if (!access->is_write) general = value;
  }
  registers.rip += access->length;
  return ::ptrace(PTRACE_SETREGS, thread, nullptr, &registers) == 0;
}

void GoOn(RegisterBus::Shared& bus, pid_t thread, int status) {
  int signal = WSTOPSIG(status);
  if (status >> 16 == PTRACE_EVENT_STOP) {
    // Stopped as a whole, as by a shell: it stays so. Or only told to look.
    const bool stays = signal != SIGTRAP;
    ::ptrace(stays ? PTRACE_LISTEN : PTRACE_CONT, thread, nullptr, nullptr);
    return;
  }
  if (signal == SIGBUS && CarryOut(bus, thread)) signal = 0;
  ::ptrace(PTRACE_CONT, thread, nullptr, signal);
}

// All of it in one thread: only the one that has attached may ask.
void ServeRegisters(const std::shared_ptr<RegisterBus::Shared>& bus, pid_t thread,
                    std::promise<int> attached) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    const int error = errno;
    const std::lock_guard lock(bus->mutex);
    bus->followed.erase(thread);
    attached.set_value(error);
    return;
  }
  attached.set_value(0);
  int status = 0;
  while (true) {
    if (::waitpid(thread, &status, __WALL) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (!WIFSTOPPED(status)) break;
    GoOn(*bus, thread, status);
  }
  const std::lock_guard lock(bus->mutex);
  bus->followed.erase(thread);
}

}  // namespace

int RegisterBus::Follow(pid_t thread) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->followed.insert(thread).second) return 0;
  }
  std::promise<int> attached;
  auto result = attached.get_future();
  std::thread(ServeRegisters, shared_, thread, std::move(attached)).detach();
  return result.get();
}
#else
int RegisterBus::Follow(pid_t) { return ENOTSUP; }
#endif

}  // namespace pitcrew::simulation::sysfs
