// What the pod of an image check is, and what its states mean.
#include "driver_upgrade/image_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "codec/yaml.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using State = ImageVerdict::State;

Json FromYaml(const std::string& text) {
  const auto read = codec::ParseYaml(text);
  EXPECT_TRUE(read) << read.error().ToString();
  return read ? *read : Json();
}

Json DaemonSet() {
  return FromYaml(R"(
metadata: {name: nvidia-driver-daemonset, namespace: gpu-operator, uid: d1}
spec:
  selector: {matchLabels: {app: nvidia-driver-daemonset}}
  template:
    metadata: {labels: {app: nvidia-driver-daemonset, app.kubernetes.io/component: nvidia-driver}}
    spec:
      nodeSelector: {nvidia.com/gpu.deploy.driver: "true"}
      affinity: {podAntiAffinity: {}}
      priorityClassName: system-node-critical
      serviceAccountName: nvidia-driver
      hostPID: true
      imagePullSecrets: [{name: registry}]
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      initContainers:
      - name: k8s-driver-manager
        image: manager:1
        command: [driver-manager]
        args: [uninstall_driver]
        env: [{name: NODE_NAME, value: x}]
        securityContext: {privileged: true}
        volumeMounts: [{name: run-nvidia, mountPath: /run/nvidia}]
      containers:
      - name: nvidia-driver-ctr
        image: nvcr.io/nvidia/driver:590.1-ubuntu22.04
        imagePullPolicy: IfNotPresent
        command: [nvidia-driver]
        args: [init]
        env: [{name: KERNEL_MODULE_TYPE, value: open}]
        envFrom: [{secretRef: {name: build}}]
        resources: {limits: {nvidia.com/gpu: 1, memory: 8Gi}}
        ports: [{containerPort: 80, hostPort: 80}]
        securityContext: {privileged: true}
        startupProbe: {exec: {command: [sh]}}
        lifecycle: {preStop: {exec: {command: [rm]}}}
        volumeMounts:
        - {name: run-nvidia, mountPath: /run/nvidia, mountPropagation: Bidirectional}
        - {name: parameters, mountPath: /drivers/nvidia.conf, subPath: nvidia.conf}
        - {name: subscription-config-0, mountPath: /run/secrets/etc-pki-entitlement, readOnly: true}
      - name: nvidia-peermem-ctr
        image: nvcr.io/nvidia/driver:590.1-ubuntu22.04
        command: [nvidia-driver]
      - name: nvidia-fs-ctr
        image: nvcr.io/nvidia/nvidia-fs:2.1-ubuntu22.04
        imagePullPolicy: Always
        command: [bash, -xc]
        args: [until false; do sleep 2; done]
        startupProbe: {exec: {command: [sh]}}
        volumeMounts: [{name: parameters, mountPath: /drivers/nvidia.conf}]
      - {name: openshift-driver-toolkit-ctr, image: toolkit:4, command: [bash, -xc]}
      - {name: another-ctr, image: manager:1}
      volumes:
      - {name: run-nvidia, hostPath: {path: /run/nvidia}}
      - {name: parameters, configMap: {name: parameters}}
      - {name: unused, configMap: {name: other}}
      - {name: subscription-config-0, hostPath: {path: /etc/pki/entitlement, type: Directory}}
)");
}

TEST(ImageCheckPod, IsTheDriversContainerThatAnswersAndOneForEachOtherImage) {
  const auto pod = ImageCheckPod(DaemonSet(), "nvidia-driver-image-check-r1-0", "gpu-1");
  ASSERT_TRUE(pod) << pod.error().ToString();
  EXPECT_EQ(*pod, FromYaml(R"(
apiVersion: v1
kind: Pod
metadata:
  name: nvidia-driver-image-check-r1-0
  namespace: gpu-operator
  labels: {app: nvidia-driver-image-check}
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: nvidia-driver-daemonset, uid: d1}]
spec:
  nodeName: gpu-1
  restartPolicy: Never
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 1
  serviceAccountName: nvidia-driver
  imagePullSecrets: [{name: registry}]
  tolerations:
  - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}
  containers:
  - name: nvidia-driver-ctr
    image: nvcr.io/nvidia/driver:590.1-ubuntu22.04
    imagePullPolicy: IfNotPresent
    command: [nvidia-driver]
    args: [preflight, --report, /dev/termination-log]
    terminationMessagePath: /dev/termination-log
    env: [{name: KERNEL_MODULE_TYPE, value: open}, {name: NVIDIA_VISIBLE_DEVICES, value: void}]
    envFrom: [{secretRef: {name: build}}]
    securityContext: {privileged: true, readOnlyRootFilesystem: true}
    volumeMounts:
    - {name: parameters, mountPath: /drivers/nvidia.conf, subPath: nvidia.conf, readOnly: true}
    - {name: subscription-config-0, mountPath: /run/secrets/etc-pki-entitlement, readOnly: true}
    - {name: image-check-tmp, mountPath: /tmp}
  - name: k8s-driver-manager
    image: manager:1
    command: [driver-manager]
    args: [--help]
    env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]
    securityContext:
      {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
  - name: nvidia-fs-ctr
    image: nvcr.io/nvidia/nvidia-fs:2.1-ubuntu22.04
    imagePullPolicy: Always
    command: [bash]
    args: [-c, ":"]
    env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]
    securityContext:
      {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
  - name: openshift-driver-toolkit-ctr
    image: toolkit:4
    command: [bash]
    args: [-c, ":"]
    env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]
    securityContext:
      {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
  volumes:
  - {name: parameters, configMap: {name: parameters}}
  - {name: subscription-config-0, hostPath: {path: /etc/pki/entitlement, type: Directory}}
  - {name: image-check-tmp, emptyDir: {}}
)"));
}

TEST(ImageCheckPod, ADaemonSetWithoutADriverHasNone) {
  Json daemonset = DaemonSet();
  daemonset["spec"]["template"]["spec"]["containers"].erase(0);  // the driver's
  EXPECT_EQ(ImageCheckPod(daemonset, "n", "gpu-1").error().code, base::Code::kNotFound);
}

std::string KindOf(std::map<std::string, std::string, std::less<>> labels) {
  return KindOfNode([&](std::string_view key) -> std::string_view {
    const auto found = labels.find(key);
    return found == labels.end() ? "" : std::string_view(found->second);
  });
}

TEST(ImageCheckName, IsOneForNodesThatTheSameImageServesInTheSameWay) {
  const std::map<std::string, std::string, std::less<>> node = {
      {"feature.node.kubernetes.io/kernel-version.full", "6.1.0-1"},
      {"feature.node.kubernetes.io/system-os_release.ID", "debian"},
      {"feature.node.kubernetes.io/system-os_release.VERSION_ID", "12"},
      {"kubernetes.io/arch", "amd64"}};
  const auto changed = [&](const std::string& key, const std::string& value) {
    auto other = node;
    other[key] = value;
    return KindOf(other);
  };
  const std::string kind = KindOf(node);
  EXPECT_EQ(changed("zone", "b"), kind);
  for (const auto& [key, value] : node) EXPECT_NE(changed(key, value + "0"), kind) << key;
  const std::string name = ImageCheckName("d1", "6d4f8b7c9", kind);
  EXPECT_THAT(name, StartsWith("nvidia-driver-image-check-6d4f8b7c9-"));
  EXPECT_EQ(ImageCheckName("d1", "6d4f8b7c9", kind), name);
  EXPECT_NE(ImageCheckName("d2", "6d4f8b7c9", kind), name);
  EXPECT_NE(ImageCheckName("d1", "6d4f8b7c8", kind), name);
  EXPECT_NE(ImageCheckName("d1", "6d4f8b7c9", changed("kubernetes.io/arch", "arm64")), name);
}

constexpr std::string_view kCreated = "2026-03-02T12:00:00Z";

// Of a pod with these containers that was made `minutes` ago.
ImageVerdict Judge(const std::string& status, int minutes = 0, bool deleting = false,
                   const std::vector<std::string>& containers = {"c"}) {
  Json object = FromYaml("{status: " + status + "}");
  object["metadata"] = {{"name", "check"}, {"creationTimestamp", kCreated}};
  if (deleting) object["metadata"]["deletionTimestamp"] = kCreated;
  object["spec"] = {{"nodeName", "gpu-1"}};
  for (const std::string& name : containers) {
    object["spec"]["containers"].push_back({{"name", name}, {"image", "r/" + name}});
  }
  const auto pod = ReadImageCheckPod(object);
  EXPECT_TRUE(pod);
  return JudgeImage(*pod, *base::ParseRfc3339(kCreated) + std::chrono::minutes(minutes));
}

std::string Waiting(const std::string& reason, const std::string& message = "") {
  return "{phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: " + reason +
         ", message: '" + message + "'}}}]}";
}

std::string Ended(const std::string& message) {
  return "{phase: Succeeded, containerStatuses: [{name: c, imageID: x, state: {terminated: "
         "{exitCode: 1, finishedAt: '2026-03-02T12:00:30Z', message: '" +
         message + "'}}}]}";
}

// Of the driver's container and another; the kubelet tells of them in an order of its own.
ImageVerdict JudgeBoth(const std::string& driver, const std::string& other, int minutes = 0) {
  return Judge("{phase: Pending, containerStatuses: [{name: a, state: " + other +
                   "}, {name: c, state: " + driver + "}]}",
               minutes, false, {"c", "a"});
}
const char* const kEnded = "{terminated: {exitCode: 0, finishedAt: '2026-03-02T12:00:30Z'}}";
const char* const kLacks = "{terminated: {exitCode: 1, message: 'preflight: NoCompiler: x'}}";
const char* const kNoSuchImage = "{waiting: {reason: ErrImagePull, message: not found}}";
const char* const kBeingMade = "{waiting: {reason: ContainerCreating}}";

TEST(ImageVerdict, AnImageOfAnotherContainerThatCannotBePulledIsMissingToo) {
  for (const char* driver : {kEnded, kLacks, kBeingMade}) {
    const ImageVerdict verdict = JudgeBoth(driver, kNoSuchImage);
    EXPECT_EQ(verdict.state, State::kNoImage) << driver;
    EXPECT_EQ(verdict.container, "a");
    EXPECT_EQ(verdict.says, "not found");
    EXPECT_FALSE(verdict.between_tries);
  }
  EXPECT_EQ(JudgeBoth(kNoSuchImage, kNoSuchImage).container, "c") << "the first is told";
  EXPECT_TRUE(JudgeBoth(kEnded, "{waiting: {reason: ImagePullBackOff}}").between_tries);
}

TEST(ImageVerdict, NothingIsKnownBeforeAllContainersAre) {
  EXPECT_EQ(JudgeBoth(kEnded, kBeingMade).state, State::kUnderWay);
  EXPECT_EQ(*JudgeBoth(kEnded, kBeingMade).until, *base::ParseRfc3339("2026-03-02T12:30:00Z"));
  const std::string runs = "{running: {startedAt: '2026-03-02T12:01:00Z'}}";
  for (const ImageVerdict& verdict : {JudgeBoth(runs, kBeingMade), JudgeBoth(kBeingMade, runs)}) {
    EXPECT_EQ(*verdict.until, *base::ParseRfc3339("2026-03-02T12:03:00Z")) << "the first time";
  }
  EXPECT_EQ(JudgeBoth(kEnded, "{}").state, State::kUnderWay) << "it is not told of yet";
  EXPECT_EQ(JudgeBoth(kEnded, kEnded).state, State::kGood);
  const ImageVerdict slow = JudgeBoth(kEnded, kBeingMade, 30);
  EXPECT_EQ(slow.state, State::kUnknown);
  EXPECT_THAT(slow.says, HasSubstr("container a of pod check has not started in 30 minutes"));
}

TEST(ImageVerdict, WhatThePreflightSaysIsNotKeptUntilOtherImagesAreThere) {
  const ImageVerdict verdict = JudgeBoth(kLacks, kBeingMade);
  EXPECT_EQ(verdict.state, State::kMissing);
  EXPECT_EQ(verdict.container, "c");
}

TEST(ImageChooserOf, IsTheBlockInWhichAPersonCorrectsIt) {
  EXPECT_EQ(ImageChooserOf("nvidia-driver-ctr", false), "spec.driver");
  EXPECT_EQ(ImageChooserOf("nvidia-peermem-ctr", false), "spec.driver");
  EXPECT_EQ(ImageChooserOf("k8s-driver-manager", false), "spec.driver.manager");
  EXPECT_EQ(ImageChooserOf("nvidia-driver-ctr", true), "spec");
  EXPECT_EQ(ImageChooserOf("k8s-driver-manager", true), "spec.manager");
  for (const bool of_driver_object : {false, true}) {
    EXPECT_EQ(ImageChooserOf("nvidia-fs-ctr", of_driver_object), "spec.gds");
    EXPECT_EQ(ImageChooserOf("nvidia-gdrcopy-ctr", of_driver_object), "spec.gdrcopy");
    EXPECT_EQ(ImageChooserOf("openshift-driver-toolkit-ctr", of_driver_object),
              "OpenShift's ImageStream driver-toolkit");
  }
}

TEST(ImageVerdict, AnImageThatCannotBePulledIsMissing) {
  for (const char* reason :
       {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}) {
    const ImageVerdict verdict = Judge(Waiting(reason, "manifest unknown"));
    EXPECT_EQ(verdict.state, State::kNoImage) << reason;
    EXPECT_EQ(verdict.says, "manifest unknown");
    EXPECT_FALSE(verdict.until) << "the kubelet tries again";
  }
  EXPECT_EQ(Judge(Waiting("ErrImagePull")).says, "ErrImagePull");
}

TEST(ImageVerdict, WhileItIsFetchedNothingIsSaidForHalfAnHour) {
  for (const char* status :
       {"{phase: Pending, containerStatuses: [{name: c, state: {waiting: {}}}]}",
        "{phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: "
        "ContainerCreating}}}]}"}) {
    EXPECT_EQ(Judge(status, 29).state, State::kUnderWay);
    EXPECT_EQ(*Judge(status, 29).until, *base::ParseRfc3339("2026-03-02T12:30:00Z"));
    EXPECT_EQ(Judge(status, 30).state, State::kUnknown);
    EXPECT_THAT(Judge(status, 30).says, HasSubstr("30 minutes"));
  }
}

TEST(ImageVerdict, WhatWasStartedHasItsImage) {
  EXPECT_EQ(Judge(Waiting("CreateContainerError")).state, State::kGood);
  const std::string runs =
      "{phase: Running, containerStatuses: [{name: c, state: {running: {startedAt: "
      "'2026-03-02T12:01:00Z'}}}]}";
  EXPECT_EQ(Judge(runs, 2).state, State::kUnderWay) << "it may say what is missing";
  EXPECT_EQ(Judge(runs, 3).state, State::kGood);
  // NVIDIA's scripts tell how they are called.
  EXPECT_EQ(Judge(Ended("")).state, State::kGood);
  EXPECT_EQ(Judge(Ended("Usage: nvidia-driver COMMAND")).state, State::kGood);
  EXPECT_EQ(Judge(Ended("preflight: nothing is missing")).state, State::kGood);
}

TEST(ImageVerdict, APreflightSaysWhatIsMissingForTenMinutes) {
  const ImageVerdict verdict = Judge(Ended("preflight: NoModulesForKernel: no modules"));
  EXPECT_EQ(verdict.state, State::kMissing);
  EXPECT_EQ(verdict.says, "NoModulesForKernel: no modules");
  EXPECT_EQ(*verdict.until, *base::ParseRfc3339("2026-03-02T12:10:30Z"));
}

TEST(ImageVerdict, SoDoesTheKubeletOfAConfigMapThatIsNotThere) {
  const ImageVerdict verdict =
      Judge(Waiting("CreateContainerConfigError", "secret \"build\" not found"));
  EXPECT_EQ(verdict.state, State::kMissing);
  EXPECT_EQ(verdict.says, "secret \"build\" not found");
  EXPECT_FALSE(verdict.until) << "the kubelet tries again";
}

TEST(ImageVerdict, APodThatNobodyStartsOrThatIsSentAwayTellsNothing) {
  EXPECT_EQ(Judge("{phase: Pending}", 1).state, State::kUnderWay);
  EXPECT_EQ(*Judge("{phase: Pending}", 1).until, *base::ParseRfc3339("2026-03-02T12:02:00Z"));
  EXPECT_EQ(Judge("{phase: Pending}", 2).state, State::kUnknown);
  const ImageVerdict evicted =
      Judge("{phase: Failed, reason: Evicted, message: The node had condition DiskPressure}");
  EXPECT_EQ(evicted.state, State::kUnknown);
  EXPECT_THAT(evicted.says, HasSubstr("Evicted The node had condition DiskPressure"));
  EXPECT_EQ(Judge("{phase: Failed, containerStatuses: [{name: c, state: {terminated: {reason: "
                  "ContainerStatusUnknown, exitCode: 137}}}]}")
                .state,
            State::kUnknown);
  EXPECT_EQ(Judge(Waiting("ErrImagePull"), 1, true).state, State::kUnderWay) << "it goes";
  EXPECT_EQ(Judge(Waiting("ErrImagePull"), 2, true).state, State::kUnknown) << "and does not";
}

TEST(TroubleOf, NamesNodeImageAndWhatIsSaid) {
  ImageCheckPodView pod;
  pod.node = "gpu-1";
  pod.containers = {{.name = "c", .image = "r/driver:590"}, {.name = "a", .image = "r/fs:2"}};
  EXPECT_EQ(TroubleOf(pod, {.state = State::kNoImage, .says = "not found", .container = "a"}),
            "node gpu-1 cannot get the image r/fs:2 of its new driver: not found");
  EXPECT_EQ(TroubleOf(pod, {.state = State::kMissing, .says = "no headers", .container = "c"}),
            "the driver of image r/driver:590 would not come up on node gpu-1: no headers");
  EXPECT_EQ(TroubleOf(pod, {.state = State::kGood}), "");
  EXPECT_EQ(TroubleOf(pod, {.state = State::kUnknown, .says = "x"}), "");
}

}  // namespace
}  // namespace pitcrew::driver_upgrade
