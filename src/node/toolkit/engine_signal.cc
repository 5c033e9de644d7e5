#include "node/toolkit/engine_signal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"

namespace pitcrew::node::toolkit {
namespace {

// One process's status line "SigIgn:" has a hexadecimal mask of ignored signals.
bool IgnoresHangup(pid_t pid) {
  const auto status = base::ReadFile(fmt::format("/proc/{}/status", pid));
  if (!status) return false;
  const auto at = status->find("SigIgn:");
  if (at == std::string::npos) return false;
  const auto mask = std::strtoull(status->c_str() + at + 7, nullptr, 16);
  return (mask & (1ULL << (SIGHUP - 1))) != 0;
}

// By the file that it executes or by its own name: either may be another one (a program with
// several names, a wrapper that replaces itself).
base::Status CheckProgram(EngineKind kind, pid_t pid) {
  const auto name = ToString(kind);
  std::error_code problem;
  const auto file = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), problem);
  const auto text = base::ReadFile(fmt::format("/proc/{}/comm", pid)).value_or(std::string());
  const auto comm = base::Trim(text);
  if (file.filename().string().starts_with(name) || comm.starts_with(name)) return {};
  return base::Fail(base::Error{
      base::Code::kUnsupported, "NotTheEngine",
      fmt::format("behind the socket of {} is pid {}, which is {} ({}): it gets no SIGHUP; set "
                  "RUNTIME_RESTART_MODE to systemd, or none and restart {} yourself",
                  name, pid, comm.empty() ? "unknown" : comm,
                  problem ? "its program cannot be read" : file.string(), name)});
}

}  // namespace

base::Result<base::FileDescriptor> OpenProcess(pid_t pid) {
  base::FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (handle.valid() || errno == ENOSYS || errno == EPERM) return handle;
  return base::Fail(base::FromErrno(errno == ESRCH ? ECONNREFUSED : errno,
                                    fmt::format("look at the container engine, pid {}", pid)));
}

base::Status HangUp(EngineKind kind, pid_t pid, const base::FileDescriptor& handle) {
  TRY(CheckProgram(kind, pid));
  if (IgnoresHangup(pid)) {
    return base::Fail(base::Error{
        base::Code::kUnsupported, "RestartSignalIgnored",
        fmt::format(
            "{} (pid {}) ignores SIGHUP; set RUNTIME_RESTART_MODE to systemd, or none and restart "
            "it yourself",
            ToString(kind), pid)});
  }
  base::LogInfo("Restarting the container engine",
                {{"engine", ToString(kind)}, {"pid", pid}, {"signal", "SIGHUP"}});
  const long sent = handle.valid()
                        ? ::syscall(SYS_pidfd_send_signal, handle.get(), SIGHUP, nullptr, 0)
                        : ::kill(pid, SIGHUP);
  if (sent == 0) return {};
  return base::Fail(base::FromErrno(errno, fmt::format("send SIGHUP to pid {}", pid)));
}

}  // namespace pitcrew::node::toolkit
