#include "io/program.h"

#include <csignal>

#include "base/log.h"

namespace pitcrew::io {

int EndProgram(std::string_view message, const base::Error& error, int status) {
  base::LogError(message, error);
  return status;
}

base::Status StopOnUsualSignals(StopSource& stop) {
  return stop.StopOnSignals({SIGTERM, SIGINT, SIGQUIT});
}

}  // namespace pitcrew::io
