// nvidia-ctk-installer: install, configure, stay, clean up (container-toolkit.md 4.2).
#include <csignal>

#include "base/log.h"
#include "io/stop.h"
#include "node/toolkit/cdi_specs.h"
#include "node/toolkit/command.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/installation.h"
#include "node/toolkit/options.h"
#include "node/toolkit/pid_file.h"
#include "node/toolkit/waiting_pods.h"

namespace pitcrew::node::toolkit {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

std::vector<std::string> RuntimeList(const Options& options, const codec::Json& engine_config) {
  if (options.runtime.low_level_runtimes) return *options.runtime.low_level_runtimes;
  return LowLevelRuntimes(options.engine.kind, engine_config);
}

base::Status InstallAll(const Options& options, const codec::Json& engine_config) {
  TRY(Install(options, RuntimeList(options, engine_config)));
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
  codec::Json engine_config = codec::Json::object();
  if (!options.no_runtime_config) {
    TRY_ASSIGN(engine_config, ReadEngineConfig(options.engine));
  }
  TRY(InstallAll(options, engine_config));
  base::Status configured;
  if (!options.no_runtime_config && !stop.stopped()) {
    configured = ConfigureEngine(options.engine, engine_config, options.toolkit_folder(),
                                 state_folder, stop);
  }
  const bool cancelled = !configured && configured.error().code == base::Code::kCancelled;
  if (!configured && !cancelled) return configured;
  if (options.no_daemon && !cancelled) return {};
  if (!options.no_runtime_config && !stop.stopped()) RetryWaitingPods(stop);
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
