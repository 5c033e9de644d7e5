#include "node/driver_container/programs.h"

#include <fmt/format.h>

#include <chrono>

#include "base/log.h"
#include "base/strings.h"
#include "host/process.h"

namespace pitcrew::node::driver_container {
namespace {

constexpr std::chrono::hours kLongest{1};

}  // namespace

base::Result<host::ProgramEnd> RunToItsEnd(const ImageProgram& program, const io::StopToken& stop) {
  host::ProgramRun run;
  run.program = program.words.front();
  if (!run.program.starts_with('/')) {
    const auto found = host::FindStandardProgram(host::Root("/"), run.program);
    if (!found) {
      return base::Fail(base::NotFound(
          "ProgramMissing",
          fmt::format("cannot {}: this image has no program {}", program.purpose, run.program)));
    }
    run.program = *found;
  }
  run.arguments.assign(program.words.begin() + 1, program.words.end());
  run.working_folder = program.folder;
  run.environment = program.variables;
  run.capture_output = program.reads_output;
  run.deadline = program.deadline.value_or(std::chrono::steady_clock::now() + kLongest);
  run.stop_fd = stop.fd();
  base::LogInfo("A program of the image runs",
                {{"purpose", program.purpose}, {"command", base::Join(program.words, " ")}});
  auto end = host::RunProgram(run);
  if (!end) return base::Fail(end.error().Within("cannot " + program.purpose));
  return end;
}

base::Result<std::string> RunImageProgram(const ImageProgram& program, const io::StopToken& stop) {
  TRY_ASSIGN(auto end, RunToItsEnd(program, stop));
  if (end.exit_status == 0) return std::move(end.output);
  const auto where = program.reads_output ? std::string(base::Trim(end.error_output))
                                          : std::string("what it says stands above");
  return base::Fail(base::Internal(
      "ProgramFailed", fmt::format("cannot {}: {} ended with status {}; {}", program.purpose,
                                   base::Join(program.words, " "), end.exit_status, where)));
}

}  // namespace pitcrew::node::driver_container
