#include "node/vgpu_device_manager/options.h"

#include <fmt/format.h>

namespace pitcrew::node::vgpu_device_manager {
namespace {

using Text = std::optional<std::string>;

std::unexpected<base::Error> Refuse(std::string message) {
  return base::Fail(base::Invalid("InvalidOption", std::move(message)));
}

struct Flags {
  Text kubeconfig, node_name, namespace_name, config_file, default_config, host_root, state_file,
      kubelet_service, driver_root, clients_file;
  std::optional<bool> with_reboot, shutdown_clients;

  void AddTo(base::CommandLine& line) {
    line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; in-cluster without it"}, &kubeconfig);
    line.Add({"node-name,n", "NODE_NAME", "this node"}, &node_name);
    line.Add({"namespace,ns", "NAMESPACE", "where the operands run that are paused"},
             &namespace_name);
    line.Add({"config-file,f", "CONFIG_FILE", "vGPU configurations"}, &config_file);
    line.Add({"default-vgpu-config,d", "DEFAULT_VGPU_CONFIG",
              "the configuration of a node without the label nvidia.com/vgpu.config"},
             &default_config);
    line.Add({"host-root-mount,m", "HOST_ROOT_MOUNT", "where the host's root is mounted"},
             &host_root);
    line.Add(
        {"driver-root-ctr-path,a", "DRIVER_ROOT_CTR_PATH", "where the driver's root is mounted"},
        &driver_root);
    AddWithoutEffect(line);
  }

 private:
  void AddWithoutEffect(base::CommandLine& line) {
    line.Add({"host-mig-manager-state-file,o", "HOST_MIG_MANAGER_STATE_FILE",
              "accepted, without effect"},
             &state_file);
    line.Add({"host-kubelet-systemd-service,k", "HOST_KUBELET_SYSTEMD_SERVICE",
              "accepted, without effect"},
             &kubelet_service);
    line.Add({"gpu-clients-file,g", "GPU_CLIENTS_FILE", "accepted, without effect"}, &clients_file);
    line.Add({"with-reboot,r", "WITH_REBOOT", "not there yet: refused when it is true"},
             &with_reboot);
    line.Add({"with-shutdown-host-gpu-clients,w", "WITH_SHUTDOWN_HOST_GPU_CLIENTS",
              "not there yet: refused when it is true"},
             &shutdown_clients);
  }
};

base::Status Require(const Text& value, std::string_view name, std::string_view variable) {
  if (value && !value->empty()) return {};
  return Refuse(fmt::format("invalid <{}> flag: must not be empty string; set {}", name, variable));
}

base::Status RefuseWhatIsMissing(const Flags& flags) {
  if (flags.with_reboot.value_or(false)) {
    return Refuse(
        "--with-reboot (WITH_REBOOT) is not there yet: restart the node by hand where a MIG mode "
        "needs it");
  }
  if (flags.shutdown_clients.value_or(false)) {
    return Refuse(
        "--with-shutdown-host-gpu-clients (WITH_SHUTDOWN_HOST_GPU_CLIENTS) is not there yet: stop "
        "the host's services that use its GPUs by hand");
  }
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv, const base::CommandLine::Environment& environment) {
  Flags flags;
  base::CommandLine line("nvidia-k8s-vgpu-dm",
                         "Cuts this node's GPUs into vGPUs as its label nvidia.com/vgpu.config "
                         "says.",
                         "nvidia-k8s-vgpu-dm version " PITCREW_VERSION);
  flags.AddTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  TRY(Require(flags.node_name, "node-name", "NODE_NAME"));
  TRY(Require(flags.namespace_name, "namespace", "NAMESPACE"));
  TRY(Require(flags.config_file, "config-file", "CONFIG_FILE"));
  TRY(Require(flags.default_config, "default-vgpu-config", "DEFAULT_VGPU_CONFIG"));
  TRY(RefuseWhatIsMissing(flags));
  Options options;
  options.kubeconfig = flags.kubeconfig.value_or("");
  options.node_name = *flags.node_name;
  options.namespace_name = *flags.namespace_name;
  options.config_file = *flags.config_file;
  options.default_config = *flags.default_config;
  if (flags.host_root) options.host_root = *flags.host_root;
  if (flags.driver_root) options.driver_root = *flags.driver_root;
  return options;
}

}  // namespace pitcrew::node::vgpu_device_manager
