#include "shim/confinement.h"

#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace pitcrew::shim {
namespace {

// An image's folders may belong to anybody: without DAC_OVERRIDE nothing could be written there.
std::uint64_t CapabilitiesOf(Task task) {
  constexpr std::uint64_t kOne = 1;
  std::uint64_t wanted = kOne << CAP_DAC_OVERRIDE;
  if (task == Task::kModes) wanted |= kOne << CAP_FOWNER;
  if (task == Task::kMounts) wanted |= kOne << CAP_SYS_ADMIN;
  return wanted;
}

base::Status KeepOnly(std::uint64_t wanted) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  if (::syscall(SYS_capget, &header, sets) != 0) {
    return base::Fail(base::FromErrno(errno, "read the hook's capabilities"));
  }
  for (int i = 0; i < 2; ++i) {
    const auto half = static_cast<std::uint32_t>(wanted >> (32 * i));
    sets[i].permitted &= half;
    sets[i].effective = sets[i].permitted;
    sets[i].inheritable = 0;
  }
  if (::syscall(SYS_capset, &header, sets) != 0) {
    return base::Fail(base::FromErrno(errno, "give up the hook's capabilities"));
  }
  return {};
}

// Far above what the largest cache needs (ld_cache.cc). Sanitizers reserve terabytes.
base::Status LimitMemory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {};
#else
  constexpr rlim_t kMost = rlim_t{1} << 30;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0) {
    return base::Fail(base::FromErrno(errno, "read the hook's limits"));
  }
  if (limit.rlim_cur <= kMost) return {};
  limit.rlim_cur = kMost;
  if (limit.rlim_max > kMost) limit.rlim_max = kMost;
  if (::setrlimit(RLIMIT_AS, &limit) == 0) return {};
  return base::Fail(base::FromErrno(errno, "limit the hook's memory"));
#endif
}

// What the kernel may know that the headers of the build do not: truncating (from Landlock's
// version 3) and ioctls of devices (5).
constexpr std::uint64_t kTruncate = std::uint64_t{1} << 14;
constexpr std::uint64_t kDeviceIoctl = std::uint64_t{1} << 15;

std::uint64_t KnownAccess(long version) {
  std::uint64_t known = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;  // all of version 1
  if (version >= 3) known |= kTruncate;
  if (version >= 5) known |= kDeviceIoctl;
  return known;
}

}  // namespace

base::Status GiveUpPrivileges(Task task) {
  ::clearenv();
  // Before the capabilities go: with few of them left, a process with as few may look into this one
  // (/proc/PID/root is the host's) unless the kernel is told otherwise.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return base::Fail(base::FromErrno(errno, "protect the hook's process"));
  }
  TRY(LimitMemory());
  return KeepOnly(CapabilitiesOf(task));
}

base::Status ConfineTo(const ContainerRoot& root) {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return {};
  const auto problem = [] { return base::Fail(base::FromErrno(errno, "confine the hook")); };
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = KnownAccess(version);
  const base::FileDescriptor rules(static_cast<int>(::syscall(
      SYS_landlock_create_ruleset, &attributes, sizeof(attributes.handled_access_fs), 0)));
  if (!rules.valid()) return problem();
  landlock_path_beneath_attr below{};
  below.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
                         LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                         LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM |
                         LANDLOCK_ACCESS_FS_REMOVE_FILE;
  below.parent_fd = root.handle();
  if (::syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &below, 0) != 0 ||
      ::syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0) {
    return problem();
  }
  return {};
}

}  // namespace pitcrew::shim
