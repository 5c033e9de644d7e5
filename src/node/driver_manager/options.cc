#include "node/driver_manager/options.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace pitcrew::node::driver_manager {
namespace {

base::Error Refuse(std::string message) {
  return base::Invalid("InvalidOption", std::move(message));
}

struct Flags {
  std::vector<std::string> commands;
  std::optional<std::string> node_name, namespace_name, kubeconfig, drain_timeout, custom_label,
      drain_selector, digest, pci_ids, mofed_timeout;
  std::optional<bool> drain_force, drain_delete_empty_dir, auto_drain, evict, rdma, host_mofed,
      force_reinstall, nvswitches;

  void AddTo(base::CommandLine& line) {
    line.AddWords("COMMAND", "uninstall_driver or preflight_check", &commands);
    line.Add({"node-name", "NODE_NAME", "this node"}, &node_name);
    line.Add({"operator-namespace", "OPERATOR_NAMESPACE", "the operator's namespace"},
             &namespace_name);
    line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file; in-cluster without it"}, &kubeconfig);
    line.Add({"drain-use-force", "DRAIN_USE_FORCE", "evict pods without a controller too"},
             &drain_force);
    line.Add({"drain-pod-selector-label", "DRAIN_POD_SELECTOR_LABEL",
              "label selector of the pods that a drain of the node is about"},
             &drain_selector);
    line.Add(
        {"drain-timeout-seconds", "DRAIN_TIMEOUT_SECONDS", "as a duration: 300s; 0s: no limit"},
        &drain_timeout);
    line.Add({"drain-delete-emptydir-data", "DRAIN_DELETE_EMPTYDIR_DATA",
              "evict pods with emptyDir volumes too"},
             &drain_delete_empty_dir);
    line.Add({"enable-auto-drain", "ENABLE_AUTO_DRAIN",
              "drain the node where evicting the pods that use GPUs does not free the driver"},
             &auto_drain);
    line.Add({"enable-gpu-pod-eviction", "ENABLE_GPU_POD_EVICTION", "evict pods that use GPUs"},
             &evict);
    line.Add({"node-label-for-gpu-pod-eviction", "NODE_LABEL_FOR_GPU_POD_EVICTION",
              "one more label to pause"},
             &custom_label);
    line.Add({"gpu-direct-rdma-enabled", "GPU_DIRECT_RDMA_ENABLED", "wait for the network driver"},
             &rdma);
    line.Add({"use-host-mofed", "USE_HOST_MOFED", "the network driver is the host's"}, &host_mofed);
    line.Add({"mofed-timeout", "MOFED_TIMEOUT",
              "how long the network driver is waited for, as a duration: 30m; 0s: no limit"},
             &mofed_timeout);
    line.Add({"force-reinstall", "FORCE_REINSTALL", "never keep a loaded driver"},
             &force_reinstall);
    line.Add({"unbind-nvswitches", "BIND_NVSWITCHES", "take NVSwitches from VFIO too"},
             &nvswitches);
    line.Add({"pci-ids", "PCI_IDS", "the PCI ID database, which names GPUs for virtual machines"},
             &pci_ids);
    line.Add({"driver-config-digest", "DRIVER_CONFIG_DIGEST", "what the driver is made from"},
             &digest);
  }
};

// Without a text, or with an empty one, the duration stays.
base::Status ReadDuration(std::string_view name, const std::optional<std::string>& text,
                          std::chrono::nanoseconds& duration) {
  if (!text || text->empty()) return {};
  const auto read = base::ParseGoDuration(*text);
  if (!read) {
    return base::Fail(Refuse(fmt::format(
        "{} is \"{}\"; it takes a duration with its unit, for example 300s", name, *text)));
  }
  duration = *read;
  return {};
}

}  // namespace

base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv, const base::CommandLine::Environment& environment) {
  Flags flags;
  base::CommandLine line("driver-manager", "Prepares this node for a driver container.",
                         std::string("driver-manager ") + PITCREW_VERSION);
  flags.AddTo(line);
  TRY_ASSIGN(const bool go_on, line.Parse(argc, argv, environment));
  if (!go_on) return std::nullopt;
  Options options;
  options.command = flags.commands.empty() ? "" : flags.commands.front();
  if (flags.commands.size() != 1 ||
      (options.command != "uninstall_driver" && options.command != "preflight_check")) {
    return base::Fail(Refuse("name one command: uninstall_driver or preflight_check"));
  }
  options.node_name = flags.node_name.value_or("");
  if (options.node_name.empty()) {
    return base::Fail(Refuse("the node's name is missing: set NODE_NAME or --node-name"));
  }
  if (flags.namespace_name) options.namespace_name = *flags.namespace_name;
  options.kubeconfig = flags.kubeconfig.value_or("");
  TRY(ReadDuration("DRAIN_TIMEOUT_SECONDS", flags.drain_timeout, options.drain_timeout));
  TRY(ReadDuration("MOFED_TIMEOUT", flags.mofed_timeout, options.mofed_timeout));
  options.drain_pod_selector = flags.drain_selector.value_or("");
  options.custom_pause_label = flags.custom_label.value_or("");
  options.config_digest = flags.digest.value_or("");
  if (flags.pci_ids && !flags.pci_ids->empty()) options.pci_ids = *flags.pci_ids;
  options.drain_force = flags.drain_force.value_or(options.drain_force);
  options.drain_delete_empty_dir =
      flags.drain_delete_empty_dir.value_or(options.drain_delete_empty_dir);
  options.auto_drain = flags.auto_drain.value_or(options.auto_drain);
  options.evict_gpu_pods = flags.evict.value_or(options.evict_gpu_pods);
  options.gpu_direct_rdma = flags.rdma.value_or(options.gpu_direct_rdma);
  options.host_mofed = flags.host_mofed.value_or(options.host_mofed);
  options.nvswitches = flags.nvswitches.value_or(options.nvswitches);
  options.force_reinstall = flags.force_reinstall.value_or(options.force_reinstall);
  return options;
}

}  // namespace pitcrew::node::driver_manager
