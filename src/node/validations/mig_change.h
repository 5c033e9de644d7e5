// How the MIG manager and the components that read GPUs tell each other of a change of the MIG
// geometry, in the node's folder of validations. Upstream restarts these components for every
// change (mig-manager.md 9.4, steps 7 to 17); those that follow by themselves need no restart.
//
// The file "mig-change" has the UUIDs of the GPUs that are being divided anew, a line each; it is
// written before a change, and again, empty, when the new geometry stands. A component that follows
// holds a lock on a file of its own in "mig-followers" for as long as it runs: the kernel drops the
// lock with its holder, so a component that is gone is never believed to follow.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "node/validations/status_folder.h"

namespace pitcrew::node::validations {

inline constexpr const char* kMigChange = "mig-change";
inline constexpr const char* kMigFollowers = "mig-followers";

using GpuUuids = std::set<std::string, std::less<>>;

// The MIG manager's side. Empty: nothing is being changed (any more), read the geometry anew.
base::Status AnnounceMigChange(const StatusFolder& folder, const GpuUuids& changing);
// Whether a running process follows in the name of `app`, the label "app" of its pods.
base::Result<bool> IsMigFollowed(const StatusFolder& folder, std::string_view app);

// The GPUs that are being divided anew; empty when nothing was ever announced.
base::Result<GpuUuids> ReadMigChange(const StatusFolder& folder);

// A component that follows, until this object ends. Watch the folder (io::FileWatcher) before
// making one, so that no announcement falls in between.
class MigFollower {
 public:
  // kNotFound without a folder of validations.
  static base::Result<MigFollower> Register(StatusFolder folder, std::string_view app);

  // Looks at the announcement. An unreadable one leaves what was known before.
  base::Status Refresh();
  // Of the last Refresh. While a GPU is being changed it must not be given to anybody, and what
  // NVML says of it is no geometry to tell others.
  [[nodiscard]] const GpuUuids& changing() const { return changing_; }

 private:
  MigFollower(StatusFolder folder, base::FileDescriptor lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  StatusFolder folder_;
  base::FileDescriptor lock_;
  GpuUuids changing_;
};

}  // namespace pitcrew::node::validations
