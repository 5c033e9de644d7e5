#include "node/toolkit/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/log.h"
#include "cdi/name.h"

namespace pitcrew::node::toolkit {
namespace {

namespace fs = std::filesystem;
using Text = std::optional<std::string>;
using Switch = std::optional<bool>;
using List = std::optional<std::vector<std::string>>;

// Everything as it was given: unset stays unset until the defaults are known.
struct Given {
  Switch no_daemon, no_runtime_config, nri, debug;
  std::optional<std::int64_t> nri_index;
  Text nri_name, nri_socket, nri_namespace, runtime, install_folder, source_root, package_type,
      pid_file;
  List nri_namespaces;

  Text driver_root, driver_root_container, dev_root, dev_root_container;
  Text runtime_debug, log_level, mode, default_kind, cli_debug, cdi_folder, cdi_kind;
  List annotation_prefixes, low_level_runtimes, create_device_nodes, opt_in_features;
  Switch skip_mode_detection, accept_env, accept_mounts, cdi_enabled, ignore_errors;

  Text config, drop_in, drop_in_host, executable, socket, restart, host_root, runtime_name,
      runtime_type, config_override, hooks_dir, hook_filename, crio_mode, distribution;
  Switch enable_cdi_in_runtime, set_as_default, legacy_config;
  List config_sources, engine_prefixes, by_default;
};

void AddGeneral(base::CommandLine& line, Given& to) {
  line.Add({"no-daemon,n", "NO_DAEMON", "end after the installation"}, &to.no_daemon);
  line.Add({"no-runtime-config", "NO_RUNTIME_CONFIG", "leave the container engine alone"},
           &to.no_runtime_config);
  line.Add({"enable-nri-plugin,p", "ENABLE_NRI_PLUGIN", "run as an NRI plugin"}, &to.nri);
  line.Add({"nri-plugin-name", "NRI_PLUGIN_NAME", "its name among NRI plugins"}, &to.nri_name);
  line.Add({"nri-plugin-index", "NRI_PLUGIN_INDEX", "order among NRI plugins"}, &to.nri_index);
  line.Add({"nri-socket", "NRI_SOCKET", "socket of NRI"}, &to.nri_socket);
  line.Add({"nri-namespace", "NRI_NAMESPACE", "namespace of the operator"}, &to.nri_namespace);
  line.Add({"nri-management-cdi-device-namespaces", "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES",
            "more namespaces that may have management devices"},
           &to.nri_namespaces);
  line.Add({"runtime,r", "RUNTIME", "container engine: containerd, crio or docker"}, &to.runtime);
  line.Add({"toolkit-install-dir,root", "TOOLKIT_INSTALL_DIR,ROOT",
            "folder on the host; the toolkit goes to DIR/toolkit"},
           &to.install_folder);
  line.Add({"toolkit-source-root", "TOOLKIT_SOURCE_ROOT",
            "root below which usr/bin has what is installed"},
           &to.source_root);
  line.Add({"toolkit-package-type", "TOOLKIT_PACKAGE_TYPE", "accepted; there is one form only"},
           &to.package_type);
  line.Add({"pid-file", "TOOLKIT_PID_FILE,PID_FILE", "lock file, named toolkit.pid"}, &to.pid_file);
  line.Add({"debug", "TOOLKIT_DEBUG", "log more"}, &to.debug);
}

void AddToolkit(base::CommandLine& line, Given& to) {
  line.Add({"driver-root,nvidia-driver-root", "NVIDIA_DRIVER_ROOT,DRIVER_ROOT",
            "root of the driver on the host"},
           &to.driver_root);
  line.Add({"driver-root-ctr-path", "DRIVER_ROOT_CTR_PATH", "the same for this process"},
           &to.driver_root_container);
  line.Add({"dev-root", "NVIDIA_DEV_ROOT,DEV_ROOT", "root of /dev on the host"}, &to.dev_root);
  line.Add({"dev-root-ctr-path", "DEV_ROOT_CTR_PATH", "the same for this process"},
           &to.dev_root_container);
  line.Add({"nvidia-container-runtime.debug,nvidia-container-runtime-debug",
            "NVIDIA_CONTAINER_RUNTIME_DEBUG", "log file of the runtime"},
           &to.runtime_debug);
  line.Add({"nvidia-container-runtime.log-level,nvidia-container-runtime-debug-log-level",
            "NVIDIA_CONTAINER_RUNTIME_LOG_LEVEL", "log level of the runtime"},
           &to.log_level);
  line.Add({"nvidia-container-runtime.mode,nvidia-container-runtime-mode",
            "NVIDIA_CONTAINER_RUNTIME_MODE", "auto, cdi, jit-cdi or legacy"},
           &to.mode);
  line.Add({"nvidia-container-runtime.modes.cdi.default-kind",
            "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND", "CDI kind of unqualified names"},
           &to.default_kind);
  line.Add(
      {"nvidia-container-runtime.modes.cdi.annotation-prefixes",
       "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_ANNOTATION_PREFIXES", "prefixes of CDI annotations"},
      &to.annotation_prefixes);
  line.Add({"nvidia-container-runtime.runtimes", "NVIDIA_CONTAINER_RUNTIME_RUNTIMES",
            "low-level runtimes, best first"},
           &to.low_level_runtimes);
  line.Add({"nvidia-container-runtime-hook.skip-mode-detection",
            "NVIDIA_CONTAINER_RUNTIME_HOOK_SKIP_MODE_DETECTION", "of the prestart hook"},
           &to.skip_mode_detection);
  line.Add({"nvidia-container-cli.debug,nvidia-container-cli-debug", "NVIDIA_CONTAINER_CLI_DEBUG",
            "log file of the legacy tool"},
           &to.cli_debug);
  line.Add({"accept-nvidia-visible-devices-envvar-when-unprivileged",
            "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED",
            "honour NVIDIA_VISIBLE_DEVICES of unprivileged containers"},
           &to.accept_env);
  line.Add({"accept-nvidia-visible-devices-as-volume-mounts",
            "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "honour device requests as mounts"},
           &to.accept_mounts);
  line.Add({"cdi-enabled,enable-cdi", "CDI_ENABLED,ENABLE_CDI", "write CDI specifications"},
           &to.cdi_enabled);
  line.Add({"cdi-output-dir", "CDI_OUTPUT_DIR", "folder of CDI specifications"}, &to.cdi_folder);
  line.Add({"cdi-kind", "CDI_KIND", "kind of the management specification"}, &to.cdi_kind);
  line.Add({"create-device-nodes", "CREATE_DEVICE_NODES", "control, or none"},
           &to.create_device_nodes);
  line.Add({"ignore-errors", "", "go on without what cannot be installed"}, &to.ignore_errors);
  line.Add(
      {"opt-in-features", "NVIDIA_CONTAINER_TOOLKIT_OPT_IN_FEATURES", "features of config.toml"},
      &to.opt_in_features);
}

void AddEngine(base::CommandLine& line, Given& to) {
  line.Add({"config", "RUNTIME_CONFIG,CONTAINERD_CONFIG,DOCKER_CONFIG",
            "top-level configuration of the engine"},
           &to.config);
  line.Add({"drop-in-config", "RUNTIME_DROP_IN_CONFIG", "the drop-in file that is written"},
           &to.drop_in);
  line.Add({"drop-in-config-host-path", "RUNTIME_DROP_IN_CONFIG_HOST_PATH",
            "the drop-in file's path on the host"},
           &to.drop_in_host);
  line.Add({"executable-path", "RUNTIME_EXECUTABLE_PATH", "the engine's program on the host"},
           &to.executable);
  line.Add({"socket", "RUNTIME_SOCKET,CONTAINERD_SOCKET,DOCKER_SOCKET", "socket of the engine"},
           &to.socket);
  line.Add({"restart-mode", "RUNTIME_RESTART_MODE", "signal, systemd or none"}, &to.restart);
  line.Add({"enable-cdi-in-runtime", "RUNTIME_ENABLE_CDI", "switch CDI on in the engine"},
           &to.enable_cdi_in_runtime);
  line.Add({"host-root", "HOST_ROOT_MOUNT", "where the host's root is mounted"}, &to.host_root);
  line.Add({"runtime-name,nvidia-runtime-name,runtime-class",
            "NVIDIA_RUNTIME_NAME,CONTAINERD_RUNTIME_CLASS,DOCKER_RUNTIME_NAME",
            "name of the runtime in the engine"},
           &to.runtime_name);
  line.Add({"set-as-default",
            "NVIDIA_RUNTIME_SET_AS_DEFAULT,CONTAINERD_SET_AS_DEFAULT,DOCKER_SET_AS_DEFAULT",
            "make it the engine's default runtime"},
           &to.set_as_default);
  line.Add({"config-source,config-sources", "RUNTIME_CONFIG_SOURCES,RUNTIME_CONFIG_SOURCE",
            "command, file or file=PATH, best first"},
           &to.config_sources);
  line.Add({"use-legacy-config", "CONTAINERD_USE_LEGACY_CONFIG", "containerd: version 1 layout"},
           &to.legacy_config);
  line.Add({"runtime-type", "CONTAINERD_RUNTIME_TYPE", "containerd: shim of the runtimes"},
           &to.runtime_type);
  line.Add({"nvidia-container-runtime-modes.cdi.annotation-prefixes",
            "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_ANNOTATION_PREFIXES",
            "containerd: annotations that runtimes see"},
           &to.engine_prefixes);
  line.Add({"runtime-config-override", "RUNTIME_CONFIG_OVERRIDE,CONTAINERD_RUNTIME_CONFIG_OVERRIDE",
            "accepted without effect, as upstream"},
           &to.config_override);
  line.Add({"distribution", "RUNTIME_DISTRIBUTION",
            "containerd: auto, none, k3s, rke2, microk8s or k0s; auto looks at the node, unless "
            "--config or --drop-in-config is set"},
           &to.distribution);
  line.Add({"settings-by-default", "RUNTIME_SETTINGS_BY_DEFAULT",
            "which of config, drop-in-config, socket are defaults that nobody chose: what is found "
            "on the node goes before them"},
           &to.by_default);
  line.Add({"hooks-dir", "CRIO_HOOKS_DIR", "CRI-O: folder of OCI hooks"}, &to.hooks_dir);
  line.Add({"hook-filename", "CRIO_HOOK_FILENAME", "CRI-O: name of the hook's file"},
           &to.hook_filename);
  line.Add({"config-mode", "CRIO_CONFIG_MODE", "CRI-O: config or hook"}, &to.crio_mode);
}

struct EngineDefaults {
  const char* config;
  const char* drop_in;
  const char* socket;
  RestartMode restart;
};

EngineDefaults DefaultsOf(EngineKind kind) {
  switch (kind) {
    case EngineKind::kContainerd:
      return {"/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml",
              "/run/containerd/containerd.sock", RestartMode::kSignal};
    case EngineKind::kCrio:
      return {"/etc/crio/crio.conf", "/etc/crio/crio.conf.d/99-nvidia.toml",
              "/var/run/crio/crio.sock", RestartMode::kSystemd};
    case EngineKind::kDocker:
      return {"/etc/docker/daemon.json", "", "/var/run/docker.sock", RestartMode::kSignal};
  }
  return {};
}

base::Result<EngineKind> ParseEngine(std::string_view name) {
  if (name == "containerd") return EngineKind::kContainerd;
  if (name == "crio") return EngineKind::kCrio;
  if (name == "docker") return EngineKind::kDocker;
  return base::Fail(BadUsage(
      fmt::format("--runtime (RUNTIME) \"{}\" is none of containerd, crio, docker", name)));
}

base::Result<RestartMode> ParseRestart(std::string_view name) {
  if (name == "signal") return RestartMode::kSignal;
  if (name == "systemd") return RestartMode::kSystemd;
  if (name == "none") return RestartMode::kNone;
  return base::Fail(BadUsage(fmt::format(
      "--restart-mode (RUNTIME_RESTART_MODE) \"{}\" is none of signal, systemd, none", name)));
}

base::Result<OciHook> MakeHook(const Given& given) {
  const std::string mode = given.crio_mode.value_or("config");
  if (mode != "config" && mode != "hook") {
    return base::Fail(BadUsage(
        fmt::format("--config-mode (CRIO_CONFIG_MODE) \"{}\" is none of config, hook", mode)));
  }
  const fs::path folder = given.hooks_dir.value_or("/usr/share/containers/oci/hooks.d");
  const std::string name = given.hook_filename.value_or("oci-nvidia-hook.json");
  // CRI-O reads no other files (runtimes-and-distributions.md 2).
  if (!folder.is_absolute() || fs::path(name).filename() != name || !name.ends_with(".json")) {
    return base::Fail(BadUsage(
        fmt::format("--hooks-dir (CRIO_HOOKS_DIR) \"{}\" must be an absolute path, and "
                    "--hook-filename (CRIO_HOOK_FILENAME) \"{}\" a name that ends with .json",
                    folder.string(), name)));
  }
  return OciHook{mode == "hook", folder / name, {}};
}

base::Result<EngineOptions> MakeEngine(const Given& given, bool cdi_enabled) {
  EngineOptions engine;
  TRY_ASSIGN(engine.kind, ParseEngine(given.runtime.value_or("docker")));
  const EngineDefaults defaults = DefaultsOf(engine.kind);
  engine.config = given.config.value_or(defaults.config);
  engine.drop_in = given.drop_in.value_or(defaults.drop_in);
  engine.drop_in_host_path = given.drop_in_host.value_or("");
  engine.executable = given.executable.value_or("");
  engine.socket = given.socket.value_or(defaults.socket);
  engine.restart = defaults.restart;
  if (given.restart) {
    TRY_ASSIGN(engine.restart, ParseRestart(*given.restart));
  }
  if (engine.kind == EngineKind::kCrio && engine.restart == RestartMode::kSignal) {
    return base::Fail(BadUsage("CRI-O cannot be restarted by a signal; use systemd or none"));
  }
  engine.enable_cdi = given.enable_cdi_in_runtime.value_or(cdi_enabled);
  engine.host_root = given.host_root.value_or("/host");
  engine.runtime_name = given.runtime_name.value_or("nvidia");
  engine.set_as_default = given.set_as_default.value_or(true);
  if (given.config_sources) engine.config_sources = *given.config_sources;
  engine.use_legacy_config = given.legacy_config.value_or(false);
  engine.runtime_type = given.runtime_type.value_or(engine.runtime_type);
  if (given.engine_prefixes) engine.annotation_prefixes = *given.engine_prefixes;
  std::erase(engine.annotation_prefixes, "");
  if (engine.kind == EngineKind::kDocker) {
    engine.drop_in.clear();
    engine.config_sources = {"file"};
  }
  if (engine.kind == EngineKind::kCrio) {
    TRY_ASSIGN(engine.hook, MakeHook(given));
  }
  return engine;
}

base::Result<std::optional<Distribution>> ParseDistribution(const std::string& name) {
  if (name.empty() || name == "auto") return std::nullopt;
  if (name == "none") return Distribution::kNone;
  for (const auto distribution :
       {Distribution::kK3s, Distribution::kRke2, Distribution::kMicroK8s, Distribution::kK0s}) {
    std::string text(ToString(distribution));
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name == text) return distribution;
  }
  return base::Fail(
      BadUsage(fmt::format("--distribution (RUNTIME_DISTRIBUTION) \"{}\" is none of auto, none, "
                           "k3s, rke2, microk8s, k0s",
                           name)));
}

base::Result<GivenSettings> MakeGiven(const Given& given) {
  GivenSettings settings;
  settings.config = given.config.has_value();
  settings.drop_in = given.drop_in.has_value();
  settings.socket = given.socket.has_value();
  settings.restart = given.restart.has_value();
  TRY_ASSIGN(settings.distribution, ParseDistribution(given.distribution.value_or("")));
  for (const auto& name : given.by_default.value_or(std::vector<std::string>{})) {
    if (name == "config") {
      settings.config = false;
    } else if (name == "drop-in-config") {
      settings.drop_in = false;
    } else if (name == "socket") {
      settings.socket = false;
    } else if (!name.empty()) {
      return base::Fail(BadUsage(fmt::format(
          "--settings-by-default (RUNTIME_SETTINGS_BY_DEFAULT) \"{}\" is none of config, "
          "drop-in-config, socket",
          name)));
    }
  }
  return settings;
}

RuntimeSettings MakeRuntime(const Given& given) {
  RuntimeSettings runtime;
  runtime.debug = given.runtime_debug;
  runtime.log_level = given.log_level;
  runtime.mode = given.mode;
  runtime.default_kind = given.default_kind;
  runtime.cli_debug = given.cli_debug;
  runtime.annotation_prefixes = given.annotation_prefixes;
  runtime.low_level_runtimes = given.low_level_runtimes;
  runtime.skip_mode_detection = given.skip_mode_detection.value_or(true);
  runtime.accept_env_when_unprivileged = given.accept_env.value_or(true);
  runtime.accept_devices_as_mounts = given.accept_mounts.value_or(false);
  runtime.opt_in_features = given.opt_in_features.value_or(std::vector<std::string>{});
  std::erase(runtime.opt_in_features, "");
  return runtime;
}

base::Result<bool> WantsControlNodes(const Given& given) {
  if (!given.create_device_nodes) return true;
  bool wanted = false;
  for (const auto& value : *given.create_device_nodes) {
    if (value.empty() || value == "none") return false;
    if (value != "control") {
      return base::Fail(
          BadUsage(fmt::format("--create-device-nodes \"{}\" is neither control nor none", value)));
    }
    wanted = true;
  }
  return wanted;
}

base::Result<std::optional<NriOptions>> MakeNri(const Given& given) {
  if (!given.nri.value_or(false)) return std::nullopt;
  NriOptions nri;
  const auto index = given.nri_index.value_or(nri.index);
  if (index < 0 || index > 99) {
    return base::Fail(BadUsage(
        fmt::format("--nri-plugin-index (NRI_PLUGIN_INDEX) {} is not between 0 and 99", index)));
  }
  nri.index = static_cast<unsigned>(index);
  nri.plugin_name = given.nri_name.value_or(nri.plugin_name);
  nri.socket = given.nri_socket.value_or(nri.socket);
  nri.operator_namespace = given.nri_namespace.value_or("");
  if (nri.operator_namespace.empty()) {
    return base::Fail(
        BadUsage("--nri-namespace (NRI_NAMESPACE) is missing: pods of this namespace get the GPUs "
                 "that they ask for"));
  }
  if (given.nri_namespaces) nri.more_namespaces = *given.nri_namespaces;
  std::erase(nri.more_namespaces, "");
  return nri;
}

base::Result<Options> MakeOptions(const Given& given) {
  Options options;
  options.no_daemon = given.no_daemon.value_or(false);
  options.no_runtime_config = given.no_runtime_config.value_or(false);
  options.debug = given.debug.value_or(false);
  options.install_folder = given.install_folder.value_or(options.install_folder);
  if (options.install_folder.empty()) {
    return base::Fail(BadUsage("--toolkit-install-dir (ROOT) must not be empty"));
  }
  options.source_root = given.source_root.value_or("");
  options.pid_file = given.pid_file.value_or(options.pid_file);
  if (options.pid_file.filename() != "toolkit.pid") {
    return base::Fail(BadUsage(
        fmt::format("--pid-file \"{}\" must be named toolkit.pid", options.pid_file.string())));
  }
  TRY_ASSIGN(options.nri, MakeNri(given));
  options.driver_root = given.driver_root.value_or(options.driver_root);
  options.driver_root_container =
      given.driver_root_container.value_or(options.driver_root_container);
  options.dev_root = given.dev_root.value_or("");
  options.dev_root_container = given.dev_root_container.value_or("");
  options.cdi_enabled = given.cdi_enabled.value_or(false);
  options.cdi_folder = given.cdi_folder.value_or(options.cdi_folder);
  if (options.cdi_enabled && options.cdi_folder.empty()) {
    base::LogWarning("CDI is switched off: --cdi-output-dir is empty");
    options.cdi_enabled = false;
  }
  // The runtime's own specification has to be somewhere.
  if (options.cdi_folder.empty()) options.cdi_folder = Options().cdi_folder;
  options.cdi_kind = given.cdi_kind.value_or(options.cdi_kind);
  TRY(cdi::ValidateKind(options.cdi_kind));
  TRY_ASSIGN(options.create_control_nodes, WantsControlNodes(given));
  if (!options.cdi_enabled) options.create_control_nodes = false;
  options.ignore_errors = given.ignore_errors.value_or(false);
  options.runtime = MakeRuntime(given);
  TRY_ASSIGN(options.engine, MakeEngine(given, options.cdi_enabled));
  TRY_ASSIGN(options.given, MakeGiven(given));
  options.engine.hook.program = options.toolkit_folder() / "nvidia-container-runtime-hook";
  return options;
}

}  // namespace

std::string_view ToString(EngineKind kind) {
  switch (kind) {
    case EngineKind::kContainerd:
      return "containerd";
    case EngineKind::kCrio:
      return "crio";
    case EngineKind::kDocker:
      return "docker";
  }
  return "";
}

std::string_view ToString(Distribution distribution) {
  switch (distribution) {
    case Distribution::kNone:
      return "none";
    case Distribution::kK3s:
      return "k3s";
    case Distribution::kRke2:
      return "RKE2";
    case Distribution::kMicroK8s:
      return "MicroK8s";
    case Distribution::kK0s:
      return "k0s";
  }
  return "";
}

base::Result<std::optional<Options>> ParseOptions(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  base::CommandLine line(
      "nvidia-ctk-installer",
      "Installs the container toolkit on a node and configures its container engine",
      PITCREW_VERSION);
  Given given;
  AddGeneral(line, given);
  AddToolkit(line, given);
  AddEngine(line, given);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  TRY_ASSIGN(Options options, MakeOptions(given));
  return options;
}

}  // namespace pitcrew::node::toolkit
