#include "node/validator/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/strings.h"

namespace pitcrew::node::validator {
namespace {

constexpr std::array kComponents = {
#define COMPONENT(name) std::string_view(name),
#include "node/validator/components.def"
#undef COMPONENT
};

base::Status Refuse(std::string message) {
  return base::Fail(base::Invalid("InvalidFlag", std::move(message)));
}

base::Status Check(const Options& options) {
  const auto& component = options.component;
  if (component.empty()) {
    return Refuse("invalid -c <component-name> flag: must not be empty string");
  }
  if (std::ranges::find(kComponents, component) == kComponents.end()) {
    return Refuse(fmt::format("invalid -c <component-name> flag value: {}; one of {}", component,
                              fmt::join(kComponents, ", ")));
  }
  const bool has_pods = component == "plugin" || component == "cuda";
  const bool asks_node = component == "vfio-pci" || component == "vgpu-manager" ||
                         component == "vgpu-devices" || component == "cc-manager" ||
                         component == "mofed";
  if ((has_pods || asks_node) && options.node_name.empty()) {
    return Refuse(fmt::format(
        "invalid -n <node-name> flag: must not be empty string for {} validation", component));
  }
  if (has_pods && options.namespace_name.empty()) {
    return Refuse(fmt::format(
        "invalid -ns <namespace> flag: must not be empty string for {} validation", component));
  }
  if (component != "metrics") return {};
  constexpr int kMostPorts = 65535;
  if (options.metrics_port <= 0 || options.metrics_port > kMostPorts) {
    return Refuse("invalid -p <port> flag: must not be empty or 0 for the metrics component");
  }
  if (options.node_name.empty()) {
    return Refuse("invalid -n <node-name> flag: must not be empty string for metrics exporter");
  }
  return {};
}

// Flags as they are read; unset ones leave the default.
struct Flags {
  std::optional<std::string> kubeconfig, node_name, namespace_name, component, output_folder,
      mig_strategy, default_workload, host_root, driver_install_folder, driver_seen_at, image,
      image_pull_policy, runtime_class;
  std::optional<std::vector<std::string>> image_pull_secrets;
  std::optional<bool> with_wait, with_workload, cleanup_all, no_device_links,
      skip_gpu_initialisation;
  std::optional<std::int64_t> interval, metrics_port;

  void AddTo(base::CommandLine& line) {
    line.Add({"component,c", "COMPONENT", "what to validate"}, &component);
    line.Add({"node-name,n", "NODE_NAME", "this node"}, &node_name);
    line.Add({"namespace,ns", "OPERATOR_NAMESPACE", "the operator's namespace"}, &namespace_name);
    line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; in-cluster without it"}, &kubeconfig);
    line.Add({"with-wait,w", "WITH_WAIT", "wait until the component is valid"}, &with_wait);
    line.Add({"with-workload,l", "WITH_WORKLOAD", "run a GPU pod (cuda, plugin)"}, &with_workload);
    line.Add({"cleanup-all,r", "CLEANUP_ALL", "empty the output folder first"}, &cleanup_all);
    line.Add({"output-dir,o", "OUTPUT_DIR", "folder of the status files"}, &output_folder);
    line.Add({"sleep-interval-seconds,s", "SLEEP_INTERVAL_SECONDS",
              "longest pause between two tries of a wait"},
             &interval);
    line.Add({"mig-strategy,m", "MIG_STRATEGY", "accepted, without effect"}, &mig_strategy);
    line.Add({"metrics-port,p", "METRICS_PORT", "where the component metrics listens"},
             &metrics_port);
    line.Add({"default-gpu-workload-config,g", "DEFAULT_GPU_WORKLOAD_CONFIG",
              "workload of a node whose label names none: container, vm-passthrough or vm-vgpu"},
             &default_workload);
    line.Add({"disable-dev-char-symlink-creation", "DISABLE_DEV_CHAR_SYMLINK_CREATION",
              "make no links in /dev/char"},
             &no_device_links);
    line.Add({"host-root", "HOST_ROOT", "host path of the host's root"}, &host_root);
    line.Add({"driver-install-dir", "DRIVER_INSTALL_DIR", "host path of a containerised driver"},
             &driver_install_folder);
    line.Add({"driver-install-dir-ctr-path", "DRIVER_INSTALL_DIR_CTR_PATH",
              "where that is mounted here"},
             &driver_seen_at);
    line.Add({"driver-validation-skip-gpu-init", "DRIVER_VALIDATION_SKIP_GPU_INIT",
              "do not initialise the GPUs"},
             &skip_gpu_initialisation);
    line.Add({"validator-image", "VALIDATOR_IMAGE", "image of workload pods"}, &image);
    line.Add({"validator-image-pull-policy", "VALIDATOR_IMAGE_PULL_POLICY", "their pull policy"},
             &image_pull_policy);
    line.Add({"validator-image-pull-secrets", "VALIDATOR_IMAGE_PULL_SECRETS", "their pull secrets"},
             &image_pull_secrets);
    line.Add({"validator-runtime-class", "VALIDATOR_RUNTIME_CLASS", "their runtime class"},
             &runtime_class);
  }
};

// A variable that is set to nothing leaves the default.
template <class Target>
void Take(const std::optional<std::string>& given, Target& target) {
  if (given && !given->empty()) target = *given;
}
void Take(const std::optional<bool>& given, bool& target) {
  if (given) target = *given;
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv, const base::CommandLine::Environment& environment) {
  Flags flags;
  base::CommandLine line("nvidia-validator",
                         "Proves that one component of the GPU stack works on this node.",
                         std::string("nvidia-validator ") + PITCREW_VERSION);
  flags.AddTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  Options options;
  Take(flags.component, options.component);
  Take(flags.node_name, options.node_name);
  Take(flags.namespace_name, options.namespace_name);
  Take(flags.kubeconfig, options.kubeconfig);
  Take(flags.with_wait, options.with_wait);
  Take(flags.with_workload, options.with_workload);
  Take(flags.cleanup_all, options.cleanup_all);
  Take(flags.output_folder, options.output_folder);
  Take(flags.no_device_links, options.no_device_links);
  Take(flags.host_root, options.host_root);
  Take(flags.driver_install_folder, options.driver_install_folder);
  Take(flags.driver_seen_at, options.driver_seen_at);
  Take(flags.skip_gpu_initialisation, options.skip_gpu_initialisation);
  Take(flags.image, options.image);
  Take(flags.image_pull_policy, options.image_pull_policy);
  Take(flags.runtime_class, options.runtime_class);
  Take(flags.default_workload, options.default_workload);
  options.uses_rdma = environment("GPU_DIRECT_RDMA_ENABLED") == "true";
  options.network_driver_on_host = environment("USE_HOST_MOFED") == "true";
  if (flags.interval && *flags.interval > 0) {
    options.retry_interval = std::chrono::seconds(*flags.interval);
  }
  if (flags.metrics_port) {
    constexpr std::int64_t kNoPort = -1;
    const auto port = *flags.metrics_port;
    options.metrics_port = static_cast<int>(port >= 0 && port <= 65535 ? port : kNoPort);
  }
  for (const auto& secret : flags.image_pull_secrets.value_or(std::vector<std::string>())) {
    if (!secret.empty()) options.image_pull_secrets.push_back(secret);
  }
  TRY(Check(options));
  return options;
}

}  // namespace pitcrew::node::validator
