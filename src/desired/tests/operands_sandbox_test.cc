// Checklist of operand-manifests.md: validators of virtual machines, vGPU, VFIO, Kata, confidential
// computing (28 to 30, 46, 47), and what is mended of the listed weaknesses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/yaml.h"
#include "desired/pod.h"
#include "desired/removal.h"
#include "desired/render.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired::testing {
namespace {

using codec::Json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string Sandbox(const std::string& rest, const std::string& mode = "kubevirt") {
  return "sandboxWorkloads: {enabled: true, mode: " + mode + "}\n" + rest;
}

TEST(SandboxValidation, DefaultWorkloadComesBeforeTheUsersVariables) {
  RecordProperty("holds",
                 "operand-manifests.md #28, validator.md #15 [TestTransformValidatorComponent]");
  const Json daemonset = RenderDaemonSet("state-sandbox-validation", R"(
sandboxWorkloads: {enabled: true, defaultWorkload: vm-passthrough}
validator:
  vfioPCI: {env: [{name: A, value: "1"}]}
  vgpuManager: {env: [{name: B, value: "2"}]}
  vgpuDevices: {env: [{name: C, value: "3"}]}
)");
  const std::pair<const char*, const char*> components[] = {
      {"vfio-pci", "A=1"}, {"vgpu-manager", "B=2"}, {"vgpu-devices", "C=3"}};
  for (const auto& [component, own] : components) {
    const Json& container = ContainerOf(daemonset, std::string(component) + "-validation");
    EXPECT_THAT(
        EnvOf(container),
        ElementsAre("WITH_WAIT=true", std::string("COMPONENT=") + component,
                    "NODE_NAME<-spec.nodeName", "DEFAULT_GPU_WORKLOAD_CONFIG=vm-passthrough", own));
    EXPECT_EQ(container["securityContext"]["runAsUser"], 0);
  }
}

TEST(SandboxValidation, ConfidentialComputingOnlyWhenItIsOn) {
  RecordProperty("holds", "validator.md #14 [TestTransformValidatorComponent]");
  EXPECT_FALSE(HasContainer(RenderDaemonSet("state-sandbox-validation", Sandbox("")),
                            "cc-manager-validation"));
  EXPECT_TRUE(HasContainer(
      RenderDaemonSet("state-sandbox-validation", Sandbox("ccManager: {enabled: true}")),
      "cc-manager-validation"));
}

TEST(VfioManager, SettingsOfThePolicy) {
  RecordProperty("holds", "vfio-manager.md #19 [TestTransformVFIOManager]");
  const Json daemonset = RenderDaemonSet("state-vfio-manager", Sandbox(R"(
vfioManager:
  enabled: true
  repository: nvcr.io/nvidia/cloud-native
  image: vfio-pci-manager
  version: v1.0.0
  imagePullSecrets: [own]
  args: [--own]
  env: [{name: foo, value: bar}]
  resources: {limits: {cpu: "2"}}
)"));
  const Json& main = ContainerOf(daemonset, "nvidia-vfio-manager");
  EXPECT_EQ(main["image"], "nvcr.io/nvidia/cloud-native/vfio-pci-manager:v1.0.0");
  EXPECT_EQ(main["args"], Json({"--own"}));
  EXPECT_THAT(EnvOf(main), Contains("foo=bar"));
  const Json& pod = daemonset["spec"]["template"]["spec"];
  EXPECT_EQ(pod["imagePullSecrets"], Json({{{"name", "own"}}}));
  for (const auto* list : {"containers", "initContainers"}) {
    for (const Json& container : pod[list]) {
      EXPECT_EQ(container["resources"], Json({{"limits", {{"cpu", "2"}}}})) << container["name"];
    }
  }
}

TEST(SandboxValidation, NeedsAnImage) {
  RecordProperty("holds",
                 "operand-manifests.md #29, validator.md #17 [TestTransformSandboxValidator]");
  const auto policy = api::ReadClusterPolicy(
      MinimalPolicy(*codec::ParseYaml("{sandboxWorkloads: {enabled: true}}")));
  const Facts facts = ReadCluster(PlainCluster());
  const DefaultImages none;
  const Context context{
      .policy = *policy, .facts = facts, .images = none, .operator_namespace = "gpu-operator"};
  const auto rendered = Render(context);
  const auto validation = std::ranges::find(rendered, "state-sandbox-validation",
                                            [](const auto& entry) { return entry.operand->state; });
  ASSERT_NE(validation, rendered.end());
  ASSERT_FALSE(validation->objects);
  EXPECT_THAT(validation->objects.error().message, StartsWith("spec.validator"));
}

// Weakness 17: the validation files of other operands of the node stay.
TEST(SandboxValidation, RemovesItsOwnFilesOnly) {
  const Json daemonset = RenderDaemonSet("state-sandbox-validation", Sandbox(""));
  const std::string command =
      ContainerOf(daemonset,
                  "nvidia-sandbox-validator")["lifecycle"]["preStop"]["exec"]["command"][2]
          .get<std::string>();
  EXPECT_EQ(command.find('*'), std::string::npos);
  EXPECT_NE(command.find("vfio-pci-ready"), std::string::npos);
  EXPECT_EQ(command.find("driver-ready"), std::string::npos);
}

TEST(VgpuDeviceManager, WaitsForEitherKindOfManager) {
  RecordProperty(
      "holds",
      "operand-manifests.md #30 [TestVGPUDeviceManagerReadinessGate], vgpu-device-manager.md #13");
  const Json daemonset =
      RenderDaemonSet("state-vgpu-device-manager", Sandbox("vgpuDeviceManager: {enabled: true}"));
  const std::string script =
      ContainerOf(daemonset, "vgpu-manager-validation")["args"][0].get<std::string>();
  EXPECT_NE(script.find("validations/vgpu-manager-ready"), std::string::npos);
  EXPECT_NE(script.find("validations/host-vgpu-manager-ready"), std::string::npos);
  EXPECT_NE(script.find("||"), std::string::npos);
}

TEST(VgpuDeviceManager, DefaultConfigurationComesAfterTheUsersVariables) {
  RecordProperty("holds", "vgpu-device-manager.md #14 [TestTransformVGPUDeviceManager]");
  const auto last_env = [](const std::string& manager) {
    const Json daemonset =
        RenderDaemonSet("state-vgpu-device-manager", Sandbox("vgpuDeviceManager: " + manager));
    return EnvOf(ContainerOf(daemonset, "nvidia-vgpu-device-manager")).back();
  };
  EXPECT_EQ(last_env("{enabled: true, env: [{name: A, value: b}]}"), "DEFAULT_VGPU_CONFIG=default");
  EXPECT_EQ(last_env("{enabled: true, config: {default: A10-4Q}}"), "DEFAULT_VGPU_CONFIG=A10-4Q");
}

// Section 17: 711 entries and the list of defaults.
TEST(VgpuDeviceManager, DefaultConfigurations) {
  const Json objects =
      RenderState(MinimalPolicy(*codec::ParseYaml(Sandbox("vgpuDeviceManager: {enabled: true}"))),
                  PlainCluster(), "state-vgpu-device-manager");
  for (const Json& object : objects) {
    if (codec::FindString(object, {"kind"}) != "ConfigMap") continue;
    const auto config = codec::ParseYaml(object["data"]["config.yaml"].get<std::string>());
    ASSERT_TRUE(config) << config.error().ToString();
    const Json& configs = (*config)["vgpu-configs"];
    EXPECT_EQ(configs.size(), 711U);
    EXPECT_EQ(configs["DC-4-48CGFX"],
              *codec::ParseYaml("[{devices: all, vgpu-devices: {DC-4-48CGFX: 2}}]"));
    EXPECT_EQ(configs["default"][0],
              *codec::ParseYaml(
                  "{device-filter: '0x1DB110DE', devices: all, vgpu-devices: {V100X-8Q: 2}}"));
    EXPECT_EQ(configs["default"].size(), 56U);
    return;
  }
  FAIL() << "no ConfigMap";
}

TEST(CcManager, DefaultModeComesBeforeTheUsersVariables) {
  RecordProperty("holds", "validator.md #19 [TestTransformCCManager]");
  const Json daemonset = RenderDaemonSet(
      "state-cc-manager", Sandbox("ccManager: {enabled: true, defaultMode: 'on', env: [{name: A, "
                                  "value: b}], resources: {limits: {cpu: '1'}}}",
                                  "kata"));
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : daemonset["spec"]["template"]["spec"].value(list, Json::array())) {
      if (container["name"].get<std::string>().ends_with("-validation")) continue;
      EXPECT_EQ(container["resources"], Json({{"limits", {{"cpu", "1"}}}})) << container["name"];
    }
  }
  EXPECT_THAT(EnvOf(ContainerOf(daemonset, "nvidia-cc-manager")),
              ElementsAre("PITCREW_COMMAND=k8s-cc-manager", "NODE_NAME<-spec.nodeName",
                          "NVIDIA_VISIBLE_DEVICES=void", "DEFAULT_CC_MODE=on", "A=b"));
}

// [TestTransformVFIOManager]
TEST(VfioManager, ResourcesOfAllContainers) {
  const Json daemonset =
      RenderDaemonSet("state-vfio-manager",
                      Sandbox("vfioManager: {enabled: true, resources: {limits: {cpu: '1'}}}"));
  const Json resources = {{"limits", {{"cpu", "1"}}}};
  EXPECT_EQ(ContainerOf(daemonset, "nvidia-vfio-manager")["resources"], resources);
  EXPECT_EQ(ContainerOf(daemonset, "k8s-driver-manager")["resources"], resources);
}

// Weakness 5: HOST_ROOT is the mount here, which stays where it is.
TEST(VfioManager, HostRootIsTheMount) {
  const Json daemonset = RenderDaemonSet(
      "state-vfio-manager", Sandbox("vfioManager: {enabled: true}\nhostPaths: {rootFS: /custom}"));
  EXPECT_EQ(VolumeOf(daemonset, "host-root")["hostPath"]["path"], "/custom");
  EXPECT_EQ(FindEnv(ContainerOf(daemonset, "nvidia-vfio-manager"), "HOST_ROOT"), "/host");
  EXPECT_EQ(FindEnv(ContainerOf(daemonset, "k8s-driver-manager"), "HOST_ROOT"), "/custom");
}

// [TestTransformKataDevicePlugin]
TEST(KataDevicePlugin, ImageSecretsEnvironment) {
  const Json daemonset = RenderDaemonSet(
      "state-kata-device-plugin",
      Sandbox("kataSandboxDevicePlugin: {enabled: true, repository: r, image: i, version: v1, "
              "imagePullSecrets: [s], env: [{name: A, value: b}]}",
              "kata"));
  const Json& main = ContainerOf(daemonset, "nvidia-kata-sandbox-device-plugin-ctr");
  EXPECT_EQ(main["image"], "r/i:v1");
  EXPECT_THAT(EnvOf(main),
              ElementsAre("NODE_NAME<-spec.nodeName", "POD_NAMESPACE<-metadata.namespace",
                          "POD_NAME<-metadata.name", "POD_SERVICE_ACCOUNT<-spec.serviceAccountName",
                          "A=b"));
  EXPECT_EQ(daemonset["spec"]["template"]["spec"]["imagePullSecrets"],
            *codec::ParseYaml("[{name: s}]"));
}

TEST(VgpuManager, KernelModuleConfig) {
  RecordProperty("holds", "operand-manifests.md #46 [TestTransformVGPUManager]");
  const Json daemonset =
      RenderDaemonSet("state-vgpu-manager",
                      Sandbox("vgpuManager: {enabled: true, kernelModuleConfig: {name: module}}"),
                      "configMaps: {module: [nvidia.conf]}");
  const Json& main = ContainerOf(daemonset, "nvidia-vgpu-manager-ctr");
  EXPECT_THAT(MountsOf(main), Contains("module:/drivers/nvidia.conf:ro:sub=nvidia.conf"));
  EXPECT_EQ(VolumeOf(daemonset, "module")["configMap"],
            *codec::ParseYaml("{name: module, items: [{key: nvidia.conf, path: nvidia.conf}]}"));
  EXPECT_FALSE(HasContainer(daemonset, "openshift-driver-toolkit-ctr"));
  EXPECT_EQ(main["image"], "registry.test/VGPU_MANAGER_IMAGE:v1-ubuntu22.04");
  EXPECT_THAT(
      RenderError("state-vgpu-manager",
                  Sandbox("vgpuManager: {enabled: true, kernelModuleConfig: {name: module}}"),
                  "configMaps: {module: null}"),
      HasSubstr("spec.vgpuManager.kernelModuleConfig.name"));
}

TEST(States, OrderAndEnablement) {
  RecordProperty("holds",
                 "operand-manifests.md #47, operator-behaviour.md #19, validator.md #22 "
                 "[TestIsStateEnabled_SandboxAndKataDevicePlugin]");
  const auto enabled = [](const std::string& spec) {
    const auto policy = api::ReadClusterPolicy(MinimalPolicy(*codec::ParseYaml(spec)));
    const Facts facts = ReadCluster(PlainCluster());
    const DefaultImages images = TestImages();
    const Context context{
        .policy = *policy, .facts = facts, .images = images, .operator_namespace = "gpu-operator"};
    std::vector<std::string> states;
    for (const RenderedOperand& rendered : Render(context)) {
      EXPECT_TRUE(rendered.objects)
          << rendered.operand->state << ": " << rendered.objects.error().ToString();
      if (rendered.mode == Mode::kEnabled) states.emplace_back(rendered.operand->state);
    }
    return states;
  };
  const std::vector<std::string> defaults = {"pre-requisites",
                                             "state-operator-metrics",
                                             "state-driver",
                                             "state-container-toolkit",
                                             "state-operator-validation",
                                             "state-device-plugin",
                                             "state-mps-control-daemon",
                                             "state-dcgm",
                                             "state-dcgm-exporter",
                                             "gpu-feature-discovery",
                                             "state-mig-manager"};
  EXPECT_EQ(enabled("{}"), defaults);
  const std::string all = R"(
nodeStatusExporter: {enabled: true}
vgpuManager: {enabled: true}
vgpuDeviceManager: {enabled: true}
vfioManager: {enabled: true}
sandboxDevicePlugin: {enabled: true}
kataSandboxDevicePlugin: {enabled: true}
kataManager: {enabled: true}
ccManager: {enabled: true}
)";
  std::vector<std::string> expected = defaults;
  expected.emplace_back("state-node-status-exporter");
  EXPECT_EQ(enabled(all), expected);
  for (const char* state : {"state-vgpu-manager", "state-vgpu-device-manager",
                            "state-sandbox-validation", "state-vfio-manager"}) {
    expected.emplace_back(state);
  }
  std::vector<std::string> kubevirt = expected;
  kubevirt.emplace_back("state-sandbox-device-plugin");
  EXPECT_EQ(enabled(all + "sandboxWorkloads: {enabled: true}"), kubevirt);
  EXPECT_EQ(enabled(Sandbox(all)), kubevirt);
  std::vector<std::string> kata = expected;
  kata.emplace_back("state-kata-device-plugin");
  kata.emplace_back("state-cc-manager");
  EXPECT_EQ(enabled(Sandbox(all, "kata")), kata);
  EXPECT_THAT(enabled("devicePlugin: {enabled: false}"), Not(Contains("state-mps-control-daemon")));
}

// Section 1: NVIDIADriver objects take over driver and vGPU manager. Where there are no such
// objects, that is an error with the field, and what stands stays.
TEST(States, NobodyToLeaveTheDriverTo) {
  const auto policy = api::ReadClusterPolicy(MinimalPolicy(*codec::ParseYaml(
      Sandbox("driver: {useNvidiaDriverCRD: true}\nvgpuManager: {enabled: true}"))));
  Facts facts = ReadCluster(PlainCluster());
  facts.driver_objects = false;
  const DefaultImages images = TestImages();
  const Context context{
      .policy = *policy, .facts = facts, .images = images, .operator_namespace = "gpu-operator"};
  std::vector<RenderedOperand> rendered = Render(context);
  std::vector<StandingObject> standing;
  for (const RenderedOperand& operand : rendered) {
    const std::string_view state = operand.operand->state;
    if (state != "state-driver" && state != "state-vgpu-manager") continue;
    ASSERT_FALSE(operand.objects) << state;
    EXPECT_EQ(operand.objects.error().code, base::Code::kInvalid);
    EXPECT_THAT(operand.objects.error().message,
                ::testing::HasSubstr("spec.driver.useNvidiaDriverCRD: "));
    standing.push_back({.kind = &kube::kDaemonSets,
                        .key = {.namespace_name = "gpu-operator", .name = std::string(state)},
                        .uid = "1",
                        .owner_uid = policy->uid,
                        .state = std::string(state)});
  }
  EXPECT_EQ(standing.size(), 2U);
  EXPECT_THAT(DecideRemovals(rendered, standing, policy->uid), IsEmpty());

  facts.driver_objects = true;
  rendered = Render(context);
  const auto removals = DecideRemovals(rendered, standing, policy->uid);
  ASSERT_EQ(removals.size(), 2U);
  for (const Removal& removal : removals) {
    EXPECT_EQ(removal.reason, RemovalReason::kDelegated);
    EXPECT_TRUE(removal.orphans_pods) << removal.object.key.name;
  }
}

// 8 [TestAllAssetsHaveManifestKind], and every folder belongs to an operand.
TEST(States, ManifestsOfEveryOperand) {
  for (const Operand& operand : Operands()) {
    const auto objects = Operands().LoadManifests(operand.state, true);
    ASSERT_TRUE(objects) << objects.error().ToString();
    EXPECT_FALSE(objects->empty()) << operand.state;
    for (const Object& object : *objects) {
      EXPECT_FALSE(codec::FindString(object, {"kind"}).empty());
      EXPECT_FALSE(NameOf(object).empty());
    }
  }
  for (const Manifest& manifest : EmbeddedManifests()) {
    EXPECT_TRUE(std::ranges::any_of(Operands(), [&](const Operand& operand) {
      return operand.state == manifest.state;
    })) << manifest.state;
  }
}

}  // namespace
}  // namespace pitcrew::desired::testing
