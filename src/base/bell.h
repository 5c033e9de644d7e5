// A wake-up between threads that fits into poll(2) beside sockets, files and other bells.
#pragma once

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::base {

// Rung by any thread, any number of times; a waiter hears the rings since the last Silence as one.
// A bell that stays rung is a latch. Thread-safe but for moving it.
class Bell {
 public:
  // Fails when the process or the machine has no file descriptor left.
  static Result<Bell> Create();

  void Ring() const;
  void Silence() const;
  // Readable (poll POLLIN) from a ring until Silence. Borrowed.
  [[nodiscard]] int fd() const { return event_.get(); }

 private:
  explicit Bell(FileDescriptor event) : event_(std::move(event)) {}
  FileDescriptor event_;
};

}  // namespace pitcrew::base
