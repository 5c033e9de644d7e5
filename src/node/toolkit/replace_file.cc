#include "node/toolkit/replace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/log.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPermissions = 07777;
constexpr mode_t kPrivate = 0600;

fs::path FolderOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path Leftover(const fs::path& path) {
  return FolderOf(path) / ("." + path.filename().string() + ".new");
}

// Of a content that is not whole yet.
fs::path Part(const fs::path& path) {
  return FolderOf(path) / ("." + path.filename().string() + ".part");
}

base::Status Failed(int error_number, const char* what, const fs::path& path) {
  return base::Fail(base::FromErrno(error_number, fmt::format("{} {}", what, path.string())));
}

base::Status Changed(const fs::path& path) {
  return base::Fail(base::Error{
      base::Code::kConflict, "FileChanged",
      fmt::format("{} was changed by somebody else in the same moment", path.string())});
}

bool Has(const fs::path& path, const std::optional<std::string>& content) {
  const auto text = base::ReadFile(path);
  if (!text) return !content && text.error().code == base::Code::kNotFound;
  return content && *text == *content;
}

base::Status WriteAll(int file, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t count = ::write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(errno, "write", path);
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

// A file without a name; with that of a part where the file system has none of that kind.
base::Result<base::FileDescriptor> OpenUnnamed(const fs::path& path, bool& is_named) {
  is_named = false;
  base::FileDescriptor file(
      ::open(FolderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kPrivate));
  if (file.valid()) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
    return base::Fail(base::FromErrno(errno, "write " + path.string()));
  }
  is_named = true;
  file = base::FileDescriptor(
      ::open(Part(path).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, kPrivate));
  if (file.valid()) return file;
  return base::Fail(base::FromErrno(errno, "write " + path.string()));
}

base::Status Fill(int file, const FileState& wanted, const fs::path& path) {
  TRY(WriteAll(file, *wanted.content, path));
  struct stat status{};
  if (::fstat(file, &status) != 0) return Failed(errno, "look at", path);
  // Changing the owner takes set-user-ID bits away, so the mode comes last.
  if ((status.st_uid != wanted.owner || status.st_gid != wanted.group) &&
      ::fchown(file, wanted.owner, wanted.group) != 0) {
    return Failed(errno, "give its owner to", path);
  }
  if (::fchmod(file, wanted.mode) != 0) return Failed(errno, "give its mode to", path);
  if (::fsync(file) != 0 && errno != EINVAL) return Failed(errno, "sync", path);
  return {};
}

int Rename(const fs::path& from, const fs::path& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

// The two change places, so that what was there can be looked at before it goes.
base::Status Exchange(const fs::path& path, const std::optional<std::string>& expected) {
  const auto fresh = Leftover(path);
  const int problem = Rename(fresh, path, RENAME_EXCHANGE);
  if (problem == ENOENT) return Changed(path);
  if (problem == EINVAL || problem == ENOSYS || problem == EOPNOTSUPP) {  // the file system cannot
    if (!Has(path, expected)) return Changed(path);
    const int plain = Rename(fresh, path, 0);
    return plain == 0 ? base::Status() : Failed(plain, "replace", path);
  }
  if (problem != 0) return Failed(problem, "replace", path);
  if (!Has(fresh, expected)) {
    const int back = Rename(fresh, path, RENAME_EXCHANGE);
    return back == 0 ? Changed(path) : Failed(back, "put back", path);
  }
  return {};
}

base::Status Take(const fs::path& path, const std::optional<std::string>& expected) {
  if (!expected) return Has(path, expected) ? base::Status() : Changed(path);
  const auto taken = Leftover(path);
  const int problem = Rename(path, taken, 0);
  if (problem == ENOENT) return Changed(path);
  if (problem != 0) return Failed(problem, "remove", path);
  if (!Has(taken, expected)) {
    const int back = Rename(taken, path, RENAME_NOREPLACE);
    return back == 0 ? Changed(path) : Failed(back, "put back", path);
  }
  return {};
}

base::Status GiveName(int file, bool is_named, const fs::path& path,
                      const std::optional<std::string>& expected) {
  const auto self = is_named ? Part(path).string() : fmt::format("/proc/self/fd/{}", file);
  const auto link = [&](const fs::path& name) {
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0
                                                                                            : errno;
  };
  if (!expected) {
    const int problem = link(path);
    if (problem == EEXIST) return Changed(path);
    return problem == 0 ? base::Status() : Failed(problem, "make", path);
  }
  const auto fresh = Leftover(path);
  if (const int problem = link(fresh); problem != 0) return Failed(problem, "make", fresh);
  return Exchange(path, expected);
}

// nullopt where there is none; an error where it cannot be known.
base::Result<std::optional<std::string>> ContentOf(const fs::path& path) {
  TRY_ASSIGN(auto state, ReadFileState(path));
  return std::move(state.content);
}

// Under a name that nobody has.
void SetAside(const fs::path& path) {
  constexpr int kMostNames = 100;
  const auto leftover = Leftover(path);
  const auto name = FolderOf(path) / ("." + path.filename().string() + ".kept");
  int problem = EEXIST;
  fs::path kept;
  for (int i = 0; i < kMostNames && problem == EEXIST; ++i) {
    kept = i == 0 ? name : fs::path(fmt::format("{}.{}", name.string(), i));
    problem = ::link(leftover.c_str(), kept.c_str()) == 0 ? 0 : errno;
  }
  if (problem == 0) ::unlink(leftover.c_str());
  base::LogWarning(
      "Somebody wrote a file while it was being replaced, and something else stands in "
      "its place now: look which one is right",
      {{"file", path.string()}, {"kept", problem == 0 ? kept.string() : leftover.string()}});
}

}  // namespace

base::Result<FileState> ReadFileState(const fs::path& path) {
  FileState state;
  auto text = base::ReadFile(path);
  if (!text && text.error().code == base::Code::kNotFound) return state;
  if (!text) return base::Fail(text.error());
  state.content = *std::move(text);
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return base::Fail(base::FromErrno(errno, "look at " + path.string()));
  }
  state.mode = status.st_mode & kPermissions;
  state.owner = status.st_uid;
  state.group = status.st_gid;
  return state;
}

base::Status ReplaceFile(const fs::path& path, const FileState& wanted,
                         const std::optional<std::string>& expected) {
  using Content = std::optional<std::string>;
  const KnownContents known = {
      [&](const Content& content) { return content == wanted.content || content == expected; },
      [&](const Content& content) { return content == wanted.content; }};
  Tidy(path, known);
  base::Status done;
  if (!wanted.content) {
    done = Take(path, expected);
  } else {
    std::error_code problem;
    fs::create_directories(FolderOf(path), problem);
    if (problem) return Failed(problem.value(), "make the folder of", path);
    bool is_named = false;
    TRY_ASSIGN(const auto file, OpenUnnamed(path, is_named));
    done = Fill(file.get(), wanted, path);
    if (done) done = GiveName(file.get(), is_named, path, expected);
  }
  // Also after a failure, and after a change back: whatever was there in that moment stands here.
  Tidy(path, known);
  return done;
}

void Tidy(const fs::path& path, const KnownContents& known) {
  if (path.empty()) return;
  ::unlink(Part(path).c_str());
  const auto leftover = Leftover(path);
  auto left = ContentOf(leftover);
  if (left && !*left) return;
  const auto now = ContentOf(path);
  if (left && !known.may_go(*left) && now) {
    if (!*now) {
      if (::link(leftover.c_str(), path.c_str()) == 0) ::unlink(leftover.c_str());
    } else if (known.is_ours(*now)) {
      (void)Rename(leftover, path, RENAME_EXCHANGE);
    }
    left = ContentOf(leftover);
    if (left && !*left) return;
  }
  if (left && known.may_go(*left)) {
    ::unlink(leftover.c_str());
  } else {
    SetAside(path);
  }
}

void RemoveLeftover(const fs::path& path) {
  if (path.empty()) return;
  ::unlink(Part(path).c_str());
  ::unlink(Leftover(path).c_str());
}

}  // namespace pitcrew::node::toolkit
