// What all DaemonSets have in common, and the wiring of toolkit, device plugin and feature
// discovery.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/yaml.h"
#include "desired/host_path.h"
#include "desired/manifest.h"
#include "desired/operand.h"
#include "desired/pod.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired::testing {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr const char* kToolkit = "state-container-toolkit";
constexpr const char* kPlugin = "state-device-plugin";
constexpr const char* kToolkitContainer = "nvidia-container-toolkit-ctr";
constexpr const char* kPluginContainer = "nvidia-device-plugin";

std::string HostPathOf(const Json& daemonset, std::string_view volume) {
  return codec::FindString(VolumeOf(daemonset, volume), {"hostPath", "path"});
}

// Variables of the main container in the order of the list, without those of no interest.
std::vector<std::string> NamesAmong(const Json& container, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const Json& variable : container["env"]) {
    if (std::ranges::find(names, NameOf(variable)) != names.end())
      found.push_back(NameOf(variable));
  }
  return found;
}

TEST(CommonSettings, HostRoot) {
  RecordProperty("holds", "operand-manifests.md #1, validator.md #20 [TestTransformForHostRoot]");
  for (const char* root : {"", "/"}) {
    const Json daemonset =
        RenderDaemonSet(kToolkit, std::string("{hostPaths: {rootFS: '") + root + "'}}");
    EXPECT_EQ(HostPathOf(daemonset, "host-root"), "/");
    EXPECT_EQ(HostPathOf(daemonset, "host-dev-char"), "/dev/char");
    EXPECT_THAT(EnvOf(ContainerOf(daemonset, kToolkitContainer)),
                Not(Contains(StartsWith("HOST_ROOT="))));
  }
  const Json daemonset = RenderDaemonSet(kToolkit, "{hostPaths: {rootFS: /custom-root}}");
  EXPECT_EQ(HostPathOf(daemonset, "host-root"), "/custom-root");
  EXPECT_EQ(HostPathOf(daemonset, "host-dev-char"), "/custom-root/dev/char");
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : PodOf(daemonset)[list]) {
      EXPECT_THAT(EnvOf(container), Contains("HOST_ROOT=/custom-root")) << NameOf(container);
    }
  }
  // A DaemonSet without that volume has no use for the variable.
  const Json without =
      RenderDaemonSet("gpu-feature-discovery", "{hostPaths: {rootFS: /custom-root}}");
  EXPECT_THAT(EnvOf(ContainerOf(without, "gpu-feature-discovery")),
              Not(Contains(StartsWith("HOST_ROOT="))));
}

TEST(CommonSettings, DriverInstallDirectory) {
  RecordProperty("holds",
                 "operand-manifests.md #2, validator.md #21 [TestTransformForDriverInstallDir]");
  const Json unchanged = RenderDaemonSet(kToolkit, "{hostPaths: {driverInstallDir: ''}}");
  EXPECT_EQ(HostPathOf(unchanged, "driver-install-dir"), "/run/nvidia/driver");
  const Json daemonset = RenderDaemonSet(kToolkit, "{hostPaths: {driverInstallDir: /custom-root}}");
  EXPECT_EQ(HostPathOf(daemonset, "driver-install-dir"), "/custom-root");
  const Json& validation = ContainerOf(daemonset, "driver-validation");
  EXPECT_THAT(EnvOf(validation), IsSupersetOf({"DRIVER_INSTALL_DIR=/custom-root",
                                               "DRIVER_INSTALL_DIR_CTR_PATH=/custom-root"}));
  EXPECT_THAT(MountsOf(validation), Contains("driver-install-dir:/custom-root"));
  EXPECT_THAT(MountsOf(ContainerOf(daemonset, kToolkitContainer)),
              Contains("driver-install-dir:/driver-root"));
}

TEST(CommonSettings, TolerationsPriorityAndSecurityContext) {
  RecordProperty("holds",
                 "operand-manifests.md #4, clusterpolicy-api.md #33 "
                 "[TestApplyCommonDaemonSetConfig]");
  const Json plain = PodOf(RenderDaemonSet(kPlugin, "{daemonsets: {tolerations: []}}"));
  EXPECT_EQ(plain["tolerations"],
            *codec::ParseYaml("[{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]"));
  EXPECT_EQ(plain["priorityClassName"], "system-node-critical");
  EXPECT_FALSE(plain.contains("securityContext"));
  const Json pod = PodOf(RenderDaemonSet(kPlugin, R"(
daemonsets:
  tolerations: [{key: own, operator: Exists}]
  priorityClassName: high
  podSecurityContext: {runAsUser: 5}
)"));
  EXPECT_EQ(pod["tolerations"], *codec::ParseYaml("[{key: own, operator: Exists}]"));
  EXPECT_EQ(pod["priorityClassName"], "high");
  EXPECT_EQ(pod["securityContext"], Json({{"runAsUser", 5}}));
}

TEST(CommonSettings, LabelsAndAnnotations) {
  RecordProperty("holds",
                 "operand-manifests.md #5, clusterpolicy-api.md #34 "
                 "[TestApplyCommonDaemonsetMetadata]");
  const Json daemonset = RenderDaemonSet(kPlugin, R"(
daemonsets:
  labels: {key: value, app: own, app.kubernetes.io/part-of: own}
  annotations: {key: value, app: own, app.kubernetes.io/part-of: own}
)");
  const Json& metadata = daemonset["spec"]["template"]["metadata"];
  EXPECT_EQ(metadata["labels"],
            Json({{"app", "nvidia-device-plugin-daemonset"}, {"key", "value"}}));
  const Json all = {{"key", "value"}, {"app", "own"}, {"app.kubernetes.io/part-of", "own"}};
  for (const auto& [key, value] : all.items()) {
    EXPECT_EQ(metadata["annotations"][key], value);
    EXPECT_EQ(daemonset["metadata"]["annotations"][key], value);
    EXPECT_EQ(daemonset["metadata"]["labels"][key], value);
  }
  EXPECT_EQ(daemonset["spec"]["selector"]["matchLabels"]["app"], "nvidia-device-plugin-daemonset");
}

TEST(CommonSettings, HostNetwork) {
  RecordProperty("holds",
                 "operand-manifests.md #6, clusterpolicy-api.md #35 "
                 "[TestApplyHostNetworkConfig]");
  for (const char* spec : {"{}", "{devicePlugin: {hostNetwork: false}}"}) {
    const Json pod = PodOf(RenderDaemonSet(kPlugin, spec));
    EXPECT_FALSE(pod.contains("hostNetwork"));
    EXPECT_FALSE(pod.contains("dnsPolicy"));
  }
  const Json pod = PodOf(RenderDaemonSet(kPlugin, "{devicePlugin: {hostNetwork: true}}"));
  EXPECT_EQ(pod["hostNetwork"], true);
  EXPECT_EQ(pod["dnsPolicy"], "ClusterFirstWithHostNet");
}

TEST(CommonSettings, ValidationInitContainers) {
  RecordProperty("holds", "operand-manifests.md #7 [TestTransformValidationInitContainer]");
  const Json daemonset = RenderDaemonSet(kPlugin, R"(
validator:
  repository: r
  image: validator
  version: v1
  imagePullPolicy: Always
  imagePullSecrets: [secret]
  resources: {limits: {cpu: "1"}}
  toolkit: {env: [{name: T, value: t}]}
  driver: {env: [{name: D, value: d}]}
devicePlugin: {config: {name: plugin-config}}
)");
  const Json& validation = ContainerOf(daemonset, "toolkit-validation");
  EXPECT_EQ(validation["image"], "r/validator:v1");
  EXPECT_EQ(validation["imagePullPolicy"], "Always");
  EXPECT_EQ(validation["resources"], Json({{"limits", {{"cpu", "1"}}}}));
  EXPECT_EQ(validation["securityContext"]["runAsUser"], 0);
  EXPECT_THAT(EnvOf(validation), Contains("T=t"));
  EXPECT_THAT(EnvOf(validation), Not(Contains("D=d")));
  EXPECT_EQ(PodOf(daemonset)["imagePullSecrets"][0]["name"], "secret");
  const Json& other = ContainerOf(daemonset, "config-manager-init");
  EXPECT_NE(other["image"], "r/validator:v1");
  EXPECT_FALSE(other.contains("securityContext"));
  const Json toolkit =
      RenderDaemonSet(kToolkit, "{validator: {driver: {env: [{name: D, value: d}]}}}");
  EXPECT_THAT(EnvOf(ContainerOf(toolkit, "driver-validation")), Contains("D=d"));
}

// Every manifest is one object with a kind; what it says inside a text does not matter.
TEST(CommonSettings, EveryManifestHasAKind) {
  RecordProperty("holds",
                 "operand-manifests.md #8, operator-behaviour.md #24 [TestManifestKind, "
                 "TestAllAssetsHaveManifestKind]");
  for (const Operand& operand : Operands()) {
    const auto objects = Operands().LoadManifests(operand.state, true);
    ASSERT_TRUE(objects) << objects.error().ToString();
    for (const Json& object : *objects) {
      EXPECT_FALSE(codec::FindString(object, {"kind"}).empty()) << operand.state;
      EXPECT_FALSE(codec::FindString(object, {"apiVersion"}).empty()) << operand.state;
    }
  }
  EXPECT_EQ((*codec::ParseYaml("{data: {x: 'kind: Other'}, kind: ConfigMap}"))["kind"],
            "ConfigMap");
  EXPECT_EQ((*codec::ParseYaml(R"({"kind": "Role"})"))["kind"], "Role");
  EXPECT_FALSE(codec::ParseYaml("kind: ["));
}

// Paths mean the same however they are written, as in Go's package path.
TEST(HostPath, IsLexical) {
  EXPECT_EQ(JoinPath("/opt/x/", "toolkit/hook"), "/opt/x/toolkit/hook");
  EXPECT_EQ(JoinPath("/opt//x/../y", "/z"), "/opt/y/z");
  EXPECT_EQ(JoinPath("", "a/b"), "a/b");
  EXPECT_EQ(FolderOf("/etc/containerd/config.toml"), "/etc/containerd");
  EXPECT_EQ(FolderOf("/etc/x/"), "/etc/x");
  EXPECT_EQ(FolderOf("config.toml"), ".");
  EXPECT_EQ(FolderOf("/config.toml"), "/");
  EXPECT_EQ(FileNameOf("/etc/x/"), "x");
  EXPECT_EQ(FileNameOf("config.toml"), "config.toml");
  EXPECT_EQ(FileNameOf("/"), "/");
}

TEST(ToolkitWiring, Containerd) {
  RecordProperty("holds", "operand-manifests.md #9 [TestTransformForRuntime]");
  const Json daemonset = RenderDaemonSet(kToolkit, "{}");
  const Json& main = ContainerOf(daemonset, kToolkitContainer);
  EXPECT_THAT(
      NamesAmong(main, {"RUNTIME", "CONTAINERD_RUNTIME_CLASS", "RUNTIME_CONFIG",
                        "CONTAINERD_CONFIG", "RUNTIME_DROP_IN_CONFIG",
                        "RUNTIME_DROP_IN_CONFIG_HOST_PATH", "RUNTIME_SOCKET", "CONTAINERD_SOCKET"}),
      ElementsAre("RUNTIME", "CONTAINERD_RUNTIME_CLASS", "RUNTIME_CONFIG", "CONTAINERD_CONFIG",
                  "RUNTIME_DROP_IN_CONFIG", "RUNTIME_DROP_IN_CONFIG_HOST_PATH", "RUNTIME_SOCKET",
                  "CONTAINERD_SOCKET"));
  EXPECT_THAT(MountsOf(main), IsSupersetOf({"containerd-config:/runtime/config-dir/",
                                            "containerd-drop-in-config:/runtime/config-dir.d/",
                                            "containerd-socket:/runtime/sock-dir/"}));
  EXPECT_EQ(HostPathOf(daemonset, "containerd-config"), "/etc/containerd");
  EXPECT_EQ(HostPathOf(daemonset, "containerd-drop-in-config"), "/etc/containerd/conf.d");
  EXPECT_EQ(HostPathOf(daemonset, "containerd-socket"), "/run/containerd");
}

Json WithRuntime(const std::string& runtime, const std::string& spec) {
  return RenderDaemonSet(kToolkit, spec,
                         R"(
nodes:
- metadata:
    name: gpu-1
    labels:
      nvidia.com/gpu.present: "true"
      feature.node.kubernetes.io/system-os_release.ID: ubuntu
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "22.04"
  status: {nodeInfo: {containerRuntimeVersion: ")" +
                             runtime + "://1\"}}\n");
}

// CRI-O has no socket, Docker no drop-in file.
TEST(ToolkitWiring, OtherRuntimes) {
  RecordProperty("holds", "operand-manifests.md #9");
  const Json crio = WithRuntime("cri-o", "{}");
  EXPECT_THAT(MountsOf(ContainerOf(crio, kToolkitContainer)),
              AllOf(Contains("crio-config:/runtime/config-dir/"),
                    Contains("crio-drop-in-config:/runtime/config-dir.d/"),
                    Not(Contains(HasSubstr("sock-dir")))));
  const Json docker = WithRuntime("docker", "{}");
  EXPECT_THAT(MountsOf(ContainerOf(docker, kToolkitContainer)),
              AllOf(Contains("docker-config:/runtime/config-dir/"),
                    Contains("docker-socket:/runtime/sock-dir/"),
                    Not(Contains(HasSubstr("config-dir.d")))));
}

// Variables are rewritten where they stand.
TEST(ToolkitWiring, K3s) {
  RecordProperty("holds", "operand-manifests.md #11 [TestTransformToolkit]");
  const Json daemonset = RenderDaemonSet(kToolkit, R"(
toolkit:
  env:
  - {name: CONTAINERD_CONFIG, value: /var/lib/rancher/k3s/agent/etc/containerd/config.toml}
  - {name: CONTAINERD_SOCKET, value: /run/k3s/containerd/containerd.sock}
)");
  EXPECT_EQ(HostPathOf(daemonset, "containerd-config"),
            "/var/lib/rancher/k3s/agent/etc/containerd");
  EXPECT_EQ(HostPathOf(daemonset, "containerd-socket"), "/run/k3s/containerd");
  const Json& main = ContainerOf(daemonset, kToolkitContainer);
  EXPECT_THAT(EnvOf(main), IsSupersetOf({"CONTAINERD_CONFIG=/runtime/config-dir/config.toml",
                                         "CONTAINERD_SOCKET=/runtime/sock-dir/containerd.sock"}));
  EXPECT_THAT(NamesAmong(main, {"CONTAINERD_CONFIG", "CONTAINERD_SOCKET", "RUNTIME"}),
              ElementsAre("CONTAINERD_CONFIG", "CONTAINERD_SOCKET", "RUNTIME"));
}

// What nobody chose is told, so that the toolkit looks at its node for it.
TEST(ToolkitWiring, WhatIsADefaultIsTold) {
  const auto told = [](const std::string& env) {
    const Json daemonset = RenderDaemonSet(kToolkit, "{toolkit: {env: [" + env + "]}}");
    for (const auto& variable : EnvOf(ContainerOf(daemonset, kToolkitContainer))) {
      const std::string name = "RUNTIME_SETTINGS_BY_DEFAULT=";
      if (variable.starts_with(name)) return variable.substr(name.size());
    }
    return std::string("none");
  };
  EXPECT_EQ(told(""), "config,drop-in-config,socket");
  EXPECT_EQ(told("{name: CONTAINERD_SOCKET, value: /run/k3s/containerd/containerd.sock}"),
            "config,drop-in-config");
  EXPECT_EQ(told("{name: RUNTIME_CONFIG, value: /x/y.toml}"), "drop-in-config,socket");
  EXPECT_EQ(told("{name: CONTAINERD_CONFIG, value: /x/y.toml}, {name: RUNTIME_DROP_IN_CONFIG, "
                 "value: /x/z.toml}, {name: CONTAINERD_SOCKET, value: /x/s}"),
            "none");
}

// The read-only /usr of OpenShift's nodes.
TEST(ToolkitWiring, HooksOfCrioAreWhereItLooks) {
  RecordProperty("holds", "runtimes-and-distributions.md #25");
  EXPECT_EQ(HostPathOf(WithRuntime("cri-o", "{cdi: {enabled: false}}"), "crio-hooks"),
            "/usr/share/containers/oci/hooks.d");
  const Json openshift =
      RenderDaemonSet(kToolkit, "{cdi: {enabled: false}}", "{openshiftVersion: '4.18'}");
  EXPECT_EQ(HostPathOf(openshift, "crio-hooks"), "/run/containers/oci/hooks.d");
  EXPECT_THAT(EnvOf(ContainerOf(openshift, kToolkitContainer)), Contains("CRIO_CONFIG_MODE=hook"));
}

TEST(ToolkitWiring, CrioAndCdi) {
  RecordProperty("holds",
                 "operand-manifests.md #12 [TestTransformToolkit, "
                 "TestTransformToolkitCtrForCDI]");
  const auto with = EnvOf(ContainerOf(WithRuntime("cri-o", "{}"), kToolkitContainer));
  EXPECT_THAT(with, IsSupersetOf({"CRIO_CONFIG_MODE=config", "CDI_ENABLED=true"}));
  const auto without =
      EnvOf(ContainerOf(WithRuntime("cri-o", "{cdi: {enabled: false}}"), kToolkitContainer));
  EXPECT_THAT(without, Contains("CRIO_CONFIG_MODE=hook"));
  EXPECT_THAT(without, Not(Contains(StartsWith("CDI_ENABLED="))));
  EXPECT_THAT(without, Not(Contains(StartsWith("NVIDIA_CONTAINER_RUNTIME_MODE="))));
}

TEST(ToolkitWiring, Nri) {
  RecordProperty("holds", "operand-manifests.md #13 [TestTransformToolkit]");
  const Json daemonset = RenderDaemonSet(kToolkit, "{cdi: {nriPluginEnabled: true}}");
  const Json& main = ContainerOf(daemonset, kToolkitContainer);
  EXPECT_THAT(EnvOf(main), Contains("NRI_SOCKET=/runtime/nri-sock-dir/nri.sock"));
  EXPECT_THAT(NamesAmong(main, {"ENABLE_NRI_PLUGIN", "RUNTIME"}),
              ElementsAre("ENABLE_NRI_PLUGIN", "RUNTIME"));
  EXPECT_THAT(MountsOf(main), Contains("nri-socket:/runtime/nri-sock-dir/"));
  EXPECT_THAT(MountsOf(main), Not(Contains(StartsWith("containerd-"))));
}

TEST(DevicePluginWiring, PathOfTheCdiHook) {
  RecordProperty("holds", "operand-manifests.md #15 [TestTransformDevicePluginCtrForCDI]");
  const auto env = [](const std::string& toolkit) {
    return EnvOf(
        ContainerOf(RenderDaemonSet(kPlugin, "{toolkit: " + toolkit + "}"), kPluginContainer));
  };
  EXPECT_THAT(env("{installDir: /path/to/install}"),
              Contains("NVIDIA_CDI_HOOK_PATH=/path/to/install/toolkit/nvidia-cdi-hook"));
  EXPECT_THAT(env("{enabled: false}"), Not(Contains(StartsWith("NVIDIA_CDI_HOOK_PATH="))));
  // Better than upstream, whose path is relative then.
  EXPECT_THAT(env("{installDir: ''}"),
              Contains("NVIDIA_CDI_HOOK_PATH=/usr/local/nvidia/toolkit/nvidia-cdi-hook"));
}

TEST(DevicePluginWiring, OrderOfVariables) {
  RecordProperty("holds", "operand-manifests.md #16 [TestTransformDevicePlugin]");
  const Json daemonset = RenderDaemonSet(kPlugin, R"(
gds: {enabled: true}
gdrcopy: {enabled: true}
devicePlugin: {env: [{name: OWN, value: x}]}
)");
  const std::vector<std::string> order = {
      "GDS_ENABLED", "MOFED_ENABLED",         "GDRCOPY_ENABLED",      "NVIDIA_MIG_MONITOR_DEVICES",
      "CDI_ENABLED", "CDI_ANNOTATION_PREFIX", "NVIDIA_CDI_HOOK_PATH", "OWN"};
  EXPECT_THAT(NamesAmong(ContainerOf(daemonset, kPluginContainer), order), ElementsAreArray(order));
}

TEST(DevicePluginWiring, ConfigManagers) {
  RecordProperty("holds", "operand-manifests.md #17 [TestDevicePlugin]");
  const Json without = RenderDaemonSet(kPlugin, "{}");
  EXPECT_FALSE(HasContainer(without, "config-manager-init"));
  EXPECT_FALSE(HasContainer(without, "config-manager"));
  const Json with = RenderDaemonSet(kPlugin, "{devicePlugin: {config: {name: plugin-config}}}");
  EXPECT_TRUE(HasContainer(with, "config-manager-init"));
  EXPECT_TRUE(HasContainer(with, "config-manager"));
  EXPECT_THAT(EnvOf(ContainerOf(with, kPluginContainer)),
              Contains("CONFIG_FILE=/config/config.yaml"));
  EXPECT_EQ(PodOf(with)["nodeSelector"], Json({{"nvidia.com/gpu.deploy.device-plugin", "true"}}));
}

TEST(DevicePluginWiring, ConfigManagerInit) {
  RecordProperty("holds",
                 "operand-manifests.md #18 "
                 "[TestTransformConfigManagerInitContainerWithResources, "
                 "TestHandleDevicePluginConfigWithGPUFeatureDiscoveryResources]");
  constexpr const char* kSpec = R"(
devicePlugin:
  config: {name: plugin-config, default: a}
  resources: {limits: {cpu: "1"}}
gfd: {resources: {limits: {cpu: "2"}}}
)";
  const Json plugin = RenderDaemonSet(kPlugin, kSpec);
  const Json& init = ContainerOf(plugin, "config-manager-init");
  EXPECT_THAT(EnvOf(init), IsSupersetOf({"DEFAULT_CONFIG=a", "FALLBACK_STRATEGIES=empty"}));
  EXPECT_THAT(MountsOf(init), IsSupersetOf({"config:/config", "plugin-config:/available-configs"}));
  EXPECT_EQ(init["resources"]["limits"]["cpu"], "1");
  const Json discovery = RenderDaemonSet("gpu-feature-discovery", kSpec);
  EXPECT_EQ(ContainerOf(discovery, "config-manager-init")["resources"]["limits"]["cpu"], "2");
}

std::vector<std::string> RuntimeClassesOf(const std::string& spec) {
  const Json rendered =
      RenderState(MinimalPolicy(*codec::ParseYaml(spec)), PlainCluster(), "pre-requisites");
  std::vector<std::string> names;
  for (const Json& object : rendered) names.push_back(NameOf(object));
  return names;
}

// What is not rendered is removed.
TEST(RuntimeClasses, FollowCdiAndNri) {
  RecordProperty("holds",
                 "operator-behaviour.md #23, operand-manifests.md #47 "
                 "[TestRuntimeClasses]");
  EXPECT_THAT(RuntimeClassesOf("{}"),
              UnorderedElementsAre("nvidia", "nvidia-legacy", "nvidia-cdi"));
  EXPECT_THAT(RuntimeClassesOf("{operator: {runtimeClass: own}, cdi: {enabled: false}}"),
              ElementsAre("own"));
}

TEST(DriverSidecars, Images) {
  RecordProperty("holds",
                 "clusterpolicy-api.md #29 [TestGDSGetImagePath, "
                 "TestGDRCopyGetImagePath]");
  const auto images = [](const std::string& version) {
    const std::string parts =
        "enabled: true, repository: nvcr.io/nvidia/cloud-native, version: '" + version + "'";
    const Json daemonset =
        RenderDaemonSet("state-driver", "{gds: {image: nvidia-fs, " + parts +
                                            "}, gdrcopy: {image: gdrdrv, " + parts + "}}");
    return std::vector<std::string>{ContainerOf(daemonset, "nvidia-fs-ctr")["image"],
                                    ContainerOf(daemonset, "nvidia-gdrcopy-ctr")["image"]};
  };
  EXPECT_THAT(images("2.16.1"),
              ElementsAre("nvcr.io/nvidia/cloud-native/nvidia-fs:2.16.1-ubuntu22.04",
                          "nvcr.io/nvidia/cloud-native/gdrdrv:2.16.1-ubuntu22.04"));
  EXPECT_THAT(images("sha256:ab"), ElementsAre("nvcr.io/nvidia/cloud-native/nvidia-fs@sha256:ab",
                                               "nvcr.io/nvidia/cloud-native/gdrdrv@sha256:ab"));
}

TEST(FeatureDiscovery, RuntimeClassAndOpenShift) {
  RecordProperty("holds",
                 "operand-manifests.md #20 [TestTransformGPUDiscoveryPlugin, "
                 "TestTransformGPUDiscoveryPluginOCP]");
  const Json plain = RenderDaemonSet("gpu-feature-discovery", "{}");
  EXPECT_EQ(PodOf(plain)["runtimeClassName"], "nvidia");
  EXPECT_THAT(EnvOf(ContainerOf(plain, "gpu-feature-discovery")),
              Not(Contains(StartsWith("USE_NODE_FEATURE_API="))));
  const Json openshift = RenderDaemonSet("gpu-feature-discovery", "{mig: {strategy: single}}",
                                         "{openshiftVersion: '4.18'}");
  const Json& main = ContainerOf(openshift, "gpu-feature-discovery");
  EXPECT_THAT(EnvOf(main), Contains("USE_NODE_FEATURE_API=false"));
  EXPECT_THAT(NamesAmong(main, {"USE_NODE_FEATURE_API", "MIG_STRATEGY"}),
              ElementsAre("USE_NODE_FEATURE_API", "MIG_STRATEGY"));
}

}  // namespace
}  // namespace pitcrew::desired::testing
