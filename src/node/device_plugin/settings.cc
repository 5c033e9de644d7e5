#include "node/device_plugin/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace pitcrew::node::device_plugin {
namespace {

using base::Result;
using base::Status;

constexpr std::string_view kDefaultKubeletSocket = "/var/lib/kubelet/device-plugins/kubelet.sock";

// A default of its own for each flag of section 3.
api::PluginFlags Defaults() {
  api::PluginFlags flags;
  flags.mig_strategy = "none";
  flags.fail_on_init_error = true;
  flags.mps_root = "";
  flags.driver_root = "/";
  flags.gdrcopy_enabled = false;
  flags.gds_enabled = false;
  flags.mofed_enabled = false;
  flags.device_discovery_strategy = "auto";
  flags.pass_device_specs = false;
  flags.device_list_strategy = {"envvar"};
  flags.device_id_strategy = "uuid";
  flags.cdi_annotation_prefix = std::string(api::kCdiAnnotationPrefix);
  flags.cdi_hook_path = "/usr/bin/nvidia-ctk";
  flags.driver_root_in_here = "/driver-root";
  flags.shared_devices_allocation_policy = "distributed";
  flags.imex_channel_ids.emplace();
  flags.imex_required = false;
  return flags;
}

base::Error Bad(std::string_view flag, std::string_view value, std::string_view right) {
  return base::Invalid("BadSettings",
                       fmt::format("{} is \"{}\"; it must be {}", flag, value, right));
}

Result<ListStrategies> ReadListStrategies(const std::vector<std::string>& names) {
  ListStrategies strategies;
  for (const auto& name : names) {
    if (name == "envvar") {
      strategies.envvar = true;
    } else if (name == "volume-mounts") {
      strategies.volume_mounts = true;
    } else if (name == "cdi-annotations") {
      strategies.cdi_annotations = true;
    } else if (name == "cdi-cri") {
      strategies.cdi_cri = true;
    } else {
      return base::Fail(
          Bad("device-list-strategy", name, "envvar, volume-mounts, cdi-annotations or cdi-cri"));
    }
  }
  return strategies;
}

Status ReadStrategies(const api::PluginFlags& flags, Settings& settings) {
  TRY_ASSIGN(settings.list_strategies, ReadListStrategies(*flags.device_list_strategy));
  if (*flags.device_id_strategy != "uuid" && *flags.device_id_strategy != "index") {
    return base::Fail(Bad("device-id-strategy", *flags.device_id_strategy, "uuid or index"));
  }
  settings.device_id_strategy =
      *flags.device_id_strategy == "uuid" ? DeviceIdStrategy::kUuid : DeviceIdStrategy::kIndex;
  const auto& policy = *flags.shared_devices_allocation_policy;
  if (policy != "distributed" && policy != "packed") {
    return base::Fail(Bad("shared-devices-allocation-policy", policy, "distributed or packed"));
  }
  settings.shared_allocation =
      policy == "packed" ? SharedAllocation::kPacked : SharedAllocation::kDistributed;
  return {};
}

// Order of section 3.2, numbers 5 to 8.
Status CheckTogether(const api::PluginFlags& flags, Settings& settings) {
  if (settings.sharing.strategy() == api::SharingStrategy::kMps) {
    if (*flags.mig_strategy == "mixed") {
      return base::Fail(
          Bad("mig-strategy", "mixed", "none or single while devices are shared by MPS"));
    }
    if (settings.mps_root.empty()) {
      return base::Fail(Bad("mps-root", "", "set while devices are shared by MPS"));
    }
  }
  const auto& discovery = *flags.device_discovery_strategy;
  if (discovery == "tegra") {
    return base::Fail({base::Code::kUnsupported, "TegraNotSupported",
                       "device-discovery-strategy is \"tegra\"; Pitcrew does not support Tegra "
                       "systems: use NVIDIA's device plugin on this node"});
  }
  if (discovery != "auto" && discovery != "nvml") {
    return base::Fail(Bad("device-discovery-strategy", discovery, "auto or nvml"));
  }
  auto strategy = gpu::ParseMigStrategy(*flags.mig_strategy);
  if (!strategy)
    return base::Fail(Bad("mig-strategy", *flags.mig_strategy, "none, single or mixed"));
  settings.mig_strategy = *strategy;
  settings.imex_channels = *flags.imex_channel_ids;
  if (!settings.imex_channels.empty() && settings.imex_channels != std::vector<std::int64_t>{0}) {
    return base::Fail(Bad("imex-channel-ids",
                          fmt::format("{}", fmt::join(settings.imex_channels, ",")), "empty or 0"));
  }
  return {};
}

void AddFlags(base::CommandLine& line, api::PluginFlags& flags) {
  line.Add({"mig-strategy", "MIG_STRATEGY", "how MIG devices are offered: none, single or mixed"},
           &flags.mig_strategy);
  line.Add({"fail-on-init-error", "FAIL_ON_INIT_ERROR",
            "end with an error when the driver cannot be reached; otherwise wait for it"},
           &flags.fail_on_init_error);
  line.Add({"driver-root,nvidia-driver-root", "NVIDIA_DRIVER_ROOT", "driver root on the host"},
           &flags.driver_root);
  line.Add({"dev-root,nvidia-dev-root", "NVIDIA_DEV_ROOT",
            "root of the device nodes on the host; the driver root when not set"},
           &flags.dev_root);
  line.Add({"pass-device-specs", "PASS_DEVICE_SPECS", "name the device nodes to the kubelet"},
           &flags.pass_device_specs);
  line.Add({"device-list-strategy", "DEVICE_LIST_STRATEGY",
            "how containers get devices: envvar, volume-mounts, cdi-annotations, cdi-cri"},
           &flags.device_list_strategy);
  line.Add({"device-id-strategy", "DEVICE_ID_STRATEGY", "how devices are named: uuid or index"},
           &flags.device_id_strategy);
  line.Add({"gdrcopy-enabled", "GDRCOPY_ENABLED", "give containers GDRCopy"},
           &flags.gdrcopy_enabled);
  line.Add({"gds-enabled", "GDS_ENABLED", "give containers GPUDirect Storage"}, &flags.gds_enabled);
  line.Add({"mofed-enabled", "MOFED_ENABLED", "give containers MOFED"}, &flags.mofed_enabled);
  line.Add({"cdi-annotation-prefix", "CDI_ANNOTATION_PREFIX", "prefix of CDI annotations"},
           &flags.cdi_annotation_prefix);
  line.Add({"nvidia-cdi-hook-path,nvidia-ctk-path", "NVIDIA_CDI_HOOK_PATH,NVIDIA_CTK_PATH",
            "hook program, on the host, that CDI specifications name"},
           &flags.cdi_hook_path);
  line.Add({"driver-root-ctr-path,container-driver-root",
            "DRIVER_ROOT_CTR_PATH,CONTAINER_DRIVER_ROOT", "driver root as this process sees it"},
           &flags.driver_root_in_here);
  line.Add({"mps-root", "MPS_ROOT", "MPS folder on the host"}, &flags.mps_root);
  line.Add({"shared-devices-allocation-policy", "SHARED_DEVICES_ALLOCATION_POLICY",
            "which replicas are preferred: distributed or packed"},
           &flags.shared_devices_allocation_policy);
  line.Add({"device-discovery-strategy", "DEVICE_DISCOVERY_STRATEGY",
            "where devices are found: auto or nvml"},
           &flags.device_discovery_strategy);
  line.Add({"imex-channel-ids", "IMEX_CHANNEL_IDS", "IMEX channels for every container"},
           &flags.imex_channel_ids);
  line.Add({"imex-required", "IMEX_REQUIRED", "end with an error when an IMEX channel is missing"},
           &flags.imex_required);
}

}  // namespace

Result<std::optional<Options>> ParseOptions(int argc, const char* const* argv,
                                            const base::CommandLine::Environment& environment) {
  base::CommandLine line("nvidia-device-plugin", "Offers a node's NVIDIA GPUs to the kubelet",
                         "NVIDIA Device Plugin version " PITCREW_VERSION);
  Options options;
  std::optional<std::string> kubelet_socket;
  std::optional<std::string> config_file;
  std::optional<std::vector<std::string>> feature_flags;
  std::optional<std::vector<std::string>> disabled_hooks;
  std::optional<std::string> node_name;
  std::optional<std::string> pod_name;
  std::optional<std::string> kubeconfig;
  std::optional<std::string> metrics_address;
  AddFlags(line, options.flags);
  line.Add({"kubelet-socket", "KUBELET_SOCKET", "the kubelet's socket; empty: do not register"},
           &kubelet_socket);
  line.Add({"config-file", "CONFIG_FILE", "configuration file, version v1"}, &config_file);
  line.Add({"cdi-feature-flags", "CDI_FEATURE_FLAGS", "features of CDI generation"},
           &feature_flags);
  line.Add({"cdi-disable-hooks", "CDI_DISABLE_HOOKS",
            "hooks that CDI specifications must not have; all: none at all"},
           &disabled_hooks);
  line.Add({"node-name", "NODE_NAME", "name of this node, for Events; empty: none are sent"},
           &node_name);
  line.Add({"pod-name", "POD_NAME", "name of this pod, for Events"}, &pod_name);
  line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file, for Events; empty: in-cluster"},
           &kubeconfig);
  line.Add({"metrics-address", "METRICS_ADDRESS",
            "where metrics are served, such as :9402; empty: nowhere"},
           &metrics_address);
  TRY_ASSIGN(const bool run, line.Parse(argc, argv, environment));
  if (!run) return std::nullopt;
  options.kubelet_socket = kubelet_socket.value_or(std::string(kDefaultKubeletSocket));
  options.config_file = config_file.value_or("");
  options.cdi_feature_flags = feature_flags.value_or(std::vector<std::string>());
  options.cdi_disabled_hooks = disabled_hooks.value_or(std::vector<std::string>());
  options.node_name = node_name.value_or("");
  options.pod_name = pod_name.value_or("");
  options.kubeconfig = kubeconfig.value_or("");
  options.metrics_address = metrics_address.value_or("");
  options.xid_policy =
      gpu::XidPolicy::FromLists(environment("DP_DISABLE_HEALTHCHECKS").value_or(""),
                                environment("DP_ENABLE_HEALTHCHECKS").value_or(""));
  return options;
}

Result<Settings> Merge(const api::PluginFlags& given, const api::PluginConfig& file) {
  api::PluginFlags flags = given;
  flags.FillFrom(file.flags);
  flags.FillFrom(Defaults());
  Settings settings;
  settings.sharing = file.sharing;
  settings.warnings = file.warnings;
  settings.fail_on_init_error = *flags.fail_on_init_error;
  settings.driver_root = *flags.driver_root;
  // Unset or empty: where the driver is (section 3).
  settings.dev_root = flags.dev_root.value_or("").empty() ? settings.driver_root : *flags.dev_root;
  settings.driver_root_in_here =
      flags.driver_root_in_here->empty() ? "/" : *flags.driver_root_in_here;
  settings.pass_device_specs = *flags.pass_device_specs;
  settings.gdrcopy = *flags.gdrcopy_enabled;
  settings.gds = *flags.gds_enabled;
  settings.mofed = *flags.mofed_enabled;
  settings.cdi_annotation_prefix = *flags.cdi_annotation_prefix;
  settings.cdi_hook_path = *flags.cdi_hook_path;
  settings.mps_root = *flags.mps_root;
  settings.imex_required = *flags.imex_required;
  TRY(ReadStrategies(flags, settings));
  TRY(CheckTogether(flags, settings));
  return settings;
}

}  // namespace pitcrew::node::device_plugin
