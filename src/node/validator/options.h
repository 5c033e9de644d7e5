// What the validator was asked to do (validator.md 1.1).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/result.h"
#include "host/root.h"
#include "node/validations/status_folder.h"

namespace pitcrew::node::validator {

struct Options {
  std::string component;
  std::string node_name;
  std::string namespace_name;
  std::string kubeconfig;
  bool with_wait = false;
  bool with_workload = true;
  bool cleanup_all = false;
  std::filesystem::path output_folder = validations::kFolder;
  std::chrono::seconds retry_interval{5};  // the longest pause between two tries of a wait
  bool no_device_links = false;
  std::string host_root = "/";  // path on the host; seen at host_seen_at
  std::string driver_install_folder = "/run/nvidia/driver";  // path on the host
  std::filesystem::path driver_seen_at = "/run/nvidia/driver";
  bool skip_gpu_initialisation = false;
  std::string default_workload;  // of a node whose label names none; "" or unknown: passthrough

  // Of the component metrics.
  int metrics_port = 0;
  std::chrono::nanoseconds driver_period = std::chrono::seconds(60);  // upstream's; no flag

  // Of the component mofed: exactly "true" in GPU_DIRECT_RDMA_ENABLED and USE_HOST_MOFED, which
  // have no flags (validator.md 4).
  bool uses_rdma = false;
  bool network_driver_on_host = false;

  // Workload pods.
  std::string image;
  std::string image_pull_policy;
  std::vector<std::string> image_pull_secrets;
  std::string runtime_class;

  // Where this process sees things; other values are for tests.
  std::filesystem::path host_seen_at = "/host";
  std::filesystem::path device_links_folder = "/host-dev-char";
  std::filesystem::path proc = "/proc";
  // The host's: a container has a /sys of its own.
  std::filesystem::path pci_devices = "/host/sys/bus/pci/devices";
  host::Root devices_root;  // of /sys
  std::filesystem::path network_driver_folder = "/run/mellanox/drivers";
};

// Nothing when --help or --version was answered. kInvalid for wrong flags and for a component that
// lacks what it needs.
base::Result<std::optional<Options>> ReadOptions(
    int argc, char** argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::validator
