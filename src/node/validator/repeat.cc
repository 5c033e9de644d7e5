#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "host/mounts.h"
#include "host/uevent.h"
#include "io/file_watcher.h"
#include "node/validator/components.h"
#include "node/validator/driver_check.h"

namespace pitcrew::node::validator {
namespace {

bool IsFinal(const base::Error& error) {
  return error.code == base::Code::kInvalid || error.code == base::Code::kCancelled ||
         error.reason == kFormerDriverMounted;
}

// What the wait is woken by. A source that cannot be had leaves the retry interval.
class Sources {
 public:
  static base::Result<Sources> Create(const Wakeups& wakeups) {
    TRY_ASSIGN(auto files, io::FileWatcher::Create());
    Sources sources(wakeups, std::move(files));
    if (auto mounts = host::MountWatcher::Create()) sources.mounts_ = *std::move(mounts);
    if (!wakeups.devices) return sources;
    if (auto devices = host::UeventReceiver::Create()) sources.devices_ = *std::move(devices);
    return sources;
  }

  // Before a try, so that nothing that happens during it is missed.
  void Prepare() {
    for (const auto& folder : wakeups_.folders) {
      // One that is not there yet comes with a mount or is looked for at the next try.
      [[maybe_unused]] const auto watched = files_.Watch(folder);
    }
    if (mounts_) mounts_->Take();
  }

  // Until something of interest happens, or the time has come; the error is the stop.
  base::Status Wait(base::Deadline until, const io::StopToken& stop) {
    while (true) {
      const auto woken = io::WaitReadable(
          {files_.fd(), mounts_ ? mounts_->fd() : -1, devices_ ? devices_->fd() : -1}, stop, until);
      if (!woken) {
        return woken.error().code == base::Code::kTimeout ? base::Status()
                                                          : base::Fail(woken.error());
      }
      TRY_ASSIGN(const auto changes, files_.Take());
      if (*woken != 2) return {};
      TRY_ASSIGN(const auto batch, devices_->Take());
      const bool concerned =
          batch.lost || std::ranges::any_of(batch.events, [](const host::Uevent& event) {
            const auto subsystem = event.subsystem();
            return subsystem == "pci" || subsystem == "mdev";
          });
      if (concerned) return {};
    }
  }

 private:
  Sources(const Wakeups& wakeups, io::FileWatcher files)
      : wakeups_(wakeups), files_(std::move(files)) {}

  const Wakeups& wakeups_;
  io::FileWatcher files_;
  std::optional<host::MountWatcher> mounts_;
  std::optional<host::UeventReceiver> devices_;
};

}  // namespace

base::Status Repeat(const Options& options, const Wakeups& wakeups, const io::StopToken& stop,
                    const std::function<base::Status()>& attempt, base::Deadline deadline) {
  if (!options.with_wait) return attempt();
  TRY_ASSIGN(auto sources, Sources::Create(wakeups));
  std::optional<base::Error> told;
  while (true) {
    sources.Prepare();
    const base::Status done = attempt();
    if (done || IsFinal(done.error()) || deadline.passed()) return done;
    if (told != done.error()) {
      base::LogInfo("Waiting", {{"reason", done.error().reason}, {"for", done.error().message}});
      told = done.error();
    }
    TRY(sources.Wait(std::min(deadline, base::Deadline::After(options.retry_interval)), stop));
  }
}

}  // namespace pitcrew::node::validator
