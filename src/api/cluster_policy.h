// ClusterPolicy (nvidia.com/v1) as a value. Source: reference clusterpolicy-api.md section 2; the
// members carry the names of the CRD in snake_case. Fields that upstream accepts and never reads
// (section 8) are accepted and not kept.
//
// Reading applies the CRD's defaults, so a policy from a file means the same as one that an API
// server stored. Fragments that are copied whole into objects (resources, tolerations, security
// context) stay JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/upgrade_schedule.h"
#include "base/result.h"
#include "codec/json.h"

namespace pitcrew::api {

struct EnvVar {
  std::string name;
  std::string value;
};

// repository, image and version as written; operator::ResolveImage turns them into a reference.
struct ImageSpec {
  std::string path;  // of the block that holds the members, for messages: "spec.driver"
  std::string repository;
  std::string image;
  std::string version;
  std::string pull_policy;  // as written; "" when absent
  std::vector<std::string> pull_secrets;
};

// What every operand's block has; a block lacks a member when it is empty here.
struct Component {
  std::string path;  // "spec.driver"
  std::optional<bool> enabled;
  ImageSpec image;
  std::vector<std::string> args;
  std::vector<EnvVar> env;
  std::optional<codec::Json> resources;
  bool host_network = false;
};

// Members are applied when they are not zero (clusterpolicy-api.md F.Probe).
struct Probe {
  std::int32_t initial_delay_seconds = 0;
  std::int32_t timeout_seconds = 0;
  std::int32_t period_seconds = 0;
  std::int32_t success_threshold = 0;
  std::int32_t failure_threshold = 0;

  bool operator==(const Probe&) const = default;
};

// k8s-driver-manager (F.DriverManager).
struct DriverManager {
  ImageSpec image;
  std::vector<EnvVar> env;
};

struct OperatorSettings {
  std::string runtime_class = "nvidia";
  bool use_driver_toolkit = true;  // use_ocp_driver_toolkit; absent means requested
  std::optional<codec::Json> metrics_service_monitor;
};

struct DaemonSetSettings {
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<std::pair<std::string, std::string>> annotations;
  std::vector<codec::Json> tolerations;
  std::string priority_class_name;
  std::optional<codec::Json> pod_security_context;
  std::string update_strategy = "RollingUpdate";
  std::string max_unavailable;  // rollingUpdate.maxUnavailable as written
};

struct HostPaths {
  std::string root_fs;
  std::string driver_install_dir;
  std::string kubelet_root_dir;
};

struct Cdi {
  bool enabled = true;
  bool nri_plugin_enabled = false;
};

struct SandboxWorkloads {
  bool enabled = false;
  std::string default_workload;
  std::string mode;
};

struct LicensingConfig {
  std::string config_map_name;
  std::string secret_name;
  bool nls_enabled = false;

  [[nodiscard]] bool active() const { return !config_map_name.empty() || !secret_name.empty(); }
};

// How pods are sent away from a node (F.PodDeletion, F.Drain).
struct PodRemoval {
  bool force = false;                  // also pods that no controller makes again
  bool delete_empty_dir = false;       // also pods with emptyDir volumes
  std::int32_t timeout_seconds = 300;  // 0: without limit

  bool operator==(const PodRemoval&) const = default;
};

// driver.upgradePolicy (driver-lifecycle.md section 2.16). A block that is absent means its
// defaults.
struct UpgradePolicy {
  bool auto_upgrade = false;
  std::int32_t max_parallel_upgrades = 1;  // 0: without limit
  std::string max_unavailable = "25%";     // "3" or "25%"
  std::string wait_pod_selector;           // "": no jobs are waited for
  std::int32_t wait_timeout_seconds = 0;   // 0: without limit
  PodRemoval pod_deletion;
  bool drain_enabled = false;
  PodRemoval drain;
  std::string drain_pod_selector;
  UpgradeSchedule schedule = {};
  // Before a node gives its pods up, the image of its new driver is looked at on one of its kind
  // (driver_upgrade/image_check.h). Not in upstream's definition.
  bool image_check = true;

  // Also a node that is cordoned, and takes no place of the limits, begins when it is told to.
  [[nodiscard]] bool NeedsTurnWhenCordoned() const { return schedule.restricts() || image_check; }
  bool operator==(const UpgradePolicy&) const = default;
};

struct Driver : Component {
  bool use_nvidia_driver_crd = false;
  bool use_precompiled = false;
  std::string kernel_module_type = "auto";
  DriverManager manager;
  Probe startup_probe;
  Probe liveness_probe;
  Probe readiness_probe;
  bool rdma_enabled = false;
  bool rdma_use_host_mofed = false;
  UpgradePolicy upgrade_policy;
  LicensingConfig licensing;
  std::string virtual_topology_config;
  std::string kernel_module_config;
  std::string repo_config;
  std::string cert_config;
  std::string secret_env;
};

struct Toolkit : Component {
  std::string install_dir = "/usr/local/nvidia";
};

struct DevicePlugin : Component {
  std::string config_name;
  std::string config_default;
  std::string mps_root;
};

struct MigManager : Component {
  std::string config_name;
  std::string config_default;  // "all-disabled" or ""
  std::string gpu_clients_config_name;
};

struct Validator : Component {
  // A GPU node that joins takes no pods before its GPUs have passed. Not in upstream's definition.
  bool qualification_required = false;
  std::vector<EnvVar> driver_env;
  std::vector<EnvVar> toolkit_env;
  std::vector<EnvVar> cuda_env;
  std::vector<EnvVar> plugin_env;
  std::vector<EnvVar> vfio_pci_env;
  std::vector<EnvVar> vgpu_manager_env;
  std::vector<EnvVar> vgpu_devices_env;
};

struct DcgmExporter : Component {
  std::vector<std::pair<std::string, std::string>> annotations;
  std::string config_name;
  bool enable_pod_labels = false;
  bool enable_pod_uid = false;
  std::vector<std::string> pod_label_allowlist_regex;
  bool host_pid = false;
  bool hpc_job_mapping_enabled = false;
  std::string hpc_job_mapping_directory;
  std::string service_type;
  std::string service_internal_traffic_policy;
  std::optional<codec::Json> service_monitor;
};

struct VgpuManager : Component {
  DriverManager driver_manager;
  std::string kernel_module_config;
};

struct VgpuDeviceManager : Component {
  std::string config_name;
  std::string config_default;
};

struct VfioManager : Component {
  DriverManager driver_manager;
};

struct CcManager : Component {
  std::string default_mode;
};

// A value in the spec that cannot be used as it stands.
struct FieldProblem {
  std::string path;  // "spec.driver.repository"
  std::string message;
};

struct ClusterPolicy {
  std::string name;
  std::string uid;
  std::int64_t generation = 0;
  std::string creation_timestamp;  // RFC 3339, as the API server writes it

  OperatorSettings operator_settings;
  DaemonSetSettings daemonsets;
  HostPaths host_paths;
  Cdi cdi;
  std::string mig_strategy;
  bool psa_enabled = false;
  SandboxWorkloads sandbox;
  Driver driver;
  Component gds;
  Component gdrcopy;
  Toolkit toolkit;
  DevicePlugin device_plugin;
  Component gfd;
  MigManager mig_manager;
  Validator validator;
  Component dcgm;
  DcgmExporter dcgm_exporter;
  Component node_status_exporter;
  VgpuManager vgpu_manager;
  VgpuDeviceManager vgpu_device_manager;
  VfioManager vfio_manager;
  Component sandbox_device_plugin;
  Component kata_sandbox_device_plugin;
  CcManager cc_manager;

  // Values of a wrong type or outside their enumeration, in the order of the document. A reader
  // skips the value and goes on, so that one bad block does not take the others with it.
  std::vector<FieldProblem> problems;

  // IsEnabled of clusterpolicy-api.md section 2.6: absent means on for these, off for the rest.
  [[nodiscard]] bool driver_enabled() const { return driver.enabled.value_or(true); }
  [[nodiscard]] bool toolkit_enabled() const { return toolkit.enabled.value_or(true); }
  [[nodiscard]] bool device_plugin_enabled() const { return device_plugin.enabled.value_or(true); }
  [[nodiscard]] bool gfd_enabled() const { return gfd.enabled.value_or(true); }
  [[nodiscard]] bool mig_manager_enabled() const { return mig_manager.enabled.value_or(true); }
  [[nodiscard]] bool dcgm_enabled() const { return dcgm.enabled.value_or(true); }
  [[nodiscard]] bool dcgm_exporter_enabled() const { return dcgm_exporter.enabled.value_or(true); }
  [[nodiscard]] bool gds_enabled() const { return gds.enabled.value_or(false); }
  [[nodiscard]] bool gdrcopy_enabled() const { return gdrcopy.enabled.value_or(false); }
};

// Reads a ClusterPolicy object. Fails only when `object` is not a ClusterPolicy at all; wrong
// values inside the spec are `problems` of the result.
base::Result<ClusterPolicy> ReadClusterPolicy(const codec::Json& object);

}  // namespace pitcrew::api
