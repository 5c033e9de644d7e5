// nvidia-ctk-installer: install, configure, stay, clean up (container-toolkit.md 4.2).
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/deadline.h"
#include "base/log.h"
#include "codec/toml.h"
#include "io/stop.h"
#include "node/toolkit/cdi_specs.h"
#include "node/toolkit/command.h"
#include "node/toolkit/configure_engine.h"
#include "node/toolkit/engine.h"
#include "node/toolkit/follow_node.h"
#include "node/toolkit/installation.h"
#include "node/toolkit/node_engine.h"
#include "node/toolkit/node_pods.h"
#include "node/toolkit/nri_plugin.h"
#include "node/toolkit/options.h"
#include "node/toolkit/pid_file.h"
#include "node/toolkit/successor.h"
#include "shim/config_members.h"

namespace pitcrew::node::toolkit {
namespace {

// Of the 30 seconds that a pod has for its end: all that is done in them, the API server's part of
// it (its answers, and the end of other pods), and the wait for other pods alone. The engine's
// restart has what is left.
constexpr std::chrono::seconds kWholeTime{26};
constexpr std::chrono::seconds kAskingTime{14};
constexpr std::chrono::seconds kLeavingTime{8};

std::vector<std::string> RuntimeList(const Options& options, const codec::Json& engine_config) {
  if (options.runtime.low_level_runtimes) return *options.runtime.low_level_runtimes;
  // Of the others the default runtime's program need not be named, and runc is it then.
  const bool is_crio = options.engine.kind == EngineKind::kCrio;
  return LowLevelRuntimes(options.engine.kind, engine_config,
                          is_crio ? options.engine.earlier_low_level : "");
}

// Flags can set members of config.toml that nothing heeds.
void WarnOfUnheeded(const Options& options, const std::vector<std::string>& low_level_runtimes) {
  const auto values = codec::ParseToml(RuntimeConfigText(options, low_level_runtimes));
  if (!values) return;
  for (const auto& [member, why] : shim::UnheededMembers(*values, options.toolkit_folder())) {
    base::LogWarning("A setting has no effect", {{"member", member}, {"why", why}});
  }
}

base::Status InstallAll(const Options& options, const codec::Json& engine_config) {
  const auto runtimes = RuntimeList(options, engine_config);
  TRY(Install(options, runtimes));
  WarnOfUnheeded(options, runtimes);
  base::LogInfo("The toolkit is installed", {{"folder", options.toolkit_folder().string()},
                                             {"driver_root", options.driver_root}});
  if (const auto made = CreateControlNodes(options); !made) {
    base::LogWarning("Control device nodes are not all as they should be", made.error());
  }
  const auto written = WriteCdiSpecs(options);
  if (written) {
    for (const auto& error : *written) base::LogWarning(kIncomplete, error);
    return {};
  }
  if (options.cdi_enabled && !options.ignore_errors) return base::Fail(written.error());
  base::LogWarning(options.cdi_enabled ? "Going on without a management specification"
                                       : "The runtime has no GPUs for containers",
                   written.error());
  return {};
}

// Only logs when it cannot be done: the kubelet tries again by itself.
void RetryWaitingPods(const io::StopToken& stop) {
  base::Result<std::size_t> count = 0;
  const auto pods = NodePods::InCluster(stop);
  if (pods) count = pods->RetryWaiting(kRetryPauses, stop);
  if (!pods || !count) {
    const auto& why = pods ? count.error() : pods.error();
    if (why.code == base::Code::kCancelled) return;
    base::LogInfo("Pods that wait for the runtime are left to the kubelet's next try",
                  {{"why", why.message}});
  } else if (*count > 0) {
    base::LogInfo("Told the kubelet to try waiting pods again", {{"pods", std::to_string(*count)}});
  }
}

bool StaysConfigured(const base::Result<NodePods>& pods) {
  const auto successor =
      pods ? pods->HasSuccessor({}) : base::Result<bool>(base::Fail(pods.error()));
  const bool keeps = KeepsConfiguration(successor);
  if (!successor) {
    base::LogInfo("It is not known whether another toolkit takes over",
                  {{"why", successor.error().message}});
  }
  if (keeps) {
    base::LogInfo(successor
                      ? "Another toolkit takes over: the container engine keeps its configuration"
                      : "The container engine keeps its configuration for the next toolkit");
  }
  return keeps;
}

void RetryLeavingPods(base::Deadline deadline) {
  const auto pods = NodePods::InCluster({}, deadline);
  if (!pods) return;
  const auto count = pods->RetryLeaving(kRetryPauses, {});
  if (count && *count > 0) {
    base::LogInfo("Told the kubelet to end pods now", {{"pods", std::to_string(*count)}});
  }
}

// Unless another toolkit takes over, the engine goes back to what it was before, in a restart.
// Operands often leave together with the toolkit, and a pod whose end the restart breaks stays for
// 10 seconds and more: so they go first.
base::Status Leave(const Options& options) {
  const auto end = base::Deadline::After(kWholeTime);
  const auto pods = NodePods::InCluster({}, base::Deadline::After(kAskingTime));
  if (StaysConfigured(pods)) return {};
  base::Status told;
  if (pods) told = pods->AwaitLeaving({}, base::SteadyClock::now() + kLeavingTime);
  if (!pods || !told) {
    base::LogInfo("Other pods may still be about to end",
                  {{"why", pods ? told.error().message : pods.error().message}});
  }
  TRY(RestoreEngine(options.engine, options.toolkit_folder(), options.pid_file.parent_path(), end));
  if (pods) RetryLeavingPods(end);
  return {};
}

// Until the stop, or until the container runtime turns out to be none that NRI can serve.
base::Status Stay(const Options& options, const io::StopToken& stop) {
  if (!options.nri) {
    FollowNode(options, stop);
    return {};
  }
  const auto both = io::StopSource::LinkedTo(stop);
  base::Status served;
  std::thread plugin([&] {
    served = RunNriPlugin(*options.nri, both.token());
    both.Stop();
  });
  FollowNode(options, both.token());
  plugin.join();
  return served;
}

base::Status FindOnNode(Options& options) {
  EngineOptions& engine = options.engine;
  // With the node's own disk below it: a node may start anew while it is configured.
  engine.originals = options.toolkit_folder() / ".config/engine-before.json";
  engine.own_program = (options.toolkit_folder() / "nvidia-container-runtime").string();
  TRY_ASSIGN(engine.earlier_low_level, InstalledLowLevel(options.toolkit_folder()));
  const host::Root node(engine.host_root.empty() ? "/" : engine.host_root);
  // Nothing is mounted for CRI-O's socket: it is seen in the node's root.
  if (engine.kind == EngineKind::kCrio && !options.given.socket) {
    if (const auto seen = node.Resolve(engine.socket.string())) engine.socket = *seen;
  }
  return ConfigureForDistribution({node, "/proc", ::getpid()}, options);
}

// The hook of this toolkit is run after the container runtime has decided on devices and cgroups.
void WarnOfHook(const Options& options) {
  if (!options.configures_engine() || !options.engine.hook.enabled) return;
  base::LogWarning(
      "CRIO_CONFIG_MODE=hook: the runtime nvidia injects, as CRI-O's default, and not the hook, "
      "which refuses GPUs to containers of another runtime",
      {{"file", options.engine.hook.file.string()},
       {"default", options.engine.set_as_default ? options.engine.runtime_name : "(none)"}});
}

base::Status Run(Options options, const io::StopToken& stop) {
  TRY_ASSIGN(const PidFile pid_file, PidFile::Lock(options.pid_file));
  const auto state_folder = options.pid_file.parent_path();
  codec::Json engine_config = codec::Json::object();
  if (options.configures_engine()) {
    TRY(FindOnNode(options));
    TRY_ASSIGN(engine_config, ReadEngineConfig(options.engine));
  }
  TRY(InstallAll(options, engine_config));
  WarnOfHook(options);
  base::Status configured;
  if (options.configures_engine() && !stop.stopped()) {
    configured = ConfigureEngine(options.engine, engine_config, options.toolkit_folder(),
                                 state_folder, stop);
  }
  const bool cancelled = !configured && configured.error().code == base::Code::kCancelled;
  if (!configured && !cancelled) return configured;
  if (options.no_daemon && !cancelled) return {};
  base::Status served;
  if (!stop.stopped()) {
    base::LogInfo("The node is ready for GPU containers; waiting to be told to stop");
    if (options.configures_engine()) RetryWaitingPods(stop);
    served = Stay(options, stop);
  }
  base::LogInfo("Stopping");
  return options.configures_engine() ? Leave(options) : served;
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
