#include "node/metrics_exporter/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace pitcrew::node::metrics_exporter {
namespace {

using Text = std::optional<std::string>;
using Number = std::optional<std::int64_t>;
using Flag = std::optional<bool>;
using List = std::optional<std::vector<std::string>>;

struct Flags {
  Text collectors, address, config_map, remote, gpus, switches, cpus, web_config, id_type,
      log_format, dcgm_log_level, pod_resources, job_folder, bind_interval, dump_folder,
      hostname_label, kubeconfig, node_name;
  Number interval, xid_window, clock_window, dump_retention;
  Flag kubernetes, old_namespace, pod_labels, pod_uids, no_hostname, fake_gpus, systemd_socket,
      replace_blanks, debug, dcgm_log, virtual_gpus, dra, dump, dump_compression, no_validation,
      bind_watch, pprof;
  List label_patterns, resource_names;

  void AddReadings(base::CommandLine& line) {
    line.Add({"collectors,f", "DCGM_EXPORTER_COLLECTORS", "file of counters"}, &collectors);
    line.Add({"address,a", "DCGM_EXPORTER_LISTEN", "where to listen, :9400 by default"}, &address);
    line.Add({"collect-interval,c", "DCGM_EXPORTER_INTERVAL", "milliseconds between two rounds"},
             &interval);
    line.Add({"configmap-data,m", "DCGM_EXPORTER_CONFIGMAP_DATA",
              "namespace:name of a ConfigMap with counters in its key metrics"},
             &config_map);
    line.Add({"devices,d", "DCGM_EXPORTER_DEVICES_STR", "GPUs and MIG instances: f, g:0-1, i:3"},
             &gpus);
    line.Add({"switch-devices,s", "DCGM_EXPORTER_OTHER_DEVICES_STR", "links: f, g, i:0-3"},
             &switches);
    line.Add({"cpu-devices,p", "DCGM_EXPORTER_CPU_DEVICES_STR", "checked, without effect"}, &cpus);
    line.Add({"xid-count-window-size,x", "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE",
              "milliseconds in which XIDs are counted"},
             &xid_window);
    line.Add({"clock-events-count-window-size", "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE",
              "milliseconds in which clock events are counted"},
             &clock_window);
    line.Add({"replace-blanks-in-model-name,rbmn", "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME",
              "write - for blanks in modelName"},
             &replace_blanks);
    line.Add({"no-hostname,n", "DCGM_EXPORTER_NO_HOSTNAME", "no label with the host's name"},
             &no_hostname);
    line.Add({"hostname-label", "DCGM_EXPORTER_HOSTNAME_LABEL",
              "that label's name: hostname (default) or Hostname"},
             &hostname_label);
    line.Add({"use-old-namespace,o", "DCGM_EXPORTER_USE_OLD_NAMESPACE",
              "labels uuid, pod_name, pod_namespace, container_name"},
             &old_namespace);
    line.Add({"node-name", "NODE_NAME", "this node; the machine's name without it"}, &node_name);
  }

  void AddKubernetes(base::CommandLine& line) {
    line.Add({"kubernetes,k", "DCGM_EXPORTER_KUBERNETES", "label series with pods"}, &kubernetes);
    line.Add({"kubernetes-enable-pod-labels", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS",
              "also with the pods' labels"},
             &pod_labels);
    line.Add({"kubernetes-enable-pod-uid", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID",
              "also with the pods' UIDs"},
             &pod_uids);
    line.Add({"kubernetes-gpu-id-type", "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
              "how the kubelet names GPUs: uid or device-name"},
             &id_type);
    line.Add({"kubernetes-pod-label-allowlist-regex",
              "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", "which labels of pods"},
             &label_patterns);
    line.Add({"pod-resources-kubelet-socket", "DCGM_POD_RESOURCES_KUBELET_SOCKET",
              "the kubelet's socket of pod resources"},
             &pod_resources);
    line.Add({"nvidia-resource-names", "NVIDIA_RESOURCE_NAMES", "further resources that are GPUs"},
             &resource_names);
    line.Add({"kubernetes-virtual-gpus", "KUBERNETES_VIRTUAL_GPUS",
              "one series for each replica of a shared GPU"},
             &virtual_gpus);
    line.Add({"kubernetes-enable-dra", "KUBERNETES_ENABLE_DRA",
              "also name pods that hold devices by claims"},
             &dra);
    line.Add({"hpc-job-mapping-dir", "DCGM_HPC_JOB_MAPPING_DIR", "folder with jobs of GPUs"},
             &job_folder);
    line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; in-cluster without it"}, &kubeconfig);
  }

  void AddOthers(base::CommandLine& line) {
    line.Add({"web-config-file", "DCGM_EXPORTER_WEB_CONFIG_FILE", "TLS and basic authentication"},
             &web_config);
    line.Add({"log-format", "DCGM_EXPORTER_LOG_FORMAT", "text or json"}, &log_format);
    line.Add({"debug", "DCGM_EXPORTER_DEBUG", "log more"}, &debug);
    line.Add({"remote-hostengine-info,r", "DCGM_REMOTE_HOSTENGINE_INFO", "not there: refused"},
             &remote);
    line.Add({"web-systemd-socket", "DCGM_EXPORTER_SYSTEMD_SOCKET", "not there: refused"},
             &systemd_socket);
    line.Add({"fake-gpus", "DCGM_EXPORTER_USE_FAKE_GPUS", "without effect"}, &fake_gpus);
    line.Add({"enable-dcgm-log", "DCGM_EXPORTER_ENABLE_DCGM_LOG", "without effect"}, &dcgm_log);
    line.Add({"dcgm-log-level", "DCGM_EXPORTER_DCGM_LOG_LEVEL", "checked, without effect"},
             &dcgm_log_level);
    line.Add({"dump-enabled", "DCGM_EXPORTER_DUMP_ENABLED", "without effect"}, &dump);
    line.Add({"dump-directory", "DCGM_EXPORTER_DUMP_DIRECTORY", "without effect"}, &dump_folder);
    line.Add({"dump-retention", "DCGM_EXPORTER_DUMP_RETENTION", "without effect"}, &dump_retention);
    line.Add({"dump-compression", "DCGM_EXPORTER_DUMP_COMPRESSION", "without effect"},
             &dump_compression);
    line.Add({"disable-startup-validate", "DISABLE_STARTUP_VALIDATE", "without effect"},
             &no_validation);
    line.Add({"enable-gpu-bind-unbind-watch", "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH",
              "without effect: every round looks which GPUs there are"},
             &bind_watch);
    line.Add({"gpu-bind-unbind-poll-interval", "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL",
              "without effect"},
             &bind_interval);
    line.Add({"enable-pprof", "DCGM_EXPORTER_ENABLE_PPROF", "without effect"}, &pprof);
  }
};

std::unexpected<base::Error> Wrong(std::string message) {
  return base::Fail(base::Invalid("BadUsage", std::move(message)));
}

// Set, and not to nothing.
bool Given(const Text& text) { return text && !text->empty(); }

base::Status TakeDuration(const Number& given, std::string_view flag,
                          std::chrono::milliseconds& target) {
  if (!given) return {};
  constexpr std::int64_t kMost = 24LL * 60 * 60 * 1000;
  if (*given <= 0 || *given > kMost) {
    return Wrong(fmt::format("--{}={}: milliseconds, from 1 to {}", flag, *given, kMost));
  }
  target = std::chrono::milliseconds(*given);
  return {};
}

base::Status TakeReadings(const Flags& flags, Options& options) {
  if (Given(flags.collectors)) options.counter_file = *flags.collectors;
  if (Given(flags.address)) options.address = *flags.address;
  if (Given(flags.config_map) && *flags.config_map != "none") {
    options.config_map = *flags.config_map;
    if (std::ranges::count(options.config_map, ':') != 1) {
      return Wrong(fmt::format("--configmap-data={}: write namespace:name", options.config_map));
    }
  }
  TRY(TakeDuration(flags.interval, "collect-interval", options.interval));
  TRY(TakeDuration(flags.xid_window, "xid-count-window-size", options.windows.xids));
  TRY(TakeDuration(flags.clock_window, "clock-events-count-window-size",
                   options.windows.clock_events));
  TRY_ASSIGN(options.gpus, ParseDeviceSelection(flags.gpus.value_or("f"), "devices"));
  TRY_ASSIGN(options.switches,
             ParseDeviceSelection(flags.switches.value_or("f"), "switch-devices"));
  TRY_ASSIGN(options.cpus, ParseDeviceSelection(flags.cpus.value_or("f"), "cpu-devices"));
  options.replace_blanks = flags.replace_blanks.value_or(false);
  options.old_namespace = flags.old_namespace.value_or(false);
  options.no_hostname = flags.no_hostname.value_or(false);
  if (Given(flags.hostname_label)) options.hostname_label = *flags.hostname_label;
  if (options.hostname_label != "hostname" && options.hostname_label != "Hostname") {
    return Wrong(fmt::format("--hostname-label={}: hostname or Hostname", options.hostname_label));
  }
  options.node_name = flags.node_name.value_or("");
  return {};
}

base::Status TakeKubernetes(const Flags& flags, Options& options) {
  options.kubernetes = flags.kubernetes.value_or(false);
  options.claims = flags.dra.value_or(false);
  options.pod_labels = flags.pod_labels.value_or(false);
  options.pods.pod_uids = flags.pod_uids.value_or(false);
  options.pods.old_namespace = options.old_namespace;
  options.pods.virtual_gpus = flags.virtual_gpus.value_or(false);
  const auto id_type = Given(flags.id_type) ? *flags.id_type : "uid";
  if (id_type != "uid" && id_type != "device-name") {
    return Wrong(fmt::format("--kubernetes-gpu-id-type={}: uid or device-name", id_type));
  }
  options.pods.id_type = id_type == "uid" ? GpuIdType::kUuid : GpuIdType::kDeviceName;
  for (const auto& name : flags.resource_names.value_or(std::vector<std::string>())) {
    if (!name.empty()) options.pods.resource_names.push_back(name);
  }
  for (const auto& pattern : flags.label_patterns.value_or(std::vector<std::string>())) {
    if (!pattern.empty()) options.pod_label_patterns.push_back(pattern);
  }
  if (Given(flags.pod_resources)) options.pod_resources = *flags.pod_resources;
  if (Given(flags.job_folder)) options.job_folder = *flags.job_folder;
  options.kubeconfig = flags.kubeconfig.value_or("");
  return {};
}

// What upstream has and this exporter has not.
base::Status RefuseWhatIsMissing(const Flags& flags) {
  if (flags.remote) {
    return Wrong(fmt::format(
        "a remote host engine (DCGM_REMOTE_HOSTENGINE_INFO={}) cannot be used: this exporter reads "
        "the driver's NVML itself. Unset it (dcgm.enabled: false), or use NVIDIA's image of the "
        "exporter",
        *flags.remote));
  }
  if (flags.systemd_socket.value_or(false)) {
    return Wrong("--web-systemd-socket: sockets of systemd are not taken; use --address");
  }
  return {};
}

base::Status CheckWords(const Flags& flags, Options& options) {
  constexpr std::array<std::string_view, 7> kLevels = {"NONE", "FATAL", "ERROR", "WARN",
                                                       "INFO", "DEBUG", "VERB"};
  const auto level = flags.dcgm_log_level.value_or("NONE");
  if (std::ranges::find(kLevels, level) == kLevels.end()) {
    return Wrong(fmt::format("invalid dcgm-log-level parameter value: {}", level));
  }
  const auto format = Given(flags.log_format) ? *flags.log_format : "text";
  if (format != "text" && format != "json") {
    return Wrong(fmt::format("--log-format={}: text or json", format));
  }
  if (format == "json") options.log.format = base::LogFormat::kJson;
  if (flags.debug.value_or(false)) options.log.level = base::LogLevel::kDebug;
  if (Given(flags.web_config)) options.web_config = *flags.web_config;
  const std::pair<bool, std::string_view> without_effect[] = {
      {flags.fake_gpus.value_or(false), "--fake-gpus has no effect: GPUs come from the driver"},
      {flags.dcgm_log.value_or(false), "--enable-dcgm-log has no effect: there is no DCGM"},
      {flags.dump.value_or(false), "--dump-enabled has no effect: nothing is dumped"},
      {flags.pprof.value_or(false), "--enable-pprof has no effect: there is no Go runtime"}};
  for (const auto& [set, sentence] : without_effect) {
    if (set) options.warnings.emplace_back(sentence);
  }
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  Flags flags;
  base::CommandLine line("dcgm-exporter", "Tells Prometheus how this node's GPUs are.",
                         std::string("dcgm-exporter ") + PITCREW_VERSION);
  flags.AddReadings(line);
  flags.AddKubernetes(line);
  flags.AddOthers(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  Options options;
  TRY(TakeReadings(flags, options));
  TRY(TakeKubernetes(flags, options));
  TRY(CheckWords(flags, options));
  TRY(RefuseWhatIsMissing(flags));
  return options;
}

}  // namespace pitcrew::node::metrics_exporter
