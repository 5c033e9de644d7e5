#include "api/cluster_policy.h"

#include <fmt/format.h>

#include <utility>

#include "api/block.h"
#include "api/fields.h"
#include "api/labels.h"
#include "api/upgrade_schedule_reader.h"

namespace pitcrew::api {
namespace {

using codec::Json;

void ReadGeneral(const Block& spec, ClusterPolicy& policy) {
  const Block settings = spec.Child("operator");
  policy.operator_settings.runtime_class = settings.String("runtimeClass", "nvidia");
  policy.operator_settings.use_driver_toolkit = settings.Flag("use_ocp_driver_toolkit", true);
  policy.operator_settings.metrics_service_monitor =
      settings.Child("metrics").Fragment("serviceMonitor");

  const Block daemonsets = spec.Child("daemonsets");
  policy.daemonsets.labels = daemonsets.StringMap("labels");
  policy.daemonsets.annotations = daemonsets.StringMap("annotations");
  policy.daemonsets.tolerations = daemonsets.Objects("tolerations");
  policy.daemonsets.priority_class_name = daemonsets.String("priorityClassName");
  policy.daemonsets.pod_security_context = daemonsets.Fragment("podSecurityContext");
  policy.daemonsets.update_strategy = daemonsets.String("updateStrategy", "RollingUpdate");
  policy.daemonsets.max_unavailable = daemonsets.Child("rollingUpdate").String("maxUnavailable");

  const Block paths = spec.Child("hostPaths");
  policy.host_paths.root_fs = paths.String("rootFS");
  policy.host_paths.driver_install_dir = paths.String("driverInstallDir");
  policy.host_paths.kubelet_root_dir =
      paths.String("kubeletRootDir", paths.present() ? "/var/lib/kubelet" : "");

  const Block cdi = spec.Child("cdi");
  policy.cdi.enabled = cdi.Flag("enabled", true);
  policy.cdi.nri_plugin_enabled = cdi.Flag("nriPluginEnabled");
  policy.mig_strategy = spec.Child("mig").Enumerated("strategy", "", {"none", "single", "mixed"});
  policy.psa_enabled = spec.Child("psa").Flag("enabled");

  const Block sandbox = spec.Child("sandboxWorkloads");
  policy.sandbox.enabled = sandbox.Flag("enabled");
  policy.sandbox.default_workload =
      sandbox.Enumerated("defaultWorkload", sandbox.present() ? "container" : "",
                         {"container", "vm-passthrough", "vm-vgpu"});
  policy.sandbox.mode =
      sandbox.Enumerated("mode", sandbox.present() ? "kubevirt" : "", {"kubevirt", "kata"});
}

void ReadDriver(const Block& block, Driver& driver) {
  ReadCommonDriver(block, driver);
  driver.use_nvidia_driver_crd = block.Flag("useNvidiaDriverCRD");
  driver.upgrade_policy = ReadUpgradePolicy(block.Child("upgradePolicy"), false);
  const Block licensing = block.Child("licensingConfig");
  driver.licensing = {.config_map_name = licensing.String("configMapName"),
                      .secret_name = licensing.String("secretName"),
                      .nls_enabled = licensing.Flag("nlsEnabled")};
  driver.virtual_topology_config = block.Child("virtualTopology").String("config");
  driver.repo_config = block.Child("repoConfig").String("configMapName");
}

void ReadNodeComponents(const Block& spec, ClusterPolicy& policy) {
  ReadComponent(spec.Child("gds"), policy.gds);
  ReadComponent(spec.Child("gdrcopy"), policy.gdrcopy);

  const Block toolkit = spec.Child("toolkit");
  ReadComponent(toolkit, policy.toolkit);
  policy.toolkit.install_dir = toolkit.String("installDir", "/usr/local/nvidia");

  const Block plugin = spec.Child("devicePlugin");
  ReadComponent(plugin, policy.device_plugin);
  policy.device_plugin.config_name = plugin.Child("config").String("name");
  policy.device_plugin.config_default = plugin.Child("config").String("default");
  const Block mps = plugin.Child("mps");
  policy.device_plugin.mps_root = mps.String("root", mps.present() ? "/run/nvidia/mps" : "");

  ReadComponent(spec.Child("gfd"), policy.gfd);

  const Block mig = spec.Child("migManager");
  ReadComponent(mig, policy.mig_manager);
  const Block mig_config = mig.Child("config");
  policy.mig_manager.config_name = mig_config.String("name");
  policy.mig_manager.config_default = mig_config.Enumerated(
      "default", mig_config.present() ? "all-disabled" : "", {"all-disabled", ""});
  policy.mig_manager.gpu_clients_config_name = mig.Child("gpuClientsConfig").String("name");

  const Block validator = spec.Child("validator");
  ReadComponent(validator, policy.validator);
  policy.validator.qualification_required = validator.Child("qualification").Flag("required");
  policy.validator.driver_env = validator.Child("driver").Env("env");
  policy.validator.toolkit_env = validator.Child("toolkit").Env("env");
  policy.validator.cuda_env = validator.Child("cuda").Env("env");
  policy.validator.plugin_env = validator.Child("plugin").Env("env");
  policy.validator.vfio_pci_env = validator.Child("vfioPCI").Env("env");
  policy.validator.vgpu_manager_env = validator.Child("vgpuManager").Env("env");
  policy.validator.vgpu_devices_env = validator.Child("vgpuDevices").Env("env");
}

void ReadMonitoring(const Block& spec, ClusterPolicy& policy) {
  ReadComponent(spec.Child("dcgm"), policy.dcgm);
  ReadComponent(spec.Child("nodeStatusExporter"), policy.node_status_exporter);

  const Block block = spec.Child("dcgmExporter");
  DcgmExporter& exporter = policy.dcgm_exporter;
  ReadComponent(block, exporter);
  exporter.annotations = block.StringMap("annotations");
  exporter.config_name = block.Child("config").String("name");
  exporter.enable_pod_labels = block.Flag("enablePodLabels");
  exporter.enable_pod_uid = block.Flag("enablePodUID");
  exporter.pod_label_allowlist_regex = block.Strings("podLabelAllowlistRegex");
  exporter.host_pid = block.Flag("hostPID");
  exporter.hpc_job_mapping_enabled = block.Child("hpcJobMapping").Flag("enabled");
  exporter.hpc_job_mapping_directory = block.Child("hpcJobMapping").String("directory");
  exporter.service_type = block.Child("service").String("type");
  exporter.service_internal_traffic_policy = block.Child("service").String("internalTrafficPolicy");
  exporter.service_monitor = block.Fragment("serviceMonitor");
}

void ReadVirtualisation(const Block& spec, ClusterPolicy& policy) {
  const Block manager = spec.Child("vgpuManager");
  ReadComponent(manager, policy.vgpu_manager);
  policy.vgpu_manager.driver_manager = ReadDriverManager(manager.Child("driverManager"));
  policy.vgpu_manager.kernel_module_config = manager.Child("kernelModuleConfig").String("name");

  const Block devices = spec.Child("vgpuDeviceManager");
  ReadComponent(devices, policy.vgpu_device_manager);
  const Block config = devices.Child("config");
  policy.vgpu_device_manager.config_name = config.String("name");
  policy.vgpu_device_manager.config_default =
      config.String("default", config.present() ? "default" : "");

  const Block vfio = spec.Child("vfioManager");
  ReadComponent(vfio, policy.vfio_manager);
  policy.vfio_manager.driver_manager = ReadDriverManager(vfio.Child("driverManager"));

  ReadComponent(spec.Child("sandboxDevicePlugin"), policy.sandbox_device_plugin);
  ReadComponent(spec.Child("kataSandboxDevicePlugin"), policy.kata_sandbox_device_plugin);
  const Block confidential = spec.Child("ccManager");
  ReadComponent(confidential, policy.cc_manager);
  policy.cc_manager.default_mode =
      confidential.Enumerated("defaultMode", "", {"on", "off", "devtools"});
}

}  // namespace

base::Result<ClusterPolicy> ReadClusterPolicy(const Json& object) {
  if (!object.is_object() || codec::FindString(object, {"kind"}) != kClusterPolicyKind ||
      codec::FindString(object, {"apiVersion"}) != kNvidiaV1) {
    return base::Fail(base::Invalid(
        "NotAClusterPolicy",
        fmt::format("expected apiVersion {} and kind {}, found \"{}\" and \"{}\"", kNvidiaV1,
                    kClusterPolicyKind, codec::FindString(object, {"apiVersion"}),
                    codec::FindString(object, {"kind"}))));
  }
  ClusterPolicy policy;
  const ObjectHead head = ReadHead(object);
  policy.name = head.name;
  policy.uid = head.uid;
  policy.generation = head.generation;
  policy.creation_timestamp = head.creation_timestamp;
  const Block spec(codec::Find(object, {"spec"}), "spec", policy.problems);
  ReadGeneral(spec, policy);
  ReadDriver(spec.Child("driver"), policy.driver);
  ReadUpgradeAnnotations(object, policy.driver.upgrade_policy, policy.problems);
  ReadNodeComponents(spec, policy);
  ReadMonitoring(spec, policy);
  ReadVirtualisation(spec, policy);
  return policy;
}

}  // namespace pitcrew::api
