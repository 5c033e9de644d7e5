// The end of a started program as something that can be polled for.
#pragma once

#include <sys/types.h>

#include <thread>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::base {

// What is killed together with a child.
enum class KillScope {
  kChild,
  kGroup,  // the process group that the child leads; the child alone, should it lead none
};

// A child process that is killed and reaped if nobody has waited for it. A thread of its own waits
// for the end: pidfd_open(2) needs Linux 5.3, and the seccomp profiles of older container runtimes
// forbid it. For one thread at a time.
class ChildProcess {
 public:
  // Takes the child over. When this fails, the child has been killed and reaped.
  static Result<ChildProcess> Watch(pid_t pid, KillScope scope = KillScope::kChild);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  // Readable once the program has ended. Borrowed.
  [[nodiscard]] int fd() const { return ended_.get(); }
  void Kill() const;
  // Waits for the end; the status as waitpid(2) gives it. Once only.
  int Reap();

 private:
  ChildProcess(pid_t pid, KillScope scope, FileDescriptor ended, std::thread waiter)
      : pid_(pid), scope_(scope), ended_(std::move(ended)), waiter_(std::move(waiter)) {}

  pid_t pid_;  // 0: reaped, or moved from
  KillScope scope_;
  FileDescriptor ended_;
  std::thread waiter_;
};

// A status of waitpid(2) as a shell shows it: 128 + the signal when a signal ended the program.
int ShellStatus(int wait_status);

}  // namespace pitcrew::base
