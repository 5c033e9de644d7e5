// The mount table of this process as a source of events, mounting and detaching.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace pitcrew::host {

// Tells when something is mounted or unmounted where this process sees it.
class MountWatcher {
 public:
  static base::Result<MountWatcher> Create();
  // Readable after a change. Borrowed.
  [[nodiscard]] int fd() const { return events_.get(); }
  // Takes note of the changes so far, so that only later ones make fd() readable.
  void Take();

 private:
  MountWatcher(base::FileDescriptor table, base::FileDescriptor events)
      : table_(std::move(table)), events_(std::move(events)) {}
  base::FileDescriptor table_;
  base::FileDescriptor events_;
};

// Mount points in the text of /proc/self/mountinfo that are `folder` or lie below it, deepest
// first.
std::vector<std::filesystem::path> MountPointsBelow(std::string_view mountinfo,
                                                    const std::filesystem::path& folder);

// Detaches everything that is mounted at `folder` and below it (MNT_DETACH). Nothing mounted there
// is success.
base::Status DetachMounts(const std::filesystem::path& folder);

// Shows the own root, with all that is mounted in it, at `folder` too, which is made if need be;
// what was mounted there before is detached. What is mounted below /sys (cgroups and the like)
// stays out (driver-lifecycle.md 9.8).
base::Status ShowOwnRootAt(const std::filesystem::path& folder);

// Mounts a tmpfs at a folder that exists, writable, without set-user-ID bits, devices and programs.
// `source` is the name that mount tables show, `options` are tmpfs' own ("size=64m").
base::Status MountTmpfs(const std::filesystem::path& folder, const std::string& source,
                        const std::string& options);

}  // namespace pitcrew::host
