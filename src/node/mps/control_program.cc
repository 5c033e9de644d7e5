#include "node/mps/control_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/strings.h"
#include "host/children.h"
#include "host/process.h"

namespace pitcrew::node::mps {
namespace {

constexpr const char* kPipeVariable = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kLogVariable = "CUDA_MPS_LOG_DIRECTORY";
// The daemon initialises every GPU before it takes clients.
constexpr std::chrono::seconds kStartTimeout{60};

base::Result<host::ProgramRun> MakeRun(const std::filesystem::path& pipe,
                                       const std::filesystem::path& log,
                                       std::chrono::milliseconds timeout,
                                       const io::StopToken& stop) {
  const auto program = host::FindProgramInPath(kControlProgram);
  if (!program) {
    return base::Fail(
        program.error().Within("the driver's MPS programs are not in this container (is its "
                               "runtime class nvidia, and does "
                               "NVIDIA_DRIVER_CAPABILITIES have compute and utility?)"));
  }
  host::ProgramRun run;
  run.program = program->string();
  run.environment = {{kPipeVariable, pipe.string()}, {kLogVariable, log.string()}};
  // Variables of the pod, such as CUDA_VISIBLE_DEVICES, are not meant for it.
  run.inherit_environment = false;
  run.deadline = std::chrono::steady_clock::now() + timeout;
  run.stop_fd = stop.fd();
  return run;
}

}  // namespace

base::Result<std::vector<pid_t>> ControlProgram::Processes() const {
  TRY_ASSIGN(const auto children, host::ListChildren(::getpid()));
  std::vector<pid_t> own;
  for (const pid_t child : children) {
    TRY_ASSIGN(const bool ours,
               host::WasStartedWith(child, fmt::format("{}={}", kPipeVariable, pipe_.string())));
    if (ours) own.push_back(child);
  }
  return own;
}

base::Result<pid_t> ControlProgram::StartDaemon(const io::StopToken& stop) const {
  TRY_ASSIGN(auto run, MakeRun(pipe_, log_, kStartTimeout, stop));
  run.arguments = {"-d"};
  // Its output is ours: the daemon may keep what it was given.
  TRY_ASSIGN(const auto end, host::RunProgram(run));
  if (end.exit_status != 0) {
    return base::Fail(base::Unavailable(
        "MpsNotStarted",
        fmt::format("{} -d ended with status {}", kControlProgram, end.exit_status)));
  }
  TRY_ASSIGN(const auto processes, Processes());
  if (processes.empty()) {
    return base::Fail(base::Unavailable(
        "MpsNotStarted", fmt::format("{} -d has left no process behind", kControlProgram)));
  }
  return processes.front();
}

base::Result<std::string> ControlProgram::Send(std::string_view command,
                                               std::chrono::milliseconds timeout,
                                               const io::StopToken& stop) const {
  TRY_ASSIGN(auto run, MakeRun(pipe_, log_, timeout, stop));
  run.input = command;
  run.capture_output = true;
  TRY_ASSIGN(auto end, host::RunProgram(run));
  if (end.exit_status == 0) return std::move(end.output);
  return base::Fail(base::Unavailable(
      "MpsCommandFailed",
      fmt::format("failed to send command to MPS daemon: \"{}\" ended with status {}: {}", command,
                  end.exit_status, base::Trim(end.error_output + end.output))));
}

}  // namespace pitcrew::node::mps
