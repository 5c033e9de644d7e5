// The bus between programs and registers of simulated devices. A program that maps a device's
// `resource0` finds no memory behind it: each access ends in a fault, which is taken from the
// program (as a debugger would), carried out on the device, and the program goes on behind it.
// x86-64 Linux only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace pitcrew::simulation::sysfs {

class RegisterBus {
 public:
  // 32 bits at a byte offset of the device's region; called by several threads. False: there is no
  // such device any more.
  struct Devices {
    std::function<bool(std::string_view address, std::size_t offset, std::uint32_t& value)> read;
    std::function<bool(std::string_view address, std::size_t offset, std::uint32_t value)> write;
  };

  explicit RegisterBus(Devices devices);
  // Accesses of programs that still have a region are bus errors from then on.
  ~RegisterBus();
  RegisterBus(const RegisterBus&) = delete;
  RegisterBus& operator=(const RegisterBus&) = delete;

  // The accesses of this thread of another process are carried out from now on, until it ends: the
  // thread that opens a region is the one that uses it. 0, or why not as an errno.
  int Follow(pid_t thread);

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace pitcrew::simulation::sysfs
