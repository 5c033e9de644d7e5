// What the driver manager was told (driver-lifecycle.md 4.2).
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/result.h"
#include "gpu/device_names.h"
#include "kernel_modules/kernel_modules.h"

namespace pitcrew::node::driver_manager {

struct Options {
  std::string command;  // uninstall_driver or preflight_check
  std::string node_name;
  std::string namespace_name = "gpu-operator";
  std::string kubeconfig;
  bool drain_force = false;                   // also pods that no controller will make again
  bool drain_delete_empty_dir = false;        // also pods with emptyDir volumes
  std::chrono::nanoseconds drain_timeout{0};  // 0: no limit
  bool auto_drain = true;                     // the whole node, where evicting GPU pods does not do
  std::string drain_pod_selector;             // which pods a drain is about; "": all
  bool evict_gpu_pods = true;
  std::string custom_pause_label;  // NODE_LABEL_FOR_GPU_POD_EVICTION
  bool gpu_direct_rdma = false;
  bool host_mofed = false;
  bool force_reinstall = false;
  std::string config_digest;  // DRIVER_CONFIG_DIGEST
  bool nvswitches = false;    // BIND_NVSWITCHES: take them from VFIO too

  // How long the host's own nvidia-smi may take; after that it is not known whether the host has a
  // driver.
  std::chrono::milliseconds host_smi_timeout = std::chrono::minutes(1);

  // How long the pod stays after it has told the operator that the host has a driver: the
  // DaemonSet's node selector takes it away meanwhile.
  std::chrono::seconds preinstalled_pause{60};

  // How long the network driver is waited for; 0: without an end, as upstream does.
  std::chrono::nanoseconds mofed_timeout = std::chrono::minutes(30);

  // How long the operands may take to end that owned the GPUs before; an ending driver container
  // alone has two minutes to unload its modules.
  std::chrono::seconds owners_timeout{300};

  // How long pods are waited for that have GPUs for the use of before and may not be evicted.
  std::chrono::seconds users_timeout{300};

  std::filesystem::path pci_ids = gpu::kDatabaseFile;  // names of GPUs

  // Where this process sees things, and how it unloads modules and loads them again (null: from the
  // files of the driver that was loaded); other values are for tests.
  std::function<base::Status(const std::string& module)> unload_module =
      [](const std::string& module) { return kernel_modules::Unload(module); };
  std::function<base::Status(const std::string& module)> load_module = nullptr;
  std::filesystem::path host_root = "/host";
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path run_folder = "/run/nvidia";
  std::filesystem::path mofed_ready = "/run/mellanox/drivers/.driver-ready";
};

// Nothing when --help or --version was answered. kInvalid for wrong usage.
base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::driver_manager
