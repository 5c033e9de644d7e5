// Digests of upstream's own tests (operand-manifests.md #32 to #38, driver-lifecycle.md 13.1).
#include "desired/operands/driver_digest.h"

#include <gtest/gtest.h>

#include <string_view>

#include "base/strings.h"
#include "codec/yaml.h"
#include "desired/pod.h"
#include "desired/testing/render_cluster.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

// I and M of the checklist; "nothing else unless said".
Json DriverPod() {
  return {{"metadata", {{"name", "nvidia-driver-daemonset"}}},
          {"spec",
           {{"template",
             {{"spec",
               {{"initContainers",
                 {{{"name", "k8s-driver-manager"},
                   {"image", "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.8.0"}}}},
                {"containers",
                 {{{"name", "nvidia-driver-ctr"},
                   {"image", "nvcr.io/nvidia/driver:570.172.08-ubuntu20.04"}}}}}}}}}}};
}

Json& Driver(Json& daemonset) { return *FindContainer(daemonset, "nvidia-driver-ctr"); }
Json& Manager(Json& daemonset) { return *FindContainer(daemonset, "k8s-driver-manager"); }

TEST(DriverDigest, EnvironmentAndSecret) {
  RecordProperty("holds",
                 "operand-manifests.md #32, driver-lifecycle.md #16, #17 "
                 "[TestTransformDriverWithResources, TestTransformDriver]");
  Json daemonset = DriverPod();
  SetEnv(Driver(daemonset), "GDRCOPY_ENABLED", "true");
  SetEnv(Driver(daemonset), "GDS_ENABLED", "true");
  EXPECT_EQ(DriverConfigDigest(daemonset), "1378192953");
  Driver(daemonset)["envFrom"] = {{{"secretRef", {{"name", "test-env-secret"}}}}};
  EXPECT_EQ(DriverConfigDigest(daemonset), "4204546510");
}

TEST(DriverDigest, Licence) {
  RecordProperty("holds",
                 "operand-manifests.md #33, driver-lifecycle.md #19, #20 "
                 "[TestTransformDriverWithLicensingConfig]");
  Json daemonset = DriverPod();
  AddMount(Driver(daemonset), {.volume = "licensing-config",
                               .path = "/drivers/gridd.conf",
                               .read_only = true,
                               .sub_path = "gridd.conf"});
  SetVolume(daemonset, {{"name", "licensing-config"}, {"secret", {{"secretName", "test-secret"}}}});
  EXPECT_EQ(DriverConfigDigest(daemonset), "1164839178");
  SetVolume(daemonset, ConfigMapVolume("licensing-config", "test-configmap", {}));
  EXPECT_EQ(DriverConfigDigest(daemonset), "3123249180");
}

TEST(DriverDigest, RdmaAndTopology) {
  RecordProperty("holds",
                 "operand-manifests.md #34, driver-lifecycle.md #18, #21 [TestTransformDriverRDMA, "
                 "TestTransformDriverVGPUTopologyConfig]");
  Json daemonset = DriverPod();
  for (Json* container : {&Driver(daemonset), &Manager(daemonset)}) {
    SetEnv(*container, "GPU_DIRECT_RDMA_ENABLED", "true");
    SetEnv(*container, "USE_HOST_MOFED", "true");
  }
  EXPECT_EQ(DriverConfigDigest(daemonset), "785503300");

  daemonset = DriverPod();
  AddMount(Driver(daemonset), {.volume = "topology-config",
                               .path = "/etc/nvidia/nvidia-topologyd.conf",
                               .read_only = true,
                               .sub_path = "nvidia-topologyd.conf"});
  SetVolume(daemonset, ConfigMapVolume("topology-config", "sample-topology-config", {}));
  EXPECT_EQ(DriverConfigDigest(daemonset), "1340033241");
}

TEST(DriverDigest, EmptyConfigMaps) {
  RecordProperty("holds",
                 "operand-manifests.md #35, driver-lifecycle.md #22, #23 "
                 "[TestTransformDriverWithAdditionalConfig]");
  Json daemonset = DriverPod();
  Driver(daemonset)["image"] = "nvcr.io/nvidia/driver:580.126.16-ubuntu24.04";
  SetVolume(daemonset, ConfigMapVolume("test-cert", "test-cert", {}));
  EXPECT_EQ(DriverConfigDigest(daemonset), "963428473");
  PodSpec(daemonset)["volumes"] =
      Json::array({ConfigMapVolume("test-repo-config", "test-repo-config", {})});
  EXPECT_EQ(DriverConfigDigest(daemonset), "2050622367");
}

TEST(DriverDigest, DependsOnWhatTheDriverDoesOnly) {
  RecordProperty("holds",
                 "operand-manifests.md #37, driver-lifecycle.md #24, #25 [TestDriverConfigDigest]");
  const std::string before = DriverConfigDigest(DriverPod());
  const auto digest_after = [](const std::function<void(Json&)>& change) {
    Json daemonset = DriverPod();
    change(daemonset);
    return DriverConfigDigest(daemonset);
  };
  const std::pair<const char*, std::function<void(Json&)>> kUnchanged[] = {
      {"resources", [](Json& d) { Driver(d)["resources"] = {{"limits", {{"cpu", "1"}}}}; }},
      {"probe", [](Json& d) { Driver(d)["startupProbe"] = {{"periodSeconds", 3}}; }},
      {"tolerations", [](Json& d) { PodSpec(d)["tolerations"] = {{{"key", "a"}}}; }},
      {"node selector", [](Json& d) { SetNodeSelector(d, "a", "b"); }},
      {"security", [](Json& d) { Driver(d)["securityContext"] = {{"privileged", true}}; }},
      {"pull policy", [](Json& d) { Driver(d)["imagePullPolicy"] = "Always"; }},
      {"annotation", [](Json& d) { SetPodAnnotation(d, "a", "b"); }},
      {"label", [](Json& d) { d["spec"]["template"]["metadata"]["labels"]["a"] = "b"; }},
      {"priority class", [](Json& d) { PodSpec(d)["priorityClassName"] = "a"; }},
      {"service account", [](Json& d) { PodSpec(d)["serviceAccountName"] = "a"; }},
      {"host PID", [](Json& d) { PodSpec(d)["hostPID"] = true; }},
      {"pod security", [](Json& d) { PodSpec(d)["securityContext"] = {{"runAsUser", 1}}; }},
      {"manager resources",
       [](Json& d) { Manager(d)["resources"] = {{"limits", {{"cpu", "1"}}}}; }},
      {"other init container",
       [](Json& d) { PodSpec(d)["initContainers"].push_back({{"name", "x"}, {"image", "y"}}); }},
      {"field env",
       [](Json& d) {
         Driver(d)["env"] = {{{"name", "NODE_NAME"},
                              {"valueFrom", {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}}}}};
       }},
      {"other container",
       [](Json& d) { PodSpec(d)["containers"].push_back({{"name", "x"}, {"image", "y"}}); }},
  };
  for (const auto& [name, change] : kUnchanged) {
    EXPECT_EQ(digest_after(change), before) << name;
  }
  const std::pair<const char*, std::function<void(Json&)>> kChanged[] = {
      {"image", [](Json& d) { Driver(d)["image"] = "other"; }},
      {"manager image", [](Json& d) { Manager(d)["image"] = "other"; }},
      {"env", [](Json& d) { SetEnv(Driver(d), "A", "b"); }},
      {"manager env", [](Json& d) { SetEnv(Manager(d), "A", "b"); }},
      {"args", [](Json& d) { SetArgs(Driver(d), {"a"}); }},
      {"command", [](Json& d) { Driver(d)["command"] = {"a"}; }},
      {"peermem",
       [](Json& d) { PodSpec(d)["containers"].push_back({{"name", "nvidia-peermem-ctr"}}); }},
      {"storage", [](Json& d) { PodSpec(d)["containers"].push_back({{"name", "nvidia-fs-ctr"}}); }},
      {"copy",
       [](Json& d) { PodSpec(d)["containers"].push_back({{"name", "nvidia-gdrcopy-ctr"}}); }},
      {"volume", [](Json& d) { SetVolume(d, HostPathVolume("a", "/a")); }},
      {"ConfigMap", [](Json& d) { SetVolume(d, ConfigMapVolume("a", "a", {})); }},
      {"Secret", [](Json& d) { SetVolume(d, {{"name", "a"}, {"secret", {{"secretName", "a"}}}}); }},
      {"mount", [](Json& d) { AddMount(Driver(d), {.volume = "a", .path = "/a"}); }},
      {"host root", [](Json& d) { SetVolume(d, HostPathVolume("host-root", "/custom")); }},
      {"secret env", [](Json& d) { Driver(d)["envFrom"] = {{{"secretRef", {{"name", "s"}}}}}; }},
  };
  for (const auto& [name, change] : kChanged) EXPECT_NE(digest_after(change), before) << name;
}

TEST(DriverDigest, OrderOfVariablesAndMountsIsNothing) {
  RecordProperty("holds", "driver-lifecycle.md #28 [TestSortEnvVars, TestExtractVolumeMounts]");
  const auto digest = [](std::initializer_list<const char*> names) {
    Json daemonset = DriverPod();
    for (const char* name : names) {
      SetEnv(Driver(daemonset), name, "1");
      AddMount(Driver(daemonset), {.volume = name, .path = std::string("/") + name});
    }
    return DriverConfigDigest(daemonset);
  };
  EXPECT_EQ(digest({"A", "B", "C"}), digest({"C", "A", "B"}));
  EXPECT_NE(digest({"A", "B", "C"}), digest({"A", "B"}));
}

// The text that is hashed, word by word as driver-lifecycle.md 6.1 says.
TEST(DriverDigest, OfAPolicyIsReadFromTheFinishedPod) {
  RecordProperty("holds",
                 "driver-lifecycle.md #26, #28 [TestExtractDriverInstallConfigExtraction, "
                 "TestExtractEnvVars, TestExtractVolumes]");
  const auto daemonset = codec::ParseYaml(R"(
spec:
  template:
    spec:
      initContainers:
      - {name: k8s-driver-manager, image: r/manager:1, env: [{name: M, value: m}]}
      - {name: other-init, image: r/other:1, env: [{name: N, value: n}]}
      containers:
      - name: nvidia-driver-ctr
        image: r/driver:1
        command: [nvidia-driver]
        args: [init, --fast]
        env:
        - {name: OPENSHIFT_VERSION, value: "4.18"}
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: KERNEL_MODULE_TYPE, value: open}
        - {name: EMPTY, value: ""}
        envFrom: [{secretRef: {name: first}}, {configMapRef: {name: c}}, {secretRef: {name: last}}]
        volumeMounts: [{name: v, mountPath: /b}, {name: v, mountPath: /a, subPath: s, readOnly: true}]
      - {name: openshift-driver-toolkit-ctr, image: r/toolkit:1, env: [{name: T, value: t}]}
      volumes:
      - {name: v, emptyDir: {medium: Memory}}
      - {name: host-root, hostPath: {path: /}}
)");
  ASSERT_TRUE(daemonset) << daemonset.error().ToString();
  constexpr std::string_view kText =
      "AdditionalVolumeMounts:([]config.VolumeMountConfig)["
      "{Name:(string)v MountPath:(string)/a SubPath:(string)s ReadOnly:(bool)true} "
      "{Name:(string)v MountPath:(string)/b SubPath:(string) ReadOnly:(bool)false}]"
      "AdditionalVolumes:([]config.VolumeConfig)["
      "{Name:(string)host-root ConfigMapName:(string) SecretName:(string) HostPath:(string)/} "
      "{Name:(string)v ConfigMapName:(string) SecretName:(string) HostPath:(string)}]"
      "DTKEnabled:(bool)true"
      "DTKImage:(string)r/toolkit:1"
      "DriverArgs:([]string)[init --fast]"
      "DriverCommand:([]string)[nvidia-driver]"
      "DriverEnv:([]config.EnvVar)[{Name:(string)EMPTY Value:(string)} "
      "{Name:(string)KERNEL_MODULE_TYPE Value:(string)open} "
      "{Name:(string)OPENSHIFT_VERSION Value:(string)4.18}]"
      "DriverImage:(string)r/driver:1"
      "DriverManagerImage:(string)r/manager:1"
      "HostRoot:(string)/"
      "ManagerEnv:([]config.EnvVar)[{Name:(string)M Value:(string)m}]"
      "SecretEnvSource:(string)last";
  EXPECT_EQ(DriverConfigDigest(*daemonset), std::to_string(base::HashFnv1a32(kText)));
}

TEST(DriverDigest, AnEmptyFieldIsNone) {
  RecordProperty("holds",
                 "driver-lifecycle.md #27 [TestHashDriverInstallConfigZeroFieldInvariant, "
                 "TestGetObjectHashIgnoreEmptyKeys]");
  const std::string without = DriverConfigDigest(DriverPod());
  const auto with = [](const char* member, const Json& value) {
    Json daemonset = DriverPod();
    Driver(daemonset)[member] = value;
    return DriverConfigDigest(daemonset);
  };
  for (const char* member : {"args", "command", "env", "envFrom", "volumeMounts"}) {
    EXPECT_EQ(with(member, Json::array()), without) << member;
  }
  Json daemonset = DriverPod();
  PodSpec(daemonset)["volumes"] = Json::array();
  EXPECT_EQ(DriverConfigDigest(daemonset), without);
  EXPECT_NE(with("args", {""}), without) << "an argument, if an empty one";
}

// The whole driver DaemonSet with the chart's defaults on ubuntu22.04.
TEST(DriverDigest, UpstreamManifestWithChartDefaults) {
  RecordProperty("holds", "operand-manifests.md #38");
  const Json daemonset = testing::RenderDaemonSet("state-driver", R"(
driver:
  repository: nvcr.io/nvidia
  image: driver
  version: "595.91.07"
  manager: {repository: nvcr.io/nvidia/cloud-native, image: k8s-driver-manager, version: v0.12.0}
hostPaths: {rootFS: /, driverInstallDir: /run/nvidia/driver}
)");
  const auto env = testing::EnvOf(testing::ContainerOf(daemonset, "nvidia-driver-ctr"));
  EXPECT_EQ(env.back(), "DRIVER_CONFIG_DIGEST=3379408550");
  const auto manager = testing::EnvOf(testing::ContainerOf(daemonset, "k8s-driver-manager"));
  EXPECT_EQ(manager.back(), "DRIVER_CONFIG_DIGEST=3379408550");
}

}  // namespace
}  // namespace pitcrew::desired
