#include "tests/support/register_trap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" {
// The linker gives the program's calls to these, and the library's own functions the other names.
void* __real_mmap(void* address, std::size_t size, int protection, int flags, int file,
                  off_t offset);
int __real_munmap(void* address, std::size_t size);
void* __wrap_mmap(void* address, std::size_t size, int protection, int flags, int file,
                  off_t offset);
int __wrap_munmap(void* address, std::size_t size);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace pitcrew::test_support {
namespace {

struct TrappedFile {
  dev_t device;
  ino_t inode;
  std::filesystem::path path;
  RegisterModel* model;
};

struct Mapping {
  std::byte* start;
  std::size_t size;
  RegisterModel* model;
};

std::mutex mutex;
std::vector<TrappedFile> files;
std::vector<Mapping> mappings;

// The access of this thread that is being carried out.
struct Access {
  std::byte* address = nullptr;
  std::size_t offset = 0;
  RegisterModel* model = nullptr;
  bool is_write = false;
};
thread_local Access current;

constexpr greg_t kSingleStep = 0x100;  // the trap flag
constexpr greg_t kWasWrite = 0x2;      // of a page fault's error code

std::byte* PageOf(std::byte* address) {
  const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto number = reinterpret_cast<std::uintptr_t>(address) / size * size;
  return reinterpret_cast<std::byte*>(number);
}

void Protect(std::byte* address, int protection) {
  if (::mprotect(PageOf(address), static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), protection)) {
    std::abort();
  }
}

bool FindMapping(std::byte* address) {
  const std::lock_guard lock(mutex);
  for (const auto& mapping : mappings) {
    if (address < mapping.start || address >= mapping.start + mapping.size) continue;
    current = {address, static_cast<std::size_t>(address - mapping.start), mapping.model, false};
    return true;
  }
  return false;
}

// The access faults: a read gets the model's value put where it looks, then the one instruction is
// carried out.
void OnFault(int, siginfo_t* info, void* context) {
  const int saved = errno;
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto* address = static_cast<std::byte*>(info->si_addr);
  if (!FindMapping(address)) {
    ::signal(SIGSEGV, SIG_DFL);  // a fault of the program's own
    return;
  }
  current.is_write = (registers[REG_ERR] & kWasWrite) != 0;
  const std::uint32_t value = current.is_write ? 0 : current.model->Read(current.offset);
  Protect(address, PROT_READ | PROT_WRITE);
  if (!current.is_write) *reinterpret_cast<volatile std::uint32_t*>(address) = value;
  registers[REG_EFL] |= kSingleStep;
  errno = saved;
}

// The instruction is through: what it wrote goes to the model.
void OnStep(int, siginfo_t*, void* context) {
  const int saved = errno;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kSingleStep;
  const Access access = std::exchange(current, Access());
  if (access.address == nullptr) std::abort();
  const auto value = *reinterpret_cast<volatile std::uint32_t*>(access.address);
  Protect(access.address, PROT_NONE);
  if (access.is_write) access.model->Write(access.offset, value);
  errno = saved;
}

void InstallHandlers() {
  struct sigaction action{};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = OnFault;
  if (::sigaction(SIGSEGV, &action, nullptr) != 0) std::abort();
  action.sa_sigaction = OnStep;
  if (::sigaction(SIGTRAP, &action, nullptr) != 0) std::abort();
}

RegisterModel* ModelOf(int file) {
  struct stat info{};
  if (file < 0 || ::fstat(file, &info) != 0) return nullptr;
  const std::lock_guard lock(mutex);
  for (const auto& trapped : files) {
    if (trapped.device == info.st_dev && trapped.inode == info.st_ino) return trapped.model;
  }
  return nullptr;
}

}  // namespace

RegisterTrap::RegisterTrap(std::filesystem::path file, std::size_t size, RegisterModel& model)
    : file_(std::move(file)) {
  static std::once_flag once;
  std::call_once(once, InstallHandlers);
  const int made = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct stat info{};
  const bool done =
      made >= 0 && ::ftruncate(made, static_cast<off_t>(size)) == 0 && ::fstat(made, &info) == 0;
  if (made >= 0) ::close(made);
  if (!done) throw std::runtime_error("cannot make " + file_.string());
  const std::lock_guard lock(mutex);
  files.push_back({info.st_dev, info.st_ino, file_, &model});
}

RegisterTrap::~RegisterTrap() {
  const std::lock_guard lock(mutex);
  std::erase_if(files, [&](const auto& trapped) { return trapped.path == file_; });
}

}  // namespace pitcrew::test_support

using pitcrew::test_support::mappings;

// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" void* __wrap_mmap(void* address, std::size_t size, int protection, int flags, int file,
                             off_t offset) {
  auto* model = pitcrew::test_support::ModelOf(file);
  void* start =
      __real_mmap(address, size, model == nullptr ? protection : PROT_NONE, flags, file, offset);
  if (model == nullptr || start == MAP_FAILED) return start;
  const std::lock_guard lock(pitcrew::test_support::mutex);
  mappings.push_back({static_cast<std::byte*>(start), size, model});
  return start;
}

// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" int __wrap_munmap(void* address, std::size_t size) {
  {
    const std::lock_guard lock(pitcrew::test_support::mutex);
    std::erase_if(mappings, [&](const auto& mapping) { return mapping.start == address; });
  }
  return __real_munmap(address, size);
}
