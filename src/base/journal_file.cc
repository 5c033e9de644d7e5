#include "base/journal_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <system_error>

#include "base/file.h"

namespace pitcrew::base {

Result<std::optional<std::string>> JournalFile::ReadText() const {
  auto text = ReadFile(file_);
  if (!text && text.error().code == Code::kNotFound) return std::nullopt;
  if (!text) return Fail(text.error());
  return *std::move(text);
}

Status JournalFile::WriteText(std::string_view text) const {
  const auto written = WriteFileAtomically(file_, text, 0600);
  if (written) return {};
  return Fail(written.error().Within("nothing was changed, because the journal cannot be written"));
}

Status JournalFile::Remove() const {
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (!error) return {};
  return Fail(FromErrno(error.value(), "remove " + file_.string()));
}

Result<bool> JournalFile::Exists() const {
  std::error_code error;
  const bool there = std::filesystem::exists(file_, error);
  if (!error) return there;
  return Fail(FromErrno(error.value(), "look for " + file_.string()));
}

Result<FileDescriptor> JournalFile::Lock() const {
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  if (error) {
    return Fail(FromErrno(error.value(), "make " + file_.parent_path().string()));
  }
  const std::string path = file_.string() + ".lock";
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return Fail(FromErrno(errno, "open " + path));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return Fail(FromErrno(errno, "lock " + path));
  return Fail(
      Error{Code::kConflict, "ChangeInProgress",
            fmt::format("another process is changing this node's {} ({} is locked); wait for it",
                        what_, path)});
}

}  // namespace pitcrew::base
