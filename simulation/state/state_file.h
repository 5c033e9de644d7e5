// The state file: one node's simulated GPUs, mapped by every process that uses them.
//
// A change is made in the copy of the state that is not current and published by one store, under
// an flock(2) which the kernel drops with its holder: a process killed at any instruction leaves
// the last published state. Readers take no lock and need no write access. Waiting is a futex on
// the mapping, which also works across mount namespaces because its key is the inode.
//
// The file begins with a valid ELF header, because it is found among the driver's libraries (as
// libnvidia-simulation.so.<version>), where ldconfig reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "simulation/state/layout.h"

namespace pitcrew::simulation {

class StateFile {
 public:
  // Maps an existing file; where it is mounted read-only, a process with CAP_SYS_ADMIN can write
  // all the same. kNotFound when it is missing; kUnsupported "StateLayoutMismatch" when it is of
  // another layout; kInvalid "StateDamaged" when it is no state file.
  static base::Result<std::shared_ptr<StateFile>> Open(const std::filesystem::path& path);
  // Makes the file, or puts `state` into an existing one, where whoever has it mapped sees it.
  static base::Result<std::shared_ptr<StateFile>> Create(const std::filesystem::path& path,
                                                         const NodeState& state);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  [[nodiscard]] bool writable() const { return writable_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // A file that is made anew at the same path is another one.
  [[nodiscard]] std::uint64_t inode() const;

  // The current state; cheap while nothing changes.
  std::shared_ptr<const NodeState> Snapshot();

  // The driver's users: the container that loaded it, and every program that has begun to use its
  // libraries. The kernel forgets one that dies. UseDriver makes this object one of them, and waits
  // while the driver is being taken away; it ends with the object.
  base::Status UseDriver();
  // Takes the driver away from everybody: nobody else uses it until LeaveDriver or the end of this
  // object. False when others use it and `wait` is not set, and where the file cannot be written.
  [[nodiscard]] bool TakeDriver(bool wait);
  void LeaveDriver();

  // Runs `change` on a copy and publishes it when `change` returns true. kDenied "StateReadOnly"
  // when the file cannot be written.
  base::Status Update(const std::function<bool(NodeState&)>& change);

  // Number of changes so far, for Wait.
  [[nodiscard]] std::uint32_t ChangeCount() const;
  // Blocks until ChangeCount() differs from `seen` (true) or until CLOCK_MONOTONIC reaches
  // `deadline_nanoseconds` (false; nullopt = no deadline).
  [[nodiscard]] bool Wait(std::uint32_t seen,
                          std::optional<std::int64_t> deadline_nanoseconds) const;

 private:
  struct Contents;
  StateFile(std::filesystem::path path, base::FileDescriptor fd, bool writable, Contents* contents);
  static base::Result<std::shared_ptr<StateFile>> Map(const std::filesystem::path& path,
                                                      base::FileDescriptor fd, bool writable);

  static base::Status WriteNew(const std::filesystem::path& path, const NodeState& state);

  std::filesystem::path path_;
  base::FileDescriptor fd_;
  bool writable_;
  Contents* contents_;
  std::mutex mutex_;  // over cache_ and, inside this process, over the file's lock
  std::shared_ptr<const NodeState> cache_;
  std::uint64_t cached_generation_ = 0;
};

// Nanoseconds.
std::int64_t RealtimeNow();
std::int64_t MonotonicNow();

}  // namespace pitcrew::simulation
