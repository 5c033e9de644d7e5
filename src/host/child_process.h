// A child of this process whose end is an event. Private to this room's program runner.
#pragma once

#include <sys/types.h>

#include <thread>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::host {

// How the end is noticed. A pidfd needs Linux 5.3 and a seccomp filter that knows it; without one a
// thread waits for the child.
enum class EndWatch { kPidfd, kThread };

// Owns one child, the leader of a process group of its own. Kills the group and reaps the child
// when dropped before its end.
class ChildProcess {
 public:
  static base::Result<ChildProcess> Watch(pid_t pid, EndWatch how = EndWatch::kPidfd);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // Readable once the child has ended. Borrowed.
  [[nodiscard]] int fd() const { return end_.get(); }
  // Waits for the end, and takes its status: 128 + the signal when a signal ended it.
  int Reap();

 private:
  ChildProcess(pid_t pid, base::FileDescriptor end, std::thread waiter)
      : pid_(pid), end_(std::move(end)), waiter_(std::move(waiter)) {}

  pid_t pid_;  // -1: reaped
  base::FileDescriptor end_;
  std::thread waiter_;
};

}  // namespace pitcrew::host
