// The pod that tests the GPUs of a node, and what its status says.
#include "qualify/pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/yaml.h"

namespace pitcrew::qualify {
namespace {

using codec::Json;

Json Validator() {
  return *codec::ParseYaml(R"(
metadata:
  name: nvidia-operator-validator
  namespace: gpu-operator
  ownerReferences:
  - {apiVersion: nvidia.com/v1, kind: ClusterPolicy, name: cluster-policy, uid: u, controller: true}
spec:
  template:
    spec:
      serviceAccountName: nvidia-operator-validator
      runtimeClassName: nvidia
      priorityClassName: system-node-critical
      imagePullSecrets: [{name: secret}]
      initContainers:
      - {name: driver-validation, image: other}
      - name: toolkit-validation
        image: registry/pitcrew:v1
        imagePullPolicy: IfNotPresent
        securityContext: {privileged: true}
        volumeMounts: [{name: run, mountPath: /run/nvidia/validations}]
)");
}

TEST(Pod, HasWhatTheValidatorHasAndAllGpusOfItsNode) {
  const auto pod = MakePod({.node = "gpu-7", .memory = "8Gi", .deadline = "5m"}, Validator());
  ASSERT_TRUE(pod);
  const Json expected = *codec::ParseYaml(R"(
apiVersion: v1
kind: Pod
metadata:
  generateName: nvidia-qualification-
  namespace: gpu-operator
  labels: {app: nvidia-qualification}
  annotations: {nvidia.cdi.k8s.io/container.qualification: management.nvidia.com/gpu=all}
  ownerReferences:
  - {apiVersion: nvidia.com/v1, kind: ClusterPolicy, name: cluster-policy, uid: u}
spec:
  nodeName: gpu-7
  restartPolicy: Never
  tolerations: [{operator: Exists}]
  serviceAccountName: nvidia-operator-validator
  runtimeClassName: nvidia
  priorityClassName: system-node-critical
  imagePullSecrets: [{name: secret}]
  containers:
  - name: qualification
    image: registry/pitcrew:v1
    imagePullPolicy: IfNotPresent
    command: [nvidia-validator]
    args: [qualify, --tell, --memory=8Gi, --deadline=5m]
    env:
    - {name: NVIDIA_VISIBLE_DEVICES, value: all}
    - {name: NODE_NAME, value: gpu-7}
    securityContext: {privileged: true}
    terminationMessagePolicy: FallbackToLogsOnError
)");
  EXPECT_EQ(*pod, expected) << pod->dump(1);
}

TEST(Pod, OnlyWhatWasAskedFor) {
  const auto pod = MakePod({.node = "gpu-7", .even_if_used = true}, Validator());
  ASSERT_TRUE(pod);
  EXPECT_EQ((*pod)["spec"]["containers"][0]["args"], Json({"qualify", "--tell", "--even-if-used"}));
  Json other = Validator();
  other["spec"]["template"]["spec"].erase("initContainers");
  EXPECT_EQ(MakePod({.node = "gpu-7"}, other).error().reason, "NotAValidator");
}

TEST(Progress, SaysWhatHoldsThePodUp) {
  const auto of = [](const char* status) {
    return ProgressOf(Json{{"status", *codec::ParseYaml(status)}});
  };
  EXPECT_EQ(of("{phase: Pending}"), (Progress{"Pending", ""}));
  EXPECT_EQ(of("{phase: Pending, containerStatuses: [{state: {waiting: {reason: ImagePullBackOff, "
               "message: denied}}}]}"),
            (Progress{"Pending", "ImagePullBackOff: denied"}));
  EXPECT_EQ(of("{phase: Failed, containerStatuses: [{state: {terminated: {exitCode: 1, message: "
               "bad}}}]}"),
            (Progress{"Failed", "ended with exit status 1: bad"}));
  EXPECT_EQ(of("{phase: Succeeded, containerStatuses: [{state: {terminated: {exitCode: 0}}}]}"),
            (Progress{"Succeeded", ""}));
  EXPECT_TRUE(of("{phase: Failed}").ended());
  EXPECT_FALSE(of("{phase: Running}").ended());
}

}  // namespace
}  // namespace pitcrew::qualify
