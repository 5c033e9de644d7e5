#include "node/sandbox_device_plugin/settings.h"

#include <fmt/format.h>

#include "cdi/name.h"
#include "gpu/device_names.h"
#include "rpc/device_plugin.h"

namespace pitcrew::node::sandbox_device_plugin {
namespace {

using Text = std::optional<std::string>;

constexpr std::string_view kGpuAlias = "pgpu";
constexpr std::string_view kSwitchAlias = "nvswitch";

// It becomes a resource and the class of a CDI specification.
base::Status CheckAlias(std::string_view variable, const std::string& alias) {
  if (alias.empty()) return {};
  if (gpu::IsUsableName(alias) && cdi::ValidateKind("nvidia.com/" + alias)) return {};
  return base::Fail(base::Invalid(
      "BadAlias", fmt::format("{} is \"{}\"; it must begin with a letter, end with a letter or "
                              "digit, have _ and - at most between them, and at most 61 characters",
                              variable, alias)));
}

base::Status ReadKata(const Text& gpu, const Text& nvswitch, const std::optional<bool>& gfd,
                      Options& options) {
  options.gpu_alias = gpu.value_or(std::string(kGpuAlias));
  options.switch_alias = nvswitch.value_or(std::string(kSwitchAlias));
  TRY(CheckAlias("P_GPU_ALIAS", options.gpu_alias));
  TRY(CheckAlias("NVSWITCH_ALIAS", options.switch_alias));
  if (options.gpu_alias == options.switch_alias && !options.gpu_alias.empty()) {
    return base::Fail(base::Invalid(
        "BadAlias", fmt::format("P_GPU_ALIAS and NVSWITCH_ALIAS are both \"{}\": GPUs and "
                                "NVSwitches cannot have one name",
                                options.gpu_alias)));
  }
  if (gfd.value_or(false)) {
    options.warnings.emplace_back(
        "ENABLE_GFD is set and has no effect: GPU feature discovery in a Kata pod is not supported "
        "yet; use NVIDIA's image of the Kata device plugin if you need its labels");
  }
  return {};
}

}  // namespace

std::string_view ProgramName(Client client) {
  return client == Client::kKata ? "nvidia-sandbox-device-plugin"
                                 : "nvidia-kubevirt-gpu-device-plugin";
}

base::Result<std::optional<Options>> ParseOptions(
    Client client, int argc, const char* const* argv,
    const base::CommandLine::Environment& environment) {
  const bool kata = client == Client::kKata;
  base::CommandLine line(ProgramName(client),
                         kata ? "Offers a node's GPUs and NVSwitches to Kata Containers"
                              : "Offers a node's GPUs and vGPUs to KubeVirt's virtual machines",
                         "Pitcrew " PITCREW_VERSION);
  Options options;
  options.client = client;
  Text pci_ids, socket, node_name, pod_name, kubeconfig, metrics_address, gpu_alias, switch_alias;
  std::optional<bool> gfd;
  line.Add({"pci-ids", "PCI_IDS", "the PCI ID database, after which resources are named"},
           &pci_ids);
  line.Add({"kubelet-socket", "KUBELET_SOCKET", "the kubelet's socket; empty: do not register"},
           &socket);
  line.Add({"node-name", "NODE_NAME", "name of this node, for Events; empty: none are sent"},
           &node_name);
  line.Add({"pod-name", "POD_NAME", "name of this pod, for Events"}, &pod_name);
  line.Add({"kubeconfig", "KUBECONFIG", "kubeconfig file, for Events; empty: in-cluster"},
           &kubeconfig);
  line.Add({"metrics-address", "METRICS_ADDRESS",
            "where metrics are served, such as :9402; empty: nowhere"},
           &metrics_address);
  if (kata) {
    line.Add({"gpu-alias", "P_GPU_ALIAS",
              "one name for all GPUs, pgpu by default; empty: each model has its own"},
             &gpu_alias);
    line.Add({"nvswitch-alias", "NVSWITCH_ALIAS",
              "one name for all NVSwitches, nvswitch by default; empty: each model has its own"},
             &switch_alias);
    line.Add({"enable-gfd", "ENABLE_GFD", "not supported: GPU feature discovery in a Kata pod"},
             &gfd);
  }
  TRY_ASSIGN(const bool run, line.Parse(argc, argv, environment));
  if (!run) return std::nullopt;
  if (kata) TRY(ReadKata(gpu_alias, switch_alias, gfd, options));
  options.pci_ids = pci_ids.value_or(std::string(gpu::kDatabaseFile));
  options.kubelet_socket =
      socket.value_or(fmt::format("{}/{}", rpc::kDevicePluginDirectory, rpc::kKubeletSocketName));
  options.node_name = node_name.value_or("");
  options.pod_name = pod_name.value_or("");
  options.kubeconfig = kubeconfig.value_or("");
  options.metrics_address = metrics_address.value_or("");
  return options;
}

}  // namespace pitcrew::node::sandbox_device_plugin
