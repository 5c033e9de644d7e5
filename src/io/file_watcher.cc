#include "io/file_watcher.h"

#include <sys/inotify.h>

#include <array>
#include <cerrno>

namespace pitcrew::io {
namespace {

constexpr std::uint32_t kMask = IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB | IN_MODIFY |
                                IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF;

FileChange::Kind KindOf(std::uint32_t mask) {
  if ((mask & (IN_CREATE | IN_MOVED_TO)) != 0) return FileChange::Kind::kAppeared;
  if ((mask & (IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0) {
    return FileChange::Kind::kRemoved;
  }
  return FileChange::Kind::kChanged;
}

// The folder itself when it exists, else its nearest parent that does.
std::filesystem::path NearestExisting(std::filesystem::path folder) {
  std::error_code problem;
  while (!std::filesystem::is_directory(folder, problem) && folder.has_parent_path() &&
         folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

// Until the watched folder is the nearest one that exists: what was made between the look and the
// watch tells nobody any more. Nothing is watched where no part of the path exists.
base::Status WatchNearestExisting(FileWatcher& watcher, const std::filesystem::path& folder) {
  for (;;) {
    const auto existing = NearestExisting(folder);
    const auto watched = watcher.Watch(existing);
    if (!watched && watched.error().code != base::Code::kNotFound) return watched;
    std::error_code problem;
    const bool there = watched || !std::filesystem::is_directory(existing, problem);
    if (there && NearestExisting(folder) == existing) return {};
  }
}

}  // namespace

base::Result<FileWatcher> FileWatcher::Create() {
  base::FileDescriptor fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd.valid()) return base::Fail(base::FromErrno(errno, "make an inotify instance"));
  return FileWatcher(std::move(fd));
}

base::Status FileWatcher::Watch(const std::filesystem::path& folder) {
  const int watch = ::inotify_add_watch(fd_.get(), folder.c_str(), kMask | IN_ONLYDIR);
  if (watch < 0) return base::Fail(base::FromErrno(errno, "watch " + folder.string()));
  folders_[watch] = folder;
  return {};
}

base::Result<std::vector<FileChange>> FileWatcher::Take() {
  std::vector<FileChange> changes;
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return changes;
    if (size < 0) return base::Fail(base::FromErrno(errno, "read inotify events"));
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += sizeof(inotify_event) + event->len;
      if ((event->mask & IN_Q_OVERFLOW) != 0) {
        for (const auto& [watch, folder] : folders_) {
          changes.push_back({FileChange::Kind::kChanged, folder, ""});
        }
        continue;
      }
      const auto folder = folders_.find(event->wd);
      if (folder == folders_.end()) continue;
      changes.push_back({KindOf(event->mask), folder->second, event->len > 0 ? event->name : ""});
      if ((event->mask & IN_IGNORED) != 0) folders_.erase(folder);
    }
  }
}

base::Status WaitForFiles(const std::vector<std::filesystem::path>& folders,
                          const std::function<base::Result<bool>()>& done, const StopToken& stop,
                          base::Deadline deadline) {
  for (;;) {
    // Watches come before the question, so a change between the two is not missed. A fresh watcher
    // each round follows folders as they come and go.
    TRY_ASSIGN(auto watcher, FileWatcher::Create());
    for (const auto& folder : folders) TRY(WatchNearestExisting(watcher, folder));
    TRY_ASSIGN(const bool is_done, done());
    if (is_done) return {};
    TRY(WaitReadable({watcher.fd()}, stop, deadline));
  }
}

}  // namespace pitcrew::io
