// Waiting for changes of files and folders by inotify, never by polling.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::io {

struct FileChange {
  enum class Kind { kAppeared, kChanged, kRemoved };
  Kind kind = Kind::kChanged;
  // Folder as given to Watch, and the name of the entry in it.
  std::filesystem::path folder;
  std::string name;
  [[nodiscard]] std::filesystem::path path() const { return folder / name; }
};

// Watches the entries of folders (not of folders below them). Not for several threads at once.
class FileWatcher {
 public:
  static base::Result<FileWatcher> Create();

  // kNotFound when the folder does not exist. Watching one twice is harmless.
  base::Status Watch(const std::filesystem::path& folder);

  // Readable when a change waits; for WaitReadable together with other sources. Borrowed.
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The changes that wait now, in order; empty when there are none. A lost queue (overflow) is told
  // as a kChanged with an empty name for every folder: look at everything again.
  base::Result<std::vector<FileChange>> Take();

 private:
  explicit FileWatcher(base::FileDescriptor fd) : fd_(std::move(fd)) {}
  base::FileDescriptor fd_;
  std::map<int, std::filesystem::path> folders_;
};

// Waits until `done` says so; it is asked at once and after every change in `folders`. Folders that
// do not exist yet are waited for through their nearest existing parent. kTimeout at the deadline,
// kCancelled on stop; an error of `done` ends the wait.
base::Status WaitForFiles(const std::vector<std::filesystem::path>& folders,
                          const std::function<base::Result<bool>()>& done, const StopToken& stop,
                          base::Deadline deadline = {});

}  // namespace pitcrew::io
