#include "node/mps/log_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/file_descriptor.h"

namespace pitcrew::node::mps {

void LogFollower::Copy() {
  const base::FileDescriptor file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat now{};
  if (!file.valid() || ::fstat(file.get(), &now) != 0) return;
  // Cut off, or another file: all of it is new.
  if (now.st_size < copied_) copied_ = 0;
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t count = ::pread(file.get(), buffer.data(), buffer.size(), copied_);
    if (count <= 0) return;
    copied_ += count;
    [[maybe_unused]] const auto written =
        ::write(STDOUT_FILENO, buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace pitcrew::node::mps
