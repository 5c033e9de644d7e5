// Cooperative stopping: every wait in the house takes a StopToken.
#pragma once

#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::io {

// Copies share one state. A default-made token never stops.
class StopToken {
 public:
  StopToken() = default;

  [[nodiscard]] bool stopped() const;
  // Readable (poll POLLIN) from the moment of the stop; -1 for a token that never stops. Borrowed.
  [[nodiscard]] int fd() const;
  // Waits until the stop or for `duration`; true when stopped.
  [[nodiscard]] bool WaitFor(std::chrono::nanoseconds duration) const;
  // Waits for the stop, however long it takes.
  void Wait() const;

 private:
  friend class StopSource;
  struct State;
  std::shared_ptr<State> state_;
};

class StopSource {
 public:
  StopSource();
  [[nodiscard]] StopToken token() const { return token_; }
  // May be called from any thread, any number of times.
  void Stop() const;
  // From now on the named signals stop this source instead of ending the process (a second one of
  // the same kind ends it). Call once, from main, before threads start.
  base::Status StopOnSignals(std::initializer_list<int> signals);

 private:
  StopToken token_;
};

// Signals as events: blocks them for the calling thread and every thread that it starts later.
class SignalReceiver {
 public:
  static base::Result<SignalReceiver> Create(std::initializer_list<int> signals);
  // Readable when a signal waits. Borrowed.
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next signal's number, if one waits.
  [[nodiscard]] std::optional<int> Take() const;

 private:
  explicit SignalReceiver(base::FileDescriptor fd) : fd_(std::move(fd)) {}
  base::FileDescriptor fd_;
};

// Waits until one of `fds` is readable, the token stops or the deadline passes (none: no deadline).
// The index of the first readable one; kCancelled on stop, kTimeout at the deadline.
base::Result<std::size_t> WaitReadable(
    std::initializer_list<int> fds, const StopToken& stop,
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt);

}  // namespace pitcrew::io
