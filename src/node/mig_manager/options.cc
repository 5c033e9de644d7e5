#include "node/mig_manager/options.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace pitcrew::node::mig_manager {
namespace {

using Text = std::optional<std::string>;

std::unexpected<base::Error> Refuse(std::string message) {
  return base::Fail(base::Invalid("InvalidOption", std::move(message)));
}

struct Flags {
  Text kubeconfig, node_name, namespace_name, pod_name, clients_namespace, config_file,
      default_config_file, script, host_root, host_nvidia_folder, state_file, kubelet_service,
      clients_file, driver_root, driver_root_container, dev_root, dev_root_container, hook_path,
      pods, pods_deadline;
  std::optional<bool> with_reboot, shutdown_clients, cdi, drain_force, drain_delete_empty_dir;

  void AddTo(base::CommandLine& line) {
    line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; in-cluster without it"}, &kubeconfig);
    line.Add({"node-name,n", "NODE_NAME", "this node"}, &node_name);
    line.Add({"pod-namespace", "POD_NAMESPACE", "namespace of this pod"}, &namespace_name);
    line.Add({"pod-name", "POD_NAME", "name of this pod"}, &pod_name);
    line.Add({"config-file,f", "CONFIG_FILE",
              "MIG configurations; without it they are generated from the hardware"},
             &config_file);
    line.Add({"default-config-file", "DEFAULT_CONFIG_FILE",
              "used where the driver does not tell the GPUs' profiles"},
             &default_config_file);
    line.Add({"reconfigure-script,s", "RECONFIGURE_SCRIPT", "accepted, without effect"}, &script);
    line.Add({"default-gpu-clients-namespace,p", "DEFAULT_GPU_CLIENTS_NAMESPACE",
              "where the operands run that are paused"},
             &clients_namespace);
    AddHost(line);
    AddDriver(line);
    AddPods(line);
  }

 private:
  void AddHost(base::CommandLine& line) {
    line.Add({"host-root-mount,m", "HOST_ROOT_MOUNT", "where the host's root is mounted"},
             &host_root);
    line.Add({"host-nvidia-dir,i", "HOST_NVIDIA_DIR", "accepted, without effect"},
             &host_nvidia_folder);
    line.Add({"host-mig-manager-state-file,o", "HOST_MIG_MANAGER_STATE_FILE",
              "where the host's own service reads the selected configuration"},
             &state_file);
    line.Add({"host-kubelet-systemd-service,k", "HOST_KUBELET_SYSTEMD_SERVICE",
              "the kubelet's unit, stopped for a change of the MIG mode"},
             &kubelet_service);
    line.Add({"gpu-clients-file,g", "GPU_CLIENTS_FILE", "services of the host that use the GPUs"},
             &clients_file);
    line.Add({"with-reboot,r", "WITH_REBOOT", "restart the node where a MIG mode needs it"},
             &with_reboot);
    line.Add({"with-shutdown-host-gpu-clients,d", "WITH_SHUTDOWN_HOST_GPU_CLIENTS",
              "stop services of the host that use the GPUs"},
             &shutdown_clients);
  }
  void AddDriver(base::CommandLine& line) {
    line.Add({"nvidia-driver-root,driver-root,t", "NVIDIA_DRIVER_ROOT,DRIVER_ROOT",
              "the driver's root on the host"},
             &driver_root);
    line.Add({"driver-root-ctr-path,a", "DRIVER_ROOT_CTR_PATH", "the same for this process"},
             &driver_root_container);
    line.Add({"dev-root,b", "NVIDIA_DEV_ROOT", "root of the device nodes on the host"}, &dev_root);
    line.Add({"dev-root-ctr-path,j", "DEV_ROOT_CTR_PATH", "the same for this process"},
             &dev_root_container);
    line.Add({"cdi-enabled", "CDI_ENABLED", "write the management CDI specification"}, &cdi);
    line.Add({"nvidia-cdi-hook-path", "NVIDIA_CDI_HOOK_PATH", "the hook in CDI specifications"},
             &hook_path);
  }
  void AddPods(base::CommandLine& line) {
    line.Add({"gpu-pods", "MIG_GPU_PODS",
              "pods that hold a GPU which is to change: ignore, wait or drain"},
             &pods);
    line.Add({"gpu-pods-deadline", "MIG_GPU_PODS_DEADLINE",
              "how long they are waited for, as a duration: 30m; 0s: no limit"},
             &pods_deadline);
    line.Add({"drain-use-force", "DRAIN_USE_FORCE", "evict pods without a controller too"},
             &drain_force);
    line.Add({"drain-delete-emptydir-data", "DRAIN_DELETE_EMPTYDIR_DATA",
              "evict pods with emptyDir volumes too"},
             &drain_delete_empty_dir);
  }
};

template <class Value, class Target>
void Take(const std::optional<Value>& given, Target& target) {
  if (given) target = *given;
}

// As upstream's command line library: an empty text takes the place of a default.
void TakePaths(const Flags& flags, Options& options) {
  Take(flags.kubeconfig, options.kubeconfig);
  Take(flags.namespace_name, options.namespace_name);
  Take(flags.pod_name, options.pod_name);
  Take(flags.clients_namespace, options.clients_namespace);
  Take(flags.config_file, options.config_file);
  Take(flags.default_config_file, options.default_config_file);
  Take(flags.host_root, options.host_root);
  Take(flags.state_file, options.state_file);
  Take(flags.kubelet_service, options.kubelet_service);
  Take(flags.clients_file, options.gpu_clients_file);
  Take(flags.driver_root, options.driver_root);
  Take(flags.driver_root_container, options.driver_root_container);
  Take(flags.dev_root, options.dev_root);
  Take(flags.dev_root_container, options.dev_root_container);
  Take(flags.hook_path, options.cdi_hook_path);
}

base::Status TakePodPolicy(const Flags& flags, Options& options) {
  if (flags.pods && !flags.pods->empty()) {
    if (*flags.pods == "ignore") {
      options.pods = PodPolicy::kIgnore;
    } else if (*flags.pods == "wait") {
      options.pods = PodPolicy::kWait;
    } else if (*flags.pods == "drain") {
      options.pods = PodPolicy::kDrain;
    } else {
      return Refuse(
          fmt::format("MIG_GPU_PODS (--gpu-pods) is \"{}\"; it is one of ignore, wait, "
                      "drain",
                      *flags.pods));
    }
  }
  if (flags.pods_deadline && !flags.pods_deadline->empty()) {
    const auto deadline = base::ParseGoDuration(*flags.pods_deadline);
    if (!deadline || deadline->count() < 0) {
      return Refuse(
          fmt::format("MIG_GPU_PODS_DEADLINE (--gpu-pods-deadline) is \"{}\"; it takes a "
                      "duration with its unit, for example 30m",
                      *flags.pods_deadline));
    }
    options.pods_deadline = *deadline;
  }
  Take(flags.drain_force, options.drain_force);
  Take(flags.drain_delete_empty_dir, options.drain_delete_empty_dir);
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv, const base::CommandLine::Environment& environment) {
  Flags flags;
  base::CommandLine line("nvidia-mig-manager",
                         "Divides this node's GPUs as its label nvidia.com/mig.config says.",
                         std::string("nvidia-mig-manager ") + PITCREW_VERSION);
  flags.AddTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  Options options;
  options.node_name = flags.node_name.value_or("");
  if (options.node_name.empty()) {
    return Refuse("invalid -n <node-name> flag: must not be empty string; set NODE_NAME");
  }
  TakePaths(flags, options);
  Take(flags.with_reboot, options.with_reboot);
  Take(flags.shutdown_clients, options.shutdown_host_clients);
  Take(flags.cdi, options.cdi_enabled);
  TRY(TakePodPolicy(flags, options));
  return options;
}

}  // namespace pitcrew::node::mig_manager
