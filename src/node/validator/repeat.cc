#include <optional>

#include "base/log.h"
#include "host/mounts.h"
#include "io/file_watcher.h"
#include "node/validator/components.h"

namespace pitcrew::node::validator {
namespace {

bool IsFinal(const base::Error& error) {
  return error.code == base::Code::kInvalid || error.code == base::Code::kCancelled;
}

}  // namespace

base::Status Repeat(const Options& options, const std::vector<std::filesystem::path>& folders,
                    const io::StopToken& stop, const std::function<base::Status()>& attempt) {
  if (!options.with_wait) return attempt();
  TRY_ASSIGN(auto files, io::FileWatcher::Create());
  auto mounts = host::MountWatcher::Create();
  std::optional<base::Error> told;
  while (true) {
    for (const auto& folder : folders) {
      // One that is not there yet comes with a mount or is looked for at the next try.
      [[maybe_unused]] const auto watched = files.Watch(folder);
    }
    if (mounts) mounts->Take();
    const base::Status done = attempt();
    if (done || IsFinal(done.error())) return done;
    if (told != done.error()) {
      base::LogInfo("Waiting", {{"reason", done.error().reason}, {"for", done.error().message}});
      told = done.error();
    }
    const auto woken = io::WaitReadable({files.fd(), mounts ? mounts->fd() : -1}, stop,
                                        std::chrono::steady_clock::now() + options.retry_interval);
    if (!woken && woken.error().code != base::Code::kTimeout) return base::Fail(woken.error());
    TRY_ASSIGN(const auto changes, files.Take());
  }
}

}  // namespace pitcrew::node::validator
