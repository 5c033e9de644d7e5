// Metrics exporter (reference operand-manifests.md section 12).
#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/daemonset.h"
#include "desired/host_path.h"
#include "desired/operands/monitoring.h"
#include "desired/operands/operands.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

constexpr std::string_view kImage = "DCGM_EXPORTER_IMAGE";
constexpr std::string_view kContainer = "nvidia-dcgm-exporter";
constexpr std::string_view kHostEngine = "DCGM_REMOTE_HOSTENGINE_INFO";
constexpr std::string_view kPodLabels = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS";
constexpr std::string_view kPodUid = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID";
constexpr std::string_view kClaims = "KUBERNETES_ENABLE_DRA";
constexpr std::string_view kPodLabelAllowlist =
    "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX";
constexpr std::string_view kConfigMapData = "DCGM_EXPORTER_CONFIGMAP_DATA";
constexpr std::string_view kCollectors = "DCGM_EXPORTER_COLLECTORS";
constexpr std::string_view kMetricsFile = "/etc/dcgm-exporter/dcgm-metrics.csv";
constexpr std::string_view kMetricsKey = "dcgm-metrics.csv";
constexpr std::string_view kDefaultJobMappingDir = "/var/lib/dcgm-exporter/job-mapping";
constexpr std::string_view kDefaultKubeletRootDir = "/var/lib/kubelet";
constexpr std::string_view kReadPods = "nvidia-dcgm-exporter-read-pods";

Mode ModeOf(const api::ClusterPolicy& policy) {
  return policy.dcgm_exporter_enabled() ? Mode::kEnabled : Mode::kDisabled;
}

bool SetsTrue(const api::DcgmExporter& exporter, std::string_view name) {
  return std::ranges::any_of(exporter.env, [&](const api::EnvVar& variable) {
    return variable.name == name && base::ToLower(variable.value) == "true";
  });
}

// The exporter asks the API server for the pods that use GPUs.
bool ReadsPods(const api::DcgmExporter& exporter) {
  return exporter.enable_pod_labels || exporter.enable_pod_uid || SetsTrue(exporter, kPodLabels) ||
         SetsTrue(exporter, kPodUid);
}

// It asks which devices claims mean. Upstream has rights for it in another operand of its own only.
bool ReadsClaims(const api::DcgmExporter& exporter) { return SetsTrue(exporter, kClaims); }

// The ClusterRole has the rights for both.
void FitRights(std::vector<Object>& objects, const api::DcgmExporter& exporter) {
  if (!ReadsPods(exporter) && !ReadsClaims(exporter)) {
    std::erase_if(objects, [](const Object& object) { return NameOf(object) == kReadPods; });
    return;
  }
  if (ReadsClaims(exporter)) return;
  if (Object* role = FindObject(objects, "ClusterRole")) {
    std::erase_if((*role)["rules"].get_ref<codec::Json::array_t&>(), [](const Object& rule) {
      return rule.at("apiGroups").front() == "resource.k8s.io";
    });
  }
}

// It asks for a ConfigMap with the list of metrics; "none" is the exporter's word for no.
bool ReadsConfigMap(const api::DcgmExporter& exporter) {
  return std::ranges::any_of(exporter.env, [](const api::EnvVar& variable) {
    return variable.name == kConfigMapData && !variable.value.empty() && variable.value != "none";
  });
}

// A host engine on the host itself is reached over the loopback interface.
bool AsksHostEngineOfHost(const api::ClusterPolicy& policy) {
  if (policy.dcgm_enabled()) return false;
  const auto& env = policy.dcgm_exporter.env;
  const auto last = std::ranges::find(env.rbegin(), env.rend(), kHostEngine, &api::EnvVar::name);
  return last != env.rend() && last->value.starts_with("localhost");
}

void MapJobs(Object& daemonset, Object& main, const api::DcgmExporter& exporter) {
  if (!exporter.hpc_job_mapping_enabled) return;
  const std::string& configured = exporter.hpc_job_mapping_directory;
  const std::string folder = configured.empty() ? std::string(kDefaultJobMappingDir) : configured;
  SetEnv(main, "DCGM_HPC_JOB_MAPPING_DIR", folder);
  AddMount(main, {.volume = "hpc-job-mapping", .path = folder, .read_only = true});
  SetVolume(daemonset, HostPathVolume("hpc-job-mapping", folder, "DirectoryOrCreate"));
}

void DescribePods(Object& daemonset, Object& main, const api::DcgmExporter& exporter) {
  if (exporter.enable_pod_labels) SetEnv(main, kPodLabels, "true");
  if (exporter.enable_pod_uid) SetEnv(main, kPodUid, "true");
  if (!exporter.pod_label_allowlist_regex.empty()) {
    SetEnv(main, kPodLabelAllowlist, base::Join(exporter.pod_label_allowlist_regex, ","));
  }
  if (ReadsPods(exporter) || ReadsClaims(exporter) || ReadsConfigMap(exporter)) {
    PodSpec(daemonset)["automountServiceAccountToken"] = true;
  }
}

void MountMetrics(Object& daemonset, Object& main, const std::string& config_map) {
  if (config_map.empty()) return;
  AddMount(main, {.volume = "metrics-config",
                  .path = std::string(kMetricsFile),
                  .read_only = true,
                  .sub_path = std::string(kMetricsKey)});
  SetVolume(daemonset, ConfigMapVolume("metrics-config", config_map, {std::string(kMetricsKey)}));
  SetEnv(main, kCollectors, kMetricsFile);
}

base::Status CustomizeDaemonSet(Object& daemonset, const Context& context) {
  const api::ClusterPolicy& policy = context.policy;
  const api::DcgmExporter& exporter = policy.dcgm_exporter;
  TRY(ApplyValidationInitContainers(daemonset, context));
  TRY(ApplyComponent(daemonset, kContainer, exporter, kImage, context));
  TRY_ASSIGN(Object * main, RequireContainer(daemonset, kContainer));
  for (const auto& [key, value] : exporter.annotations) SetPodAnnotation(daemonset, key, value);
  if (policy.dcgm_enabled()) SetEnv(*main, kHostEngine, "nvidia-dcgm:5555");
  if (exporter.host_network || AsksHostEngineOfHost(policy)) UseHostNetwork(daemonset);
  ApplyRuntimeClass(daemonset, context, kContainer);
  if (exporter.host_pid) PodSpec(daemonset)["hostPID"] = true;
  MapJobs(daemonset, *main, exporter);
  DescribePods(daemonset, *main, exporter);
  MountMetrics(daemonset, *main, exporter.config_name);
  if (const std::string& root = policy.host_paths.kubelet_root_dir;
      !root.empty() && root != kDefaultKubeletRootDir) {
    SetHostPath(daemonset, "pod-gpu-resources", JoinPath(root, "pod-resources"));
  }
  SetEnv(*main, exporter.env);
  return {};
}

void CustomizeService(Object& service, const api::DcgmExporter& exporter) {
  if (!exporter.service_type.empty()) service["spec"]["type"] = exporter.service_type;
  if (!exporter.service_internal_traffic_policy.empty()) {
    service["spec"]["internalTrafficPolicy"] = exporter.service_internal_traffic_policy;
  }
}

base::Status Customize(std::vector<Object>& objects, const Context& context) {
  const api::DcgmExporter& exporter = context.policy.dcgm_exporter;
  TRY_ASSIGN(Object * daemonset, RequireDaemonSet(objects));
  TRY(CustomizeDaemonSet(*daemonset, context));
  if (Object* service = FindObject(objects, "Service")) CustomizeService(*service, exporter);
  FitRights(objects, exporter);
  const codec::Json* monitor =
      exporter.service_monitor ? codec::Find(*exporter.service_monitor, {"enabled"}) : nullptr;
  if (monitor == nullptr || *monitor != true) {
    std::erase_if(objects, [](const Object& object) {
      return codec::FindString(object, {"kind"}) == "ServiceMonitor";
    });
  }
  FitMonitoring(objects, context);
  EditServiceMonitor(objects, exporter.service_monitor);
  return {};
}

}  // namespace

Operand DcgmExporter() {
  return {.state = "state-dcgm-exporter",
          .condition = "DCGMExporterReady",
          .title = "metrics exporter",
          .name = "metrics exporter",
          .daemonsets = {"nvidia-dcgm-exporter"},
          .deploy = {.key = api::kDeployDcgmExporter, .workloads = kContainers},
          .stage = Stage::kMetrics,
          .rank_in_stage = -1,
          .gpu_client = GpuClient::kPaused,
          .leaves_for = {NodeChange::kMig},
          .images = {kImage},
          .blocks = {"spec.dcgmExporter", "spec.dcgm", "spec.validator"},
          .mode = ModeOf,
          .customize = Customize};
}

}  // namespace pitcrew::desired
