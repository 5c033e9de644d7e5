#include "node/vfio_manager/command.h"

#include <csignal>

#include "base/log.h"
#include "io/stop.h"
#include "node/vfio_manager/manager.h"
#include "node/vfio_manager/options.h"

namespace pitcrew::node::vfio_manager {

// All failures are 1, wrong usage too: what scripts of upstream's users see (vfio-manager.md 2).
int Command(int argc, char** argv) {
  const auto options = ReadOptions(argc, argv);
  if (!options) {
    base::LogError("Wrong usage", options.error());
    return 1;
  }
  if (!*options) return 0;
  // A log reader that went away must not end a half-done change.
  ::signal(SIGPIPE, SIG_IGN);
  io::StopSource source;
  if (const auto set = source.StopOnSignals({SIGTERM, SIGINT}); !set) {
    base::LogError("Signals cannot be received", set.error());
    return 1;
  }
  const auto done = Run(**options, SettingsOf(**options), source.token());
  if (done) return 0;
  base::LogError("vfio-manage has failed", done.error());
  return 1;
}

}  // namespace pitcrew::node::vfio_manager
