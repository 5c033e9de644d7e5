// The hooks' seccomp filter. It names what is forbidden, not what is allowed: a C library of
// another version may use other calls for the same work, and no container is to fail for that.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "shim/confinement.h"

namespace pitcrew::shim {
namespace {

#if defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#endif
constexpr std::uint32_t kX32 = 0x40000000;  // a second set of numbers on x86-64

// Newer than the headers of the build; the same on all machines.
constexpr std::uint32_t kMountSetattr = 442;
constexpr std::uint32_t kFchmodat2 = 452;
constexpr std::uint32_t kSetxattrat = 463;
constexpr std::uint32_t kOpenTreeAttr = 467;

constexpr std::uint32_t kNever[] = {
    // other programs and processes
    SYS_execve,
    SYS_execveat,
    SYS_clone,
    SYS_clone3,
    SYS_kill,
    SYS_tkill,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_prlimit64,
    // the network and other ways to speak
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    // owners, attributes, nodes, files by a handle that no path leads to
    SYS_fchownat,
    SYS_fchown,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    kSetxattrat,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_utimensat,
    SYS_mknodat,
    SYS_linkat,
    SYS_open_by_handle_at,
    SYS_truncate,
    // namespaces and who one is
    SYS_setns,
    SYS_unshare,
    SYS_chroot,
    SYS_pivot_root,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_setgroups,
    // the kernel and the machine
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_syslog,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_mknod,
    SYS_link,
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

// By path: a mode is changed by the handle of what was opened.
constexpr std::uint32_t kModes[] = {
    SYS_fchmodat,
    kFchmodat2,
#if defined(__x86_64__)
    SYS_chmod,
#endif
};

constexpr std::uint32_t kMounts[] = {SYS_mount,     SYS_umount2,  SYS_move_mount, SYS_open_tree,
                                     SYS_fsopen,    SYS_fsmount,  SYS_fspick,     SYS_fsconfig,
                                     kMountSetattr, kOpenTreeAttr};

using Code = std::vector<sock_filter>;

void Add(Code& code, unsigned what, std::uint32_t value, std::size_t if_true = 0,
         std::size_t if_false = 0) {
  code.push_back({static_cast<std::uint16_t>(what), static_cast<std::uint8_t>(if_true),
                  static_cast<std::uint8_t>(if_false), value});
}

void Refuse(Code& code) { Add(code, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM); }

// Which of 32 successive numbers are refused.
struct Word {
  std::uint32_t number = 0;  // of the word: the first of its calls, divided by 32
  std::uint32_t refused = 0;
};

std::vector<Word> InWords(std::vector<std::uint32_t> calls) {
  std::ranges::sort(calls);
  std::vector<Word> words;
  for (const auto call : calls) {
    if (words.empty() || words.back().number != call / 32) words.push_back({call / 32, 0});
    words.back().refused |= std::uint32_t{1} << (call % 32);
  }
  return words;
}

constexpr std::uint32_t kBit = 0;  // the filter's memory: the call's bit in its word

// A search by halves for the word that is in the accumulator. Short, since to translate the filter
// takes longer than all else that a hook gives up: a comparison for each call cost 0.1 ms.
Code Search(std::span<const Word> words) {
  Code code;
  if (words.size() == 1) {
    Add(code, BPF_JMP | BPF_JEQ | BPF_K, words[0].number, 0, 3);
    Add(code, BPF_LD | BPF_MEM, kBit);
    Add(code, BPF_JMP | BPF_JSET | BPF_K, words[0].refused, 0, 1);
    Refuse(code);
    Add(code, BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return code;
  }
  const std::size_t middle = words.size() / 2;
  const Code below = Search(words.first(middle));
  const Code above = Search(words.subspan(middle));
  Add(code, BPF_JMP | BPF_JGE | BPF_K, words[middle].number, below.size(), 0);
  code.insert(code.end(), below.begin(), below.end());
  code.insert(code.end(), above.begin(), above.end());
  return code;
}

bool Install(std::vector<std::uint32_t> calls) {
  Code code;
  Add(code, BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  Add(code, BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
  Refuse(code);
  Add(code, BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  Add(code, BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1);
  Refuse(code);
  Add(code, BPF_ALU | BPF_AND | BPF_K, 31);
  Add(code, BPF_MISC | BPF_TAX, 0);
  Add(code, BPF_LD | BPF_IMM, 1);
  Add(code, BPF_ALU | BPF_LSH | BPF_X, 0);
  Add(code, BPF_ST, kBit);
  Add(code, BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  Add(code, BPF_ALU | BPF_RSH | BPF_K, 5);
  const Code search = Search(InWords(std::move(calls)));
  code.insert(code.end(), search.begin(), search.end());
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace

base::Status ForbidCalls(Task task) {
  std::vector<std::uint32_t> calls(std::begin(kNever), std::end(kNever));
  if (task != Task::kModes) calls.insert(calls.end(), std::begin(kModes), std::end(kModes));
  if (task != Task::kMounts) calls.insert(calls.end(), std::begin(kMounts), std::end(kMounts));
  if (Install(std::move(calls)) || errno == EINVAL || errno == ENOSYS) return {};
  return base::Fail(base::FromErrno(errno, "forbid the hook calls that it has no use for"));
}

}  // namespace pitcrew::shim
