// Which shared resources have an MPS server now, as events.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "io/file_watcher.h"
#include "node/mps_folder/mps_folder.h"

namespace pitcrew::node::mps_folder {

// A resource is served while its `.started` file is there and the daemon that wrote it lives. A
// daemon without a sign of life (upstream's) is taken to live. Not for several threads at once.
class ServiceWatch {
 public:
  static base::Result<ServiceWatch> Create(MpsFolder folder);

  // From now on only these count; looks at them.
  void Follow(std::set<std::string> resources);

  // Readable when something may have changed. Borrowed.
  [[nodiscard]] int fd() const { return events_.get(); }
  // Looks again, after fd() became readable. True when a resource has got or lost its server.
  bool Take();

  [[nodiscard]] bool Serves(const std::string& resource) const {
    return served_.contains(resource);
  }

 private:
  ServiceWatch(MpsFolder folder, io::FileWatcher files, base::FileDescriptor events)
      : folder_(std::move(folder)), files_(std::move(files)), events_(std::move(events)) {}
  // The folders of the resources come and go with the daemon.
  void WatchFolders();
  bool IsDaemonAlive();
  bool Look();

  MpsFolder folder_;
  io::FileWatcher files_;
  base::FileDescriptor events_;  // of files_ and life_sign_
  base::FileDescriptor life_sign_;
  std::set<std::string> resources_;
  std::set<std::string> served_;
};

}  // namespace pitcrew::node::mps_folder
