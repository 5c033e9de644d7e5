// Cooperative stopping: every wait in the house takes a StopToken.
#pragma once

#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::io {

// Copies share one state. A default-made token never stops.
class StopToken {
 public:
  StopToken() = default;

  [[nodiscard]] bool stopped() const;
  // What a wait that ends with the stop returns: kCancelled "Stopped", or why the source could not
  // be made.
  [[nodiscard]] base::Error error() const;
  // Ready (poll POLLIN; look at `revents != 0`) from the moment of the stop; -1 for a token that
  // never stops. Borrowed.
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

// A source for which the process has no file descriptor left is stopped from the beginning: what
// waits for it then ends at once with that error, where it would hang or spin otherwise.
class StopSource {
 public:
  StopSource() : StopSource(StopToken()) {}
  // Stopped also when `parent` is. No thread stands behind the link, and it needs no care:
  // whichever goes away first.
  static StopSource LinkedTo(const StopToken& parent) { return StopSource(parent); }

  [[nodiscard]] StopToken token() const { return token_; }
  // May be called from any thread, any number of times.
  void Stop() const;
  // From now on the named signals stop this source instead of ending the process (a second one of
  // the same kind ends it). Call once, from main, before threads start.
  base::Status StopOnSignals(std::initializer_list<int> signals);

 private:
  explicit StopSource(const StopToken& parent);
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

// Waits until one of `fds` is readable, the token stops or the deadline passes. The index of the
// first readable one; the token's error on stop, kTimeout at the deadline.
base::Result<std::size_t> WaitReadable(std::initializer_list<int> fds, const StopToken& stop,
                                       base::Deadline deadline = {});

}  // namespace pitcrew::io
