#include "node/mps_folder/mps_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "host/root.h"

namespace pitcrew::node::mps_folder {
namespace {

namespace fs = std::filesystem;

base::Status Remove(const fs::path& file) {
  std::error_code problem;
  fs::remove(file, problem);
  if (!problem || problem == std::errc::not_a_directory) return {};
  return base::Fail(base::FromErrno(problem.value(), fmt::format("remove {}", file.string())));
}

// Resources are "<domain>/<name>".
base::Status RemoveLeftFiles(const MpsFolder& folder) {
  TRY(Remove(folder.ReadyFile()));
  TRY_ASSIGN(const auto domains, host::ListFolder(folder.path()));
  for (const auto& domain : domains) {
    // The tmpfs may be large, and files are no domains.
    const auto path = folder.path() / domain;
    if (path == folder.ShmFolder() || !host::IsDirectory(path).value_or(false)) continue;
    TRY_ASSIGN(const auto names, host::ListFolder(path));
    for (const auto& name : names) TRY(Remove(folder.StartedFile(domain + "/" + name)));
  }
  return {};
}

}  // namespace

base::Result<LifeSign> LifeSign::Give(const MpsFolder& folder) {
  const auto path = folder.LifeSignFile();
  const auto failed = [&](std::string_view what) {
    return base::Fail(base::FromErrno(errno, fmt::format("{} {}", what, path.string())));
  };
  std::error_code problem;
  fs::create_directories(folder.path(), problem);
  if (problem) {
    return base::Fail(
        base::FromErrno(problem.value(), fmt::format("make folder {}", folder.path().string())));
  }
  if (::mkfifo(path.c_str(), 0644) != 0 && errno != EEXIST) return failed("make FIFO");
  constexpr int kFlags = O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW;
  base::FileDescriptor lock(::open(path.c_str(), O_RDONLY | kFlags));
  if (!lock.valid()) return failed("open");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed("lock");
    return base::Fail(base::Unavailable(
        "AlreadyRunning",
        fmt::format("another MPS control daemon of this node holds {}", path.string())));
  }
  // Before this one is seen to live, so that nobody takes those files for its own.
  TRY(RemoveLeftFiles(folder));
  base::FileDescriptor fifo(::open(path.c_str(), O_WRONLY | kFlags));
  if (!fifo.valid()) return failed("open");
  return LifeSign(std::move(lock), std::move(fifo));
}

}  // namespace pitcrew::node::mps_folder
