// Flags and variables (metrics-exporter.md section 1).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/log.h"
#include "base/result.h"
#include "node/metrics_exporter/device_selection.h"
#include "node/metrics_exporter/pod_map.h"
#include "node/metrics_exporter/round.h"

namespace pitcrew::node::metrics_exporter {

struct Options {
  std::filesystem::path counter_file = "/etc/dcgm-exporter/default-counters.csv";
  std::string config_map;  // "namespace:name"; empty: the file
  std::string address = ":9400";
  std::chrono::milliseconds interval = std::chrono::seconds(30);
  DeviceSelection gpus;
  DeviceSelection switches;
  DeviceSelection cpus;
  Windows windows;
  bool replace_blanks = false;
  bool old_namespace = false;
  bool no_hostname = false;
  std::string hostname_label = "hostname";
  std::string node_name;  // empty: the machine's own name

  bool kubernetes = false;
  PodMapOptions pods;
  bool claims = false;  // devices that pods hold by claims, too
  bool pod_labels = false;
  std::vector<std::string> pod_label_patterns;
  std::filesystem::path pod_resources = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::string kubeconfig;            // empty: in-cluster
  std::filesystem::path job_folder;  // empty: no jobs

  std::filesystem::path web_config;  // empty: plain HTTP for everybody
  base::LogSettings log;
  std::vector<std::string> warnings;  // sentences about what is asked for and has no effect

  // Where this process sees things; other values are for tests.
  std::vector<std::filesystem::path> driver_roots = {"/"};
  std::filesystem::path proc = "/proc";
  std::chrono::milliseconds nvml_limit = std::chrono::seconds(5);
};

// Nothing when --help or --version was answered. kInvalid for wrong flags, and for what upstream
// has and this exporter has not.
base::Result<std::optional<Options>> ReadOptions(
    int argc, const char* const* argv,
    const base::CommandLine::Environment& environment = base::CommandLine::Process());

}  // namespace pitcrew::node::metrics_exporter
