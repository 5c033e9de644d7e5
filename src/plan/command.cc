#include "plan/command.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>

#include "base/log.h"
#include "plan/run.h"

namespace pitcrew::plan {

int Command(int argc, char** argv) {
  constexpr int kFailure = 1;
  constexpr int kUsage = 2;
  const auto arguments = ReadArguments(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "pitcrew plan: {}\n", arguments.error().message);
    return kUsage;
  }
  if (!*arguments) return 0;
  base::ConfigureLog({.level = base::LogLevel::kError, .format = base::LogFormat::kText});
  io::StopSource source;
  if (const auto caught = source.StopOnSignals({SIGTERM, SIGINT}); !caught) {
    fmt::print(stderr, "pitcrew plan: {}\n", caught.error().message);
    return kFailure;
  }
  const Answer answer = Run(**arguments, source.token());
  std::fwrite(answer.output.data(), 1, answer.output.size(), stdout);
  std::fflush(stdout);
  std::fwrite(answer.errors.data(), 1, answer.errors.size(), stderr);
  return answer.status;
}

}  // namespace pitcrew::plan
