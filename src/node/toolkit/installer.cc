// nvidia-ctk-installer: install, configure, stay, clean up (container-toolkit.md 4.2).
#include <csignal>

#include "base/log.h"
#include "io/stop.h"
#include "node/toolkit/cdi_specs.h"
#include "node/toolkit/command.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/installation.h"
#include "node/toolkit/options.h"
#include "node/toolkit/pid_file.h"

namespace pitcrew::node::toolkit {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

base::Result<std::vector<std::string>> LowLevelRuntimeList(const Options& options) {
  if (options.runtime.low_level_runtimes) return *options.runtime.low_level_runtimes;
  if (options.no_runtime_config) return std::vector<std::string>{"runc", "crun"};
  TRY_ASSIGN(auto setup, ReadEngineSetup(options.engine));
  return std::move(setup.low_level_runtimes);
}

base::Status InstallAll(const Options& options) {
  TRY_ASSIGN(const auto runtimes, LowLevelRuntimeList(options));
  TRY(Install(options, runtimes));
  base::LogInfo("The toolkit is installed", {{"folder", options.toolkit_folder().string()},
                                             {"driver_root", options.driver_root}});
  if (!options.cdi_enabled) return {};
  if (options.create_control_nodes) CreateControlNodes(options);
  const auto written = WriteCdiSpecs(options);
  if (!written && options.ignore_errors) {
    base::LogWarning("Going on without a management specification", written.error());
    return {};
  }
  return written;
}

base::Status Run(const Options& options, const io::StopToken& stop) {
  TRY_ASSIGN(const PidFile pid_file, PidFile::Lock(options.pid_file));
  const auto state_folder = options.pid_file.parent_path();
  TRY(InstallAll(options));
  base::Status configured;
  if (!options.no_runtime_config && !stop.stopped()) {
    configured = ConfigureEngine(options.engine, options.toolkit_folder(), state_folder, stop);
  }
  const bool cancelled = !configured && configured.error().code == base::Code::kCancelled;
  if (!configured && !cancelled) return configured;
  if (options.no_daemon && !cancelled) return {};
  if (!stop.stopped()) {
    base::LogInfo("The node is ready for GPU containers; waiting to be told to stop");
    stop.Wait();
  }
  base::LogInfo("Stopping");
  if (options.no_runtime_config) return {};
  return RestoreEngine(options.engine, options.toolkit_folder(), state_folder);
}

}  // namespace

int InstallerCommand(int argc, char** argv) {
  auto options = ParseOptions(argc, argv);
  if (!options) {
    base::LogError("The toolkit cannot start with these settings", options.error());
    return options.error().code == base::Code::kInvalid ? kUsage : kFailure;
  }
  if (!*options) return 0;
  if ((*options)->debug) base::ConfigureLog({.level = base::LogLevel::kDebug});
  // A log reader that went away must not end a half-done change.
  ::signal(SIGPIPE, SIG_IGN);
  io::StopSource source;
  if (const auto ready = source.StopOnSignals({SIGHUP, SIGINT, SIGQUIT, SIGTERM}); !ready) {
    base::LogError("Signals cannot be received", ready.error());
    return kFailure;
  }
  const auto status = Run(**options, source.token());
  if (status) return 0;
  base::LogError("The toolkit failed", status.error());
  return kFailure;
}

}  // namespace pitcrew::node::toolkit
