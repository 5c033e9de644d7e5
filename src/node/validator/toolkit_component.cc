#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "base/log.h"
#include "base/strings.h"
#include "host/process.h"
#include "node/validator/components.h"
#include "node/validator/driver_check.h"
#include "nvml/nvml.h"

namespace pitcrew::node::validator {
namespace {

base::Result<std::filesystem::path> FindInPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : base::Split(path == nullptr ? "" : path, ':')) {
    const auto candidate = std::filesystem::path(folder.empty() ? "." : folder) / program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return base::Fail(base::NotFound(
      "DriverNotInjected",
      fmt::format("{} is not in PATH: the container toolkit has not given this container a GPU",
                  program)));
}

// The toolkit has to bring program, libraries and devices into this container: all three are used.
base::Status CheckInjection(const io::StopToken& stop) {
  TRY_ASSIGN(const auto program, FindInPath(std::string(host::kSmiProgram)));
  const auto library = nvml::Library::Open({"/"});
  if (library) {
    const auto inventory = (*library)->ReadInventory();
    if (inventory && !inventory->devices.empty()) {
      base::LogInfo("The container toolkit works", {{"gpus", inventory->devices.size()}});
      return {};
    }
  }
  host::ProgramRun run;
  run.program = program.string();
  run.deadline = std::chrono::steady_clock::now() + kSmiTimeout;
  run.stop_fd = stop.fd();
  TRY_ASSIGN(const auto end, host::RunProgram(run));
  if (end.exit_status == 0) return {};
  return base::Fail(base::Unavailable(
      "NvidiaSmiFailed",
      fmt::format("{} ended with exit status {}{}", program.string(), end.exit_status,
                  library ? "" : "; NVML: " + library.error().ToString())));
}

}  // namespace

base::Status ValidateToolkit(const Options& options, const io::StopToken& stop) {
  const StatusFolder status(options.output_folder);
  const base::Status done = Repeat(options, {}, stop, [&] { return CheckInjection(stop); });
  if (done) return status.Write(kToolkitReady);
  TRY(status.Remove(kToolkitReady));
  return done;
}

}  // namespace pitcrew::node::validator
