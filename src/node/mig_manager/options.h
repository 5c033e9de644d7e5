// What the MIG manager was told: upstream's flags and variables (mig-manager.md 9.1), and those for
// pods that use the GPUs, which upstream has none of.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/result.h"

namespace pitcrew::node::mig_manager {

// What happens to pods that hold a GPU whose geometry is to change.
enum class PodPolicy {
  kIgnore,  // as upstream: nothing; a GPU in use makes the change fail, and go back
  kWait,    // they are waited for
  kDrain,   // they are evicted
};

struct Options {
  std::string kubeconfig;
  std::string node_name;
  std::string namespace_name;  // of the pod: POD_NAMESPACE; empty: no ConfigMap is written
  std::string pod_name;
  std::string clients_namespace = "default";  // where the operands run
  std::filesystem::path config_file;          // empty: generated from the hardware
  std::filesystem::path default_config_file;  // where the driver names no profiles

  std::filesystem::path host_root = "/host";
  // On the host: told to the host's own service at its next start, when it is there.
  std::string state_file = "/etc/systemd/system/nvidia-mig-manager.service.d/override.conf";
  std::string kubelet_service = "kubelet.service";
  std::filesystem::path gpu_clients_file;
  bool with_reboot = false;
  bool shutdown_host_clients = false;

  std::string driver_root = "/run/nvidia/driver";                      // on the host
  std::filesystem::path driver_root_container = "/run/nvidia/driver";  // for this process
  std::string dev_root;                                                // empty: driver_root
  std::filesystem::path dev_root_container;  // empty: driver_root_container
  bool cdi_enabled = false;
  std::string cdi_hook_path = "/usr/local/nvidia/toolkit/nvidia-cdi-hook";

  PodPolicy pods = PodPolicy::kIgnore;
  std::chrono::nanoseconds pods_deadline = std::chrono::minutes(30);  // 0: no limit
  bool drain_force = false;             // also pods that no controller makes again
  bool drain_delete_empty_dir = false;  // also pods with emptyDir volumes

  // How long paused operands may take to end, all of them together.
  std::chrono::seconds operand_timeout{300};
  // Until a change that failed for a reason that may pass is tried again; doubled each time.
  std::chrono::seconds first_retry{60};
  std::chrono::seconds longest_retry{1800};

  // How long a kubelet that starts anew may have no socket, or not list all its pods.
  std::chrono::seconds kubelet_restart{30};

  // Where this process sees things; other values are for tests.
  std::filesystem::path sys_root = "/";  // with /sys and /proc
  std::filesystem::path validations = "/run/nvidia/validations";
  std::filesystem::path cdi_folder = "/var/run/cdi";
  std::filesystem::path generated_config = "/etc/nvidia-mig-manager/generated-config.yaml";

  [[nodiscard]] std::filesystem::path journal() const {
    return host_root / "run/nvidia/mig/journal.json";
  }
  // Units of the host that this program has stopped and must start again.
  [[nodiscard]] std::filesystem::path stopped_services() const {
    return host_root / "run/nvidia/mig/stopped-services";
  }
  [[nodiscard]] std::filesystem::path pod_resources() const {
    return host_root / "var/lib/kubelet/pod-resources/kubelet.sock";
  }
  [[nodiscard]] std::filesystem::path dev_root_here() const {
    return dev_root_container.empty() ? driver_root_container : dev_root_container;
  }
};

// Nothing when --help or --version was answered. kInvalid for wrong usage.
base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::mig_manager
