#include "node/mig/journal_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <system_error>

#include "base/file.h"

namespace pitcrew::node::mig {

base::Result<std::optional<std::string>> JournalFile::ReadText() const {
  auto text = base::ReadFile(file_);
  if (!text && text.error().code == base::Code::kNotFound) return std::nullopt;
  if (!text) return base::Fail(text.error());
  return *std::move(text);
}

base::Status JournalFile::WriteText(std::string_view text) const {
  const auto written = base::WriteFileAtomically(file_, text, 0600);
  if (written) return {};
  return base::Fail(
      written.error().Within("nothing was changed, because the journal cannot be written"));
}

base::Status JournalFile::Remove() const {
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (!error) return {};
  return base::Fail(base::FromErrno(error.value(), "remove " + file_.string()));
}

base::Result<bool> JournalFile::Exists() const {
  std::error_code error;
  const bool there = std::filesystem::exists(file_, error);
  if (!error) return there;
  return base::Fail(base::FromErrno(error.value(), "look for " + file_.string()));
}

base::Result<base::FileDescriptor> JournalFile::Lock() const {
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  if (error) {
    return base::Fail(base::FromErrno(error.value(), "make " + file_.parent_path().string()));
  }
  const std::string path = file_.string() + ".lock";
  base::FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return base::Fail(base::FromErrno(errno, "open " + path));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return base::Fail(base::FromErrno(errno, "lock " + path));
  return base::Fail(base::Error{
      base::Code::kConflict, "ChangeInProgress",
      fmt::format("another process is changing this node's {} ({} is locked); wait for it", what_,
                  path)});
}

}  // namespace pitcrew::node::mig
