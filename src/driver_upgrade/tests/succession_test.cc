// When a driver that changes hands is the same (driver-lifecycle.md section 2.18), and how its pod
// does.
#include "driver_upgrade/succession.h"

#include <gtest/gtest.h>

#include "codec/yaml.h"
#include "driver_upgrade/pods.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

Json ParsedYaml(const std::string& text) {
  const auto parsed = codec::ParseYaml(text);
  EXPECT_TRUE(parsed) << parsed.error().ToString();
  return *parsed;
}

// A pod of the ClusterPolicy's DaemonSet, as the API server returns it.
Json RunningPod() {
  return ParsedYaml(R"(
initContainers:
- {name: k8s-driver-manager, image: "manager:v1", env: [{name: DRIVER_CONFIG_DIGEST, value: "1"}]}
containers:
- name: nvidia-driver-ctr
  image: registry.test/driver:580.65.06-ubuntu22.04
  imagePullPolicy: IfNotPresent
  command: [nvidia-driver]
  args: [init]
  env:
  - {name: NODE_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
  - {name: KERNEL_MODULE_TYPE, value: auto}
  - {name: EMPTY}
  - {name: DRIVER_CONFIG_DIGEST, value: "1"}
  volumeMounts:
  - {name: host-root, mountPath: /host}
  - {name: repo-config, mountPath: /etc/apt/sources.list.d/a.list, subPath: a.list}
  - {name: driver-startup-probe-script, mountPath: /usr/local/bin/startup-probe.sh}
  - {name: kube-api-access-x2x, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}
volumes:
- {name: host-root, hostPath: {path: /, type: ""}}
- {name: repo-config, configMap: {name: repositories, defaultMode: 420}}
- {name: driver-startup-probe-script, configMap: {name: nvidia-driver-startup-probe}}
- {name: kube-api-access-x2x, projected: {sources: []}}
)");
}

// The template of a NVIDIADriver's DaemonSet with the same driver.
Json Template() {
  return ParsedYaml(R"(
initContainers:
- {name: k8s-driver-manager, image: "manager:v2", env: [{name: DRIVER_CONFIG_DIGEST, value: "2"}]}
containers:
- name: nvidia-driver-ctr
  image: registry.test/driver:580.65.06-ubuntu22.04
  command: [nvidia-driver]
  args: [init]
  startupProbe: {periodSeconds: 2}
  resources: {limits: {cpu: "2"}}
  env:
  - {name: NVIDIA_VISIBLE_DEVICES, value: void}
  - {name: EMPTY, value: ""}
  - {name: KERNEL_MODULE_TYPE, value: auto}
  - {name: DRIVER_CONFIG_DIGEST, value: "2"}
  volumeMounts:
  - {name: repositories, mountPath: /etc/apt/sources.list.d/a.list, subPath: a.list}
  - {name: host-root, mountPath: /host}
  - {name: driver-startup-probe-script, mountPath: /usr/local/bin/startup-probe.sh}
volumes:
- {name: driver-startup-probe-script, configMap: {name: nvidia-gpu-driver-all-startup-probe}}
- {name: repositories, configMap: {name: repositories}}
- {name: host-root, hostPath: {path: /}}
)");
}

TEST(DriverSuccession, TheSameDriverIsRecognised) {
  EXPECT_NE(DriverConfigurationOf(RunningPod()), 0U);
  EXPECT_EQ(DriverConfigurationOf(RunningPod()), DriverConfigurationOf(Template()));
}

TEST(DriverSuccession, WhatReachesTheDriverMakesItAnother) {
  const auto differs = [](const std::string& pointer, const Json& value) {
    Json changed = Template();
    changed[Json::json_pointer(pointer)] = value;
    return DriverConfigurationOf(changed) != DriverConfigurationOf(RunningPod());
  };
  EXPECT_TRUE(differs("/containers/0/image", "registry.test/driver:590.1.2-ubuntu22.04"));
  EXPECT_TRUE(differs("/containers/0/args/1", "--verbose"));
  EXPECT_TRUE(differs("/containers/0/env/2/value", "open"));
  EXPECT_TRUE(differs("/containers/0/env/1/value", "x"));
  EXPECT_TRUE(differs("/containers/0/envFrom", ParsedYaml("[{secretRef: {name: keys}}]")));
  EXPECT_TRUE(differs("/containers/0/volumeMounts/0/mountPath", "/etc/yum.repos.d/a.list"));
  EXPECT_TRUE(differs("/volumes/1/configMap/name", "others"));
  EXPECT_TRUE(differs("/volumes/2/hostPath/path", "/other"));
  EXPECT_TRUE(differs("/containers/1", ParsedYaml("{name: nvidia-peermem-ctr, image: a}")));
  EXPECT_FALSE(differs("/initContainers/0/image", "manager:v3"));
}

TEST(DriverSuccession, WithoutADriverNothingIsSaid) {
  EXPECT_EQ(DriverConfigurationOf(ParsedYaml("{containers: [{name: other, image: a}]}")), 0U);
  EXPECT_EQ(DriverConfigurationOf(Json::object()), 0U);
}

TEST(DriverSuccession, ThePodGetsTheLabelsOfItsNewOwnersPods) {
  const Json pod = ParsedYaml(
      "metadata: {uid: u, resourceVersion: '7', labels: {app: nvidia-driver-daemonset, "
      "app.kubernetes.io/component: nvidia-driver, controller-revision-hash: old, helm: x}}");
  const Json daemonset = ParsedYaml(
      "metadata: {annotations: {deprecated.daemonset.template.generation: '3'}}\n"
      "spec: {template: {metadata: {labels: {app: nvidia-gpu-driver-ubuntu22.04-1, "
      "app.kubernetes.io/component: nvidia-driver}}}}");
  EXPECT_EQ(HandOverPatch(pod, daemonset, "new"),
            ParsedYaml("metadata: {uid: u, resourceVersion: '7', labels: {app: "
                       "nvidia-gpu-driver-ubuntu22.04-1, app.kubernetes.io/component: "
                       "nvidia-driver, controller-revision-hash: new, helm: null, "
                       "pod-template-generation: '3'}}"));
}

// Its version stays that of before, so that it is outdated.
TEST(DriverSuccession, APodThatIsPassedOnHasItsNewOwnerAtOnce) {
  const Json pod = ParsedYaml(
      "metadata: {uid: u, resourceVersion: '7', labels: {app: nvidia-driver-daemonset, "
      "app.kubernetes.io/component: nvidia-driver, controller-revision-hash: old, "
      "pod-template-generation: '1', nvidia.com/precompiled: 'false'}, "
      "ownerReferences: [{uid: f}]}");
  const Json daemonset = ParsedYaml(
      "metadata: {name: precompiled, uid: p}\n"
      "spec: {template: {metadata: {labels: {app: nvidia-driver-daemonset, "
      "app.kubernetes.io/component: nvidia-driver, nvidia.com/precompiled: 'true'}}}}");
  EXPECT_EQ(PassOnPatch(pod, daemonset),
            ParsedYaml("metadata: {uid: u, resourceVersion: '7', labels: {app: "
                       "nvidia-driver-daemonset, app.kubernetes.io/component: nvidia-driver, "
                       "nvidia.com/precompiled: 'true', pod-template-generation: null}, "
                       "ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: "
                       "precompiled, uid: p, controller: true}]}"));
}

TEST(DriverSuccession, OnlyAnOrphanHasASuccessor) {
  Templates templates;
  templates.Add({.name = "next", .uid = "n", .digest = "", .configuration = 5});
  DriverPod orphan;
  orphan.configuration = 5;
  DriverPod waiting;
  waiting.owner_uid = "n";
  EXPECT_EQ(templates.SuccessionOf(orphan, &waiting), Succession::kNone) << "no revision yet";
  templates.Add(Revision{.owner_uid = "n", .hash = "h", .number = 1});
  EXPECT_EQ(templates.SuccessionOf(orphan, &waiting), Succession::kSame);
  EXPECT_EQ(templates.SuccessionOf(orphan, nullptr), Succession::kNone);
  orphan.former_parameters = true;
  EXPECT_EQ(templates.SuccessionOf(orphan, &waiting), Succession::kOther);
  orphan.former_parameters = false;
  orphan.configuration = 6;
  EXPECT_EQ(templates.SuccessionOf(orphan, &waiting), Succession::kOther);
  orphan.configuration = 0;
  EXPECT_EQ(templates.SuccessionOf(orphan, &waiting), Succession::kOther);
  orphan.owner_uid = "former";
  EXPECT_EQ(templates.SuccessionOf(orphan, &waiting), Succession::kNone);
}

TEST(DriverSuccession, AWaitingPodSaysForWhichNodeItIs) {
  const std::string affinity =
      "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
      "{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: "
      "[gpu-1]}]}]}}}";
  const auto read = [](const std::string& spec) {
    return *ReadDriverPod(ParsedYaml("spec: {" + spec + "}"));
  };
  EXPECT_EQ(read(affinity).waits_for, "gpu-1");
  EXPECT_EQ(read("nodeName: gpu-1, " + affinity).waits_for, "");
  EXPECT_EQ(read("nodeName: gpu-1, " + affinity).node, "gpu-1");
  EXPECT_EQ(read("containers: []").waits_for, "");
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
