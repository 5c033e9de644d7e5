// The frame of a program that reads its options and works until it is done or told to stop.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "io/stop.h"

namespace pitcrew::io {

struct ProgramFrame {
  std::string_view failure;  // what the last line of one says: "The MIG manager cannot work"
  int usage_status = 2;      // of wrong options; upstream's node programs end with 1
};

// Parts of RunProgram: tells why a program ends, and returns `status`; has the signals stop `stop`.
int EndProgram(std::string_view message, const base::Error& error, int status);
base::Status StopOnUsualSignals(StopSource& stop);

// The exit status. `options`, as a room's ReadOptions gives them, are nothing when --help or
// --version was answered. `work(options, stop)` returns base::Status and runs with a token that
// SIGTERM, SIGINT and SIGQUIT stop; whether an end by the stop is a success is the work's to say.
// For main's thread, before others start.
template <class Options, class Work>
int RunProgram(const ProgramFrame& frame, base::Result<std::optional<Options>> options,
               const Work& work) {
  constexpr int kFailure = 1;
  if (!options) return EndProgram("Wrong usage", options.error(), frame.usage_status);
  if (!*options) return 0;
  StopSource stop;
  if (const auto set = StopOnUsualSignals(stop); !set) {
    return EndProgram("Signals cannot be received", set.error(), kFailure);
  }
  const base::Status done = work(**std::move(options), stop.token());
  return done ? 0 : EndProgram(frame.failure, done.error(), kFailure);
}

}  // namespace pitcrew::io
