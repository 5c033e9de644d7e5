#include "node/driver_container/command.h"

#include <csignal>

#include "base/log.h"
#include "io/program.h"
#include "node/driver_container/container.h"
#include "node/driver_container/options.h"
#include "node/driver_container/peermem.h"

namespace pitcrew::node::driver_container {
namespace {

base::Status Run(const Options& options, const io::StopToken& stop) {
  switch (options.action) {
    case Action::kInit:
    case Action::kLoad:
      return RunDriver(options, stop);
    case Action::kBuild:
    case Action::kUpdate:
      return BuildDriver(options, stop);
    case Action::kPreflight:
      return Preflight(options, stop);
    case Action::kReloadPeermem: {
      const auto done = ReloadPeermem(options, stop);
      // Told to end while it waits: nothing was to be undone.
      return done || stop.stopped() ? base::Status() : done;
    }
    case Action::kProbePeermem:
      return ProbePeermem(options);
  }
  return {};
}

}  // namespace

int Command(int argc, char** argv) {
  // A log reader that went away must not end a half-done change.
  ::signal(SIGPIPE, SIG_IGN);
  return io::RunProgram({.failure = "The driver container cannot go on", .usage_status = 1},
                        ReadOptions(argc, argv, OwnVariables()), Run);
}

}  // namespace pitcrew::node::driver_container
