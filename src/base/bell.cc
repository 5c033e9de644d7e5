#include "base/bell.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace pitcrew::base {
namespace {

// Only a descriptor that somebody else has closed gets here. A wake-up that is lost in silence is a
// thread that hangs for ever: better the process ends, and says why.
[[noreturn]] void Broken(const char* what) {
  std::perror(what);
  std::abort();
}

}  // namespace

Result<Bell> Bell::Create() {
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return Fail(FromErrno(errno, "make an eventfd"));
  return Bell(std::move(event));
}

void Bell::Ring() const {
  while (::eventfd_write(event_.get(), 1) != 0) {
    // Full: it has been rung, and nobody has listened for 2^64 rings.
    if (errno == EAGAIN) return;
    if (errno != EINTR) Broken("a wake-up between threads is broken: write to an eventfd");
  }
}

void Bell::Silence() const {
  eventfd_t rings = 0;
  while (::eventfd_read(event_.get(), &rings) != 0) {
    if (errno == EAGAIN) return;  // nobody has rung
    if (errno != EINTR) Broken("a wake-up between threads is broken: read from an eventfd");
  }
}

}  // namespace pitcrew::base
