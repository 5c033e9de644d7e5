#include "node/mps_folder/service_watch.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "host/root.h"

namespace pitcrew::node::mps_folder {
namespace {

bool AddTo(const base::FileDescriptor& events, int fd, std::uint32_t what) {
  epoll_event event{.events = what, .data = {.fd = fd}};
  return ::epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

base::Result<ServiceWatch> ServiceWatch::Create(MpsFolder folder) {
  TRY_ASSIGN(auto files, io::FileWatcher::Create());
  base::FileDescriptor events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events.valid() || !AddTo(events, files.fd(), EPOLLIN)) {
    return base::Fail(base::FromErrno(errno, "watch the MPS folder"));
  }
  return ServiceWatch(std::move(folder), std::move(files), std::move(events));
}

void ServiceWatch::Follow(std::set<std::string> resources) {
  resources_ = std::move(resources);
  Look();
}

bool ServiceWatch::Take() {
  if (const auto changes = files_.Take(); !changes) {
    base::LogWarning("changes of the MPS folder are unknown: looking at all of it",
                     changes.error());
  }
  return Look();
}

void ServiceWatch::WatchFolders() {
  std::set<std::filesystem::path> folders = {folder_.path()};
  for (const auto& resource : resources_) {
    const auto own = folder_.ResourceFolder(resource);
    folders.insert(own.parent_path());
    folders.insert(own);
  }
  for (const auto& folder : folders) {
    const auto watched = files_.Watch(folder);
    if (!watched && watched.error().code != base::Code::kNotFound) {
      base::LogWarning("a folder cannot be watched", watched.error());
    }
  }
}

bool ServiceWatch::IsDaemonAlive() {
  // Opened anew each time: another daemon may have made another one under this name.
  life_sign_.Close();
  life_sign_ = base::FileDescriptor(
      ::open(folder_.LifeSignFile().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!life_sign_.valid()) {
    if (errno == ENOENT) return true;
    base::LogWarning("whether the MPS control daemon lives is unknown: its files count",
                     base::FromErrno(errno, "open " + folder_.LifeSignFile().string()));
    return true;
  }
  char byte = 0;
  // The end of the file: nobody has it open for writing. When that comes later, it is a hang-up.
  if (::read(life_sign_.get(), &byte, 1) == 0 || !AddTo(events_, life_sign_.get(), 0)) {
    life_sign_.Close();
    return false;
  }
  return true;
}

bool ServiceWatch::Look() {
  // Watched before it is looked at: nothing that happens in between is missed.
  WatchFolders();
  std::set<std::string> served;
  if (IsDaemonAlive()) {
    for (const auto& resource : resources_) {
      // What cannot be read stays as it was.
      if (host::Exists(folder_.StartedFile(resource)).value_or(Serves(resource))) {
        served.insert(resource);
      }
    }
  }
  const bool changed = served != served_;
  served_ = std::move(served);
  return changed;
}

}  // namespace pitcrew::node::mps_folder
