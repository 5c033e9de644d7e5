#include "node/feature_discovery/settings.h"

#include <fmt/format.h>

namespace pitcrew::node::feature_discovery {
namespace {

using base::Result;

api::PluginFlags Defaults() {
  api::PluginFlags flags;
  flags.mig_strategy = "none";
  flags.fail_on_init_error = true;
  flags.oneshot = false;
  flags.no_timestamp = false;
  flags.sleep_interval = std::chrono::seconds(60);
  flags.output_file = "/etc/kubernetes/node-feature-discovery/features.d/gfd";
  flags.machine_type_file = "/sys/class/dmi/id/product_name";
  flags.use_node_feature_api = true;
  flags.device_discovery_strategy = "auto";
  flags.driver_root_in_here = "/driver-root";
  return flags;
}

void AddFlags(base::CommandLine& line, api::PluginFlags& flags) {
  line.Add({"mig-strategy", "GFD_MIG_STRATEGY,MIG_STRATEGY",
            "how MIG devices are offered: none, single or mixed"},
           &flags.mig_strategy);
  line.Add({"fail-on-init-error", "GFD_FAIL_ON_INIT_ERROR,FAIL_ON_INIT_ERROR",
            "end with an error when the driver cannot be reached; otherwise wait for it"},
           &flags.fail_on_init_error);
  line.Add({"oneshot", "GFD_ONESHOT", "label once and end"}, &flags.oneshot);
  line.Add({"no-timestamp", "GFD_NO_TIMESTAMP", "no label with the time"}, &flags.no_timestamp);
  line.Add(
      {"output-file,output,o", "GFD_OUTPUT_FILE", "file for the labels; empty: standard output"},
      &flags.output_file);
  line.Add({"machine-type-file", "GFD_MACHINE_TYPE_FILE", "file with the machine's product name"},
           &flags.machine_type_file);
  line.Add({"use-node-feature-api", "GFD_USE_NODE_FEATURE_API,USE_NODE_FEATURE_API",
            "publish a NodeFeature object instead of a file"},
           &flags.use_node_feature_api);
  line.Add({"device-discovery-strategy", "DEVICE_DISCOVERY_STRATEGY",
            "where devices are found: auto or nvml"},
           &flags.device_discovery_strategy);
  line.Add({"driver-root-ctr-path,container-driver-root",
            "DRIVER_ROOT_CTR_PATH,CONTAINER_DRIVER_ROOT", "driver root as this process sees it"},
           &flags.driver_root_in_here);
}

}  // namespace

Result<std::optional<Options>> ParseOptions(int argc, const char* const* argv,
                                            const base::CommandLine::Environment& environment) {
  base::CommandLine line("gpu-feature-discovery", "Labels a node with what its NVIDIA GPUs are",
                         "GPU Feature Discovery version " PITCREW_VERSION);
  Options options;
  std::optional<std::string> interval;
  std::optional<std::string> config_file;
  std::optional<std::string> kubeconfig;
  std::optional<std::string> namespace_name;
  std::optional<std::string> node_name;
  std::optional<std::string> pod_name;
  std::optional<double> queries_per_second;
  std::optional<std::int64_t> burst;
  AddFlags(line, options.flags);
  line.Add({"sleep-interval", "GFD_SLEEP_INTERVAL",
            "longest time between two looks, such as 60s; infinite: look once"},
           &interval);
  line.Add({"config-file", "GFD_CONFIG_FILE,CONFIG_FILE", "configuration file, version v1"},
           &config_file);
  line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; empty: in-cluster"}, &kubeconfig);
  line.Add({"kube-api-qps", "KUBE_API_QPS", "accepted; there are no requests to hold back"},
           &queries_per_second);
  line.Add({"kube-api-burst", "KUBE_API_BURST", "accepted; there are no requests to hold back"},
           &burst);
  line.Add({"namespace", "NAMESPACE", "namespace of the NodeFeature"}, &namespace_name);
  line.Add({"node-name", "NODE_NAME", "name of this node"}, &node_name);
  line.Add({"pod-name", "POD_NAME", "name of this pod"}, &pod_name);
  TRY_ASSIGN(const bool run, line.Parse(argc, argv, environment));
  if (!run) return std::nullopt;
  // A duration that is present but empty counts as not set (device-plugin.md section 3.1).
  if (interval && !interval->empty()) {
    auto parsed = api::ParseSleepInterval(*interval);
    if (!parsed) return base::Fail(parsed.error().Within("--sleep-interval"));
    options.flags.sleep_interval = *parsed;
  }
  options.config_file = config_file.value_or("");
  options.kubeconfig = kubeconfig.value_or("");
  options.namespace_name = namespace_name.value_or("default");
  options.node_name = node_name.value_or("");
  options.pod_name = pod_name.value_or("");
  return options;
}

Result<Settings> Merge(const Options& options, const api::PluginConfig& file) {
  api::PluginFlags flags = options.flags;
  flags.FillFrom(file.flags);
  flags.FillFrom(Defaults());
  Settings settings;
  TRY_ASSIGN(settings.mig_strategy, gpu::ParseMigStrategy(*flags.mig_strategy));
  const auto& discovery = *flags.device_discovery_strategy;
  if (discovery == "tegra" || discovery == "vfio") {
    return base::Fail({base::Code::kUnsupported, "DiscoveryNotSupported",
                       fmt::format("device-discovery-strategy \"{}\" is not supported: use "
                                   "NVIDIA's feature discovery on this node",
                                   discovery)});
  }
  if (discovery != "auto" && discovery != "nvml") {
    return base::Fail(base::Invalid(
        "BadSettings",
        fmt::format("device-discovery-strategy is \"{}\"; it must be auto or nvml", discovery)));
  }
  settings.fail_on_init_error = *flags.fail_on_init_error;
  settings.oneshot = *flags.oneshot;
  settings.no_timestamp = *flags.no_timestamp;
  settings.longest_interval = *flags.sleep_interval;
  settings.output_file = *flags.output_file;
  settings.machine_type_file = *flags.machine_type_file;
  settings.use_node_feature_api = *flags.use_node_feature_api;
  settings.driver_root_in_here =
      flags.driver_root_in_here->empty() ? "/" : *flags.driver_root_in_here;
  settings.sharing = file.sharing;
  settings.warnings = file.warnings;
  if (settings.use_node_feature_api &&
      (options.node_name.empty() || options.namespace_name.empty())) {
    return base::Fail(base::Invalid(
        "BadSettings",
        "a NodeFeature needs --node-name (NODE_NAME) and --namespace (NAMESPACE); without them set "
        "USE_NODE_FEATURE_API=false"));
  }
  return settings;
}

}  // namespace pitcrew::node::feature_discovery
