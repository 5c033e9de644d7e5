// Checklist of operand-manifests.md: MPS, MIG, DCGM, node status, operator metrics (19, 21 to 27,
// 31).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "desired/pod.h"
#include "desired/render.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired::testing {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Json RenderObjectsOf(std::string_view state, const std::string& spec_yaml,
                     const std::string& cluster_yaml = "{}") {
  Json cluster = PlainCluster();
  codec::ApplyMergePatch(cluster, *codec::ParseYaml(cluster_yaml));
  return RenderState(MinimalPolicy(*codec::ParseYaml(spec_yaml)), cluster, state);
}

std::vector<std::string> NamesOf(const Json& objects) {
  std::vector<std::string> names;
  for (const Json& object : objects) {
    names.push_back(codec::FindString(object, {"kind"}) + "/" + NameOf(object));
  }
  return names;
}

Json ObjectOf(const Json& objects, std::string_view kind) {
  for (const Json& object : objects) {
    if (codec::FindString(object, {"kind"}) == kind) return object;
  }
  return nullptr;
}

TEST(MpsControlDaemonTest, OwnRootAndResources) {
  RecordProperty("holds", "operand-manifests.md #19 [TestTransformMPSControlDaemon]");
  const Json daemonset = RenderDaemonSet("state-mps-control-daemon", R"(
devicePlugin: {mps: {root: /var/mps}, resources: {limits: {cpu: "1"}}, args: [--x], env: [{name: A, value: b}]}
)");
  EXPECT_EQ(VolumeOf(daemonset, "mps-root")["hostPath"]["path"], "/var/mps");
  EXPECT_EQ(VolumeOf(daemonset, "mps-shm")["hostPath"]["path"], "/var/mps/shm");
  const Json resources = {{"limits", {{"cpu", "1"}}}};
  const Json& main = ContainerOf(daemonset, "mps-control-daemon-ctr");
  EXPECT_EQ(main["resources"], resources);
  EXPECT_EQ(ContainerOf(daemonset, "mps-control-daemon-mounts")["resources"], resources);
  // The plugin's args and variables are not the daemon's.
  EXPECT_FALSE(main.contains("args"));
  EXPECT_THAT(EnvOf(main), Not(Contains(StartsWith("A="))));
  EXPECT_THAT(EnvOf(main), Not(Contains(StartsWith("MPS_ROOT="))));
  EXPECT_EQ(PodOf(daemonset)["serviceAccountName"], "nvidia-device-plugin");
}

TEST(MigManagerTest, DefaultConfig) {
  RecordProperty("holds",
                 "operand-manifests.md #21 [TestTransformMigManager, TestMIGManager], "
                 "mig-manager.md #38");
  for (const char* spec : {"{}", "{migManager: {config: {name: ''}}}"}) {
    const Json daemonset = RenderDaemonSet("state-mig-manager", spec);
    EXPECT_EQ(VolumeOf(daemonset, "mig-parted-config")["configMap"],
              *codec::ParseYaml("{name: default-mig-parted-config, items: [{key: config.yaml, "
                                "path: config-default.yaml}]}"))
        << spec;
    const auto env = EnvOf(ContainerOf(daemonset, "nvidia-mig-manager"));
    EXPECT_THAT(env, Contains("DEFAULT_CONFIG_FILE=/mig-parted-config/config-default.yaml"));
    EXPECT_THAT(env, Not(Contains(StartsWith("CONFIG_FILE="))));
  }
}

TEST(MigManagerTest, OwnConfigLeavesTheDefaultAlone) {
  const char* spec = "{migManager: {config: {name: mine}, gpuClientsConfig: {name: clients}}}";
  const Json objects = RenderObjectsOf("state-mig-manager", spec);
  EXPECT_THAT(NamesOf(objects), Not(Contains("ConfigMap/default-mig-parted-config")));
  EXPECT_THAT(NamesOf(objects), Not(Contains("ConfigMap/default-gpu-clients")));
  EXPECT_THAT(NamesOf(objects), Contains("ConfigMap/nvidia-mig-manager-entrypoint"));
  const Json daemonset = ObjectOf(objects, "DaemonSet");
  EXPECT_EQ(VolumeOf(daemonset, "mig-parted-config")["configMap"], Json({{"name", "mine"}}));
  EXPECT_EQ(VolumeOf(daemonset, "gpu-clients")["configMap"], Json({{"name", "clients"}}));
  const auto env = EnvOf(ContainerOf(daemonset, "nvidia-mig-manager"));
  EXPECT_THAT(env, Contains("CONFIG_FILE=/mig-parted-config/config.yaml"));
  EXPECT_THAT(env, Not(Contains(StartsWith("DEFAULT_CONFIG_FILE="))));

  const auto policy = api::ReadClusterPolicy(MinimalPolicy(*codec::ParseYaml(spec)));
  const Facts facts = ReadCluster(PlainCluster());
  const DefaultImages images = TestImages();
  const Context context{
      .policy = *policy, .facts = facts, .images = images, .operator_namespace = "gpu-operator"};
  for (const RenderedOperand& rendered : Render(context)) {
    if (rendered.operand->state != "state-mig-manager") continue;
    EXPECT_THAT(NamesOf(rendered.left_alone), ElementsAre("ConfigMap/default-mig-parted-config",
                                                          "ConfigMap/default-gpu-clients"));
    EXPECT_EQ(rendered.left_alone.front()["metadata"]["namespace"], "gpu-operator");
  }
}

// The name of the default itself is no other ConfigMap; upstream mounts it under its plain name.
TEST(MigManagerTest, DefaultConfigByName) {
  const Json objects = RenderObjectsOf("state-mig-manager",
                                       "{migManager: {config: {name: default-mig-parted-config}}}");
  EXPECT_THAT(NamesOf(objects), Contains("ConfigMap/default-mig-parted-config"));
  const Json daemonset = ObjectOf(objects, "DaemonSet");
  EXPECT_EQ(VolumeOf(daemonset, "mig-parted-config")["configMap"],
            Json({{"name", "default-mig-parted-config"}}));
}

// Section 14: 81 configurations and the filtered ones, as a parser of the file sees them.
TEST(MigManagerTest, DefaultConfigurations) {
  const Json objects = RenderObjectsOf("state-mig-manager", "{}");
  const auto config =
      codec::ParseYaml(ObjectOf(objects, "ConfigMap")["data"]["config.yaml"].get<std::string>());
  ASSERT_TRUE(config) << config.error().ToString();
  const Json& configs = (*config)["mig-configs"];
  EXPECT_EQ(configs.size(), 81U);
  EXPECT_EQ(
      configs["all-1g.24gb.me.all"],
      *codec::ParseYaml("[{devices: all, mig-enabled: true, mig-devices: {1g.24gb+me.all: 1}}]"));
  EXPECT_EQ(configs["all-balanced"].size(), 12U);
  EXPECT_EQ(configs["all-balanced"][8]["device-filter"], "0x20B710DE");
  EXPECT_EQ(configs["all-1g.35gb"][1]["device-filter"], Json({"0x31C210DE"}));
}

const char* kHostEngine = "DCGM_REMOTE_HOSTENGINE_INFO";

TEST(DcgmExporterTest, HostEngine) {
  RecordProperty("holds", "operand-manifests.md #22");
  for (const char* spec : {"{}", "{dcgm: {enabled: true}}"}) {
    const Json daemonset = RenderDaemonSet("state-dcgm-exporter", spec);
    EXPECT_EQ(FindEnv(ContainerOf(daemonset, "nvidia-dcgm-exporter"), kHostEngine),
              "nvidia-dcgm:5555");
    EXPECT_FALSE(PodOf(daemonset).contains("hostNetwork"));
  }
  const std::string env =
      "dcgmExporter: {env: [{name: DCGM_REMOTE_HOSTENGINE_INFO, "
      "value: 'localhost:5555'}]}";
  const Json on = RenderDaemonSet("state-dcgm-exporter", env);
  EXPECT_EQ(FindEnv(ContainerOf(on, "nvidia-dcgm-exporter"), kHostEngine), "localhost:5555");
  EXPECT_FALSE(PodOf(on).contains("hostNetwork"));
  // Upstream looks before the user's variables are there (weakness 4).
  const Json off = RenderDaemonSet("state-dcgm-exporter", env + "\ndcgm: {enabled: false}");
  EXPECT_EQ(PodOf(off)["hostNetwork"], true);
  EXPECT_EQ(PodOf(off)["dnsPolicy"], "ClusterFirstWithHostNet");
}

TEST(DcgmExporterTest, JobsKubeletAnnotationsAllowlist) {
  RecordProperty("holds", "operand-manifests.md #23");
  const Json daemonset = RenderDaemonSet("state-dcgm-exporter", R"(
hostPaths: {kubeletRootDir: /custom-kubelet}
daemonsets: {annotations: {a: "2"}}
dcgmExporter:
  annotations: {a: "1", b: "1"}
  hpcJobMapping: {enabled: true}
  podLabelAllowlistRegex: [x, z]
)");
  const Json& main = ContainerOf(daemonset, "nvidia-dcgm-exporter");
  EXPECT_EQ(FindEnv(main, "DCGM_HPC_JOB_MAPPING_DIR"), "/var/lib/dcgm-exporter/job-mapping");
  EXPECT_THAT(MountsOf(main), Contains("hpc-job-mapping:/var/lib/dcgm-exporter/job-mapping:ro"));
  EXPECT_THAT(MountsOf(main), Contains("pod-gpu-resources:/var/lib/kubelet/pod-resources:ro"));
  EXPECT_EQ(VolumeOf(daemonset, "pod-gpu-resources")["hostPath"]["path"],
            "/custom-kubelet/pod-resources");
  EXPECT_EQ(FindEnv(main, "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX"), "x,z");
  const Json& annotations = daemonset["spec"]["template"]["metadata"]["annotations"];
  EXPECT_EQ(annotations["a"], "2");
  EXPECT_EQ(annotations["b"], "1");
}

TEST(DcgmExporterTest, AccessToPods) {
  RecordProperty("holds", "operand-manifests.md #24");
  struct Row {
    const char* exporter;
    bool roles;
    bool token;
  };
  constexpr Row kRows[] = {
      {"{}", false, false},
      {"{enablePodLabels: true}", true, true},
      {"{enablePodUID: true}", true, true},
      {"{env: [{name: DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS, value: 'TRUE'}]}", true, true},
      {"{env: [{name: DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID, value: 'false'}]}", false, false},
      {"{env: [{name: DCGM_EXPORTER_CONFIGMAP_DATA, value: 'ns:name'}]}", false, true},
      {"{env: [{name: DCGM_EXPORTER_CONFIGMAP_DATA, value: none}]}", false, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.exporter);
    const Json objects =
        RenderObjectsOf("state-dcgm-exporter", std::string("dcgmExporter: ") + row.exporter);
    for (const char* name : {"ClusterRole", "ClusterRoleBinding"}) {
      EXPECT_EQ(ObjectOf(objects, name).is_object(), row.roles) << name;
    }
    EXPECT_EQ(PodOf(ObjectOf(objects, "DaemonSet"))["automountServiceAccountToken"], row.token);
  }
}

TEST(DcgmTest, NoHostEngineOfAnother) {
  RecordProperty("holds", "operand-manifests.md #25");
  const Json daemonset = RenderDaemonSet("state-dcgm", "{}");
  EXPECT_FALSE(FindEnv(ContainerOf(daemonset, "nvidia-dcgm-ctr"), kHostEngine));
  EXPECT_FALSE(PodOf(daemonset).contains("hostNetwork"));
}

TEST(DcgmExporterTest, Service) {
  RecordProperty("holds", "operand-manifests.md #26, operator-behaviour.md #22 [TestService]");
  const Json objects =
      RenderObjectsOf("state-dcgm-exporter",
                      "dcgmExporter: {service: {type: NodePort, internalTrafficPolicy: Local}}");
  const Json service = ObjectOf(objects, "Service");
  EXPECT_EQ(service["spec"]["type"], "NodePort");
  EXPECT_EQ(service["spec"]["internalTrafficPolicy"], "Local");
  EXPECT_FALSE(service["spec"].contains("clusterIP"));
  EXPECT_THAT(RenderObjectsOf("state-dcgm-exporter", "dcgmExporter: {enabled: false}"), IsEmpty());
}

TEST(ServiceMonitorTest, OnlyWhereItsKindIsServed) {
  RecordProperty("holds",
                 "operand-manifests.md #27, operator-behaviour.md #21 "
                 "[TestServiceMonitor]");
  const char* edited = R"(
operator: {metrics: {serviceMonitor: &m {enabled: true, interval: 20s, honorLabels: true, additionalLabels: {x: z}}}}
dcgmExporter: {serviceMonitor: *m}
nodeStatusExporter: {enabled: true}
)";
  for (const char* state :
       {"state-operator-metrics", "state-dcgm-exporter", "state-node-status-exporter"}) {
    SCOPED_TRACE(state);
    EXPECT_TRUE(ObjectOf(RenderObjectsOf(state, edited), "ServiceMonitor").is_null());
    const Json monitor =
        ObjectOf(RenderObjectsOf(state, edited, "serviceMonitors: true"), "ServiceMonitor");
    ASSERT_TRUE(monitor.is_object());
    EXPECT_EQ(monitor["spec"]["namespaceSelector"]["matchNames"], Json({"gpu-operator"}));
    const bool is_edited = std::string_view(state) != "state-node-status-exporter";
    EXPECT_EQ(monitor["metadata"]["labels"].contains("x"), is_edited);
    EXPECT_EQ(monitor["spec"]["endpoints"][0].contains("interval"), is_edited);
  }
}

TEST(ServiceMonitorTest, ExportersOwnIsAskedFor) {
  for (const char* spec : {"{}", "{dcgmExporter: {serviceMonitor: {enabled: false}}}",
                           "{dcgmExporter: {serviceMonitor: {}}}"}) {
    const Json objects = RenderObjectsOf("state-dcgm-exporter", spec, "serviceMonitors: true");
    EXPECT_TRUE(ObjectOf(objects, "ServiceMonitor").is_null()) << spec;
  }
  for (const char* spec : {"{}", "{operator: {metrics: {serviceMonitor: {enabled: false}}}}"}) {
    const Json objects = RenderObjectsOf("state-operator-metrics", spec, "serviceMonitors: true");
    EXPECT_TRUE(ObjectOf(objects, "ServiceMonitor").is_object()) << spec;
  }
}

TEST(NodeStatusExporterTest, PullPolicyAndUser) {
  RecordProperty("holds",
                 "operand-manifests.md #31, validator.md #18 [TestTransformNodeStatusExporter]");
  const Json daemonset =
      RenderDaemonSet("state-node-status-exporter", "nodeStatusExporter: {enabled: true}");
  const Json& main = ContainerOf(daemonset, "nvidia-node-status-exporter");
  EXPECT_EQ(main["imagePullPolicy"], "IfNotPresent");
  EXPECT_EQ(main["securityContext"]["runAsUser"], 0);
  EXPECT_EQ(main["image"], "registry.test/VALIDATOR_IMAGE:v1");
}

// Weakness 2: rules of a component that is switched off go with it.
TEST(PrometheusRuleTest, BelongsToItsOperand) {
  const char* openshift = "{openshiftVersion: '4.18', prometheusRules: true}";
  EXPECT_THAT(NamesOf(RenderObjectsOf("state-node-status-exporter",
                                      "nodeStatusExporter: {enabled: true}", openshift)),
              Contains("PrometheusRule/nvidia-node-status-exporter-alerts"));
  EXPECT_THAT(RenderObjectsOf("state-node-status-exporter", "{}", openshift), IsEmpty());
}

}  // namespace
}  // namespace pitcrew::desired::testing
