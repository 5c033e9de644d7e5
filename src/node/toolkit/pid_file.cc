#include "node/toolkit/pid_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::node::toolkit {

namespace {

// Whether `file` still has its name: whoever held the lock before may have removed it, and another
// process may have made and locked a new one since.
bool IsAt(int file, const std::filesystem::path& path) {
  struct stat ours{};
  struct stat named{};
  return ::fstat(file, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

}  // namespace

base::Result<PidFile> PidFile::Lock(const std::filesystem::path& path) {
  std::error_code problem;
  std::filesystem::create_directories(path.parent_path(), problem);
  if (problem) {
    return base::Fail(
        base::FromErrno(problem.value(), "make folder " + path.parent_path().string()));
  }
  base::FileDescriptor file;
  do {
    file = base::FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file.valid()) return base::Fail(base::FromErrno(errno, "open " + path.string()));
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return base::Fail(base::FromErrno(errno, "lock " + path.string()));
      const auto holder = base::ReadFile(path);
      return base::Fail(base::Unavailable(
          "AlreadyRunning", fmt::format("another toolkit (pid {}) holds {}",
                                        holder ? base::Trim(*holder) : "unknown", path.string())));
    }
  } while (!IsAt(file.get(), path));
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) != 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return base::Fail(base::FromErrno(errno, "write " + path.string()));
  }
  return PidFile(path, std::move(file));
}

PidFile::~PidFile() {
  if (file_.valid()) ::unlink(path_.c_str());
}

}  // namespace pitcrew::node::toolkit
