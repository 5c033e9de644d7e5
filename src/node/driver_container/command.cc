#include "node/driver_container/command.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "base/log.h"
#include "io/program.h"
#include "node/driver_container/companion.h"
#include "node/driver_container/container.h"
#include "node/driver_container/options.h"
#include "node/driver_container/peermem.h"

namespace pitcrew::node::driver_container {
namespace {

constexpr int kUsage = 1;

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

int CompanionCommand(const Companion& companion, int argc, char** argv) {
  const auto description = fmt::format(
      "Brings up, in a container, the kernel module {} of {} beside the driver that is "
      "loaded.\n\n  install   wait for the driver, compile the module against it, load "
      "it, stay, and take it out at the end",
      companion.module, companion.of);
  return io::RunProgram(
      {.failure = "The module's container cannot go on", .usage_status = kUsage},
      ReadCompanionOptions(companion.program, description, argc, argv, OwnVariables()),
      [&](const Options& options, const io::StopToken& stop) {
        return RunCompanion(companion, options, stop);
      });
}

}  // namespace

int Command(int argc, char** argv) {
  // A log reader that went away must not end a half-done change.
  ::signal(SIGPIPE, SIG_IGN);
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  for (const auto& companion : kCompanions) {
    if (name == companion.program) return CompanionCommand(companion, argc, argv);
  }
  return io::RunProgram({.failure = "The driver container cannot go on", .usage_status = kUsage},
                        ReadOptions(argc, argv, OwnVariables()), Run);
}

}  // namespace pitcrew::node::driver_container
