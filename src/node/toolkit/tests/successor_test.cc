// Whether the toolkit leaves the engine configured for the one that comes after it; upstream never
// does (container-toolkit.md 4.2 step 9, 4.16).
#include "node/toolkit/successor.h"

#include <gtest/gtest.h>

#include "codec/yaml.h"

namespace pitcrew::node::toolkit {
namespace {

using codec::Json;

class Successor : public ::testing::Test {
 protected:
  static Json Yaml(std::string_view text) {
    const auto value = codec::ParseYaml(text);
    EXPECT_TRUE(value) << value.error().message;
    return value.value_or(Json());
  }

  // As the API server has them: the pod with what admission and the controller have added, the
  // template with a newer image.
  Surroundings around_{.own_pod = Yaml(R"(
metadata:
  name: nvidia-container-toolkit-daemonset-x
  ownerReferences: [{kind: DaemonSet, name: nvidia-container-toolkit-daemonset, uid: u1, controller: true}]
spec:
  affinity: {nodeAffinity: {}}
  containers:
  - {name: ctr, image: "toolkit:1", args: [run], env: [{name: RUNTIME, value: containerd}]}
  volumes:
  - {name: config, hostPath: {path: /etc/containerd}}
  - {name: kube-api-access-x, projected: {}}
)"),
                       .daemon_set = Yaml(R"(
metadata: {uid: u1}
spec:
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.deploy.container-toolkit: "true"}
      containers:
      - {name: ctr, image: "toolkit:2", args: [run], env: [{name: RUNTIME, value: containerd}]}
      volumes: [{name: config, hostPath: {path: /etc/containerd}}]
)"),
                       .node = Yaml(R"(
metadata: {labels: {nvidia.com/gpu.deploy.container-toolkit: "true", other: "1"}}
)"),
                       .name_space = Yaml("metadata: {name: gpu-operator}")};
};

TEST_F(Successor, ComesWhenOnlyTheImageIsAnother) { EXPECT_TRUE(HasSuccessor(around_)); }

TEST_F(Successor, ComesNotWhereTheToolkitIsNoLongerWanted) {
  for (const char* value : {"false", "paused-for-driver-upgrade"}) {
    auto around = around_;
    around.node["metadata"]["labels"]["nvidia.com/gpu.deploy.container-toolkit"] = value;
    EXPECT_FALSE(HasSuccessor(around)) << value;
  }
  auto without_label = around_;
  without_label.node["metadata"].erase("labels");
  EXPECT_FALSE(HasSuccessor(without_label));
}

TEST_F(Successor, ComesNotWhenWhatItNeedsIsBeingDeleted) {
  for (Json Surroundings::* object :
       {&Surroundings::daemon_set, &Surroundings::node, &Surroundings::name_space}) {
    auto around = around_;
    (around.*object)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    EXPECT_FALSE(HasSuccessor(around));
    around.*object = Json();
    EXPECT_FALSE(HasSuccessor(around));
  }
}

TEST_F(Successor, OfAnotherDaemonSetOfTheSameNameDoesNotCount) {
  around_.daemon_set["metadata"]["uid"] = "u2";
  EXPECT_FALSE(HasSuccessor(around_));
}

// It would not find, and so not remove, what this one has written elsewhere or by other names.
TEST_F(Successor, WithOtherSettingsStartsFromACleanEngine) {
  auto& specification = around_.daemon_set["spec"]["template"]["spec"];
  const Json before = specification;
  specification["containers"][0]["env"].push_back(
      {{"name", "NVIDIA_RUNTIME_NAME"}, {"value", "gpu"}});
  EXPECT_FALSE(HasSuccessor(around_));
  specification = before;
  specification["volumes"][0]["hostPath"]["path"] = "/etc/elsewhere";
  EXPECT_FALSE(HasSuccessor(around_));
  specification = before;
  specification["affinity"] = {{"nodeAffinity", Json::object()}};
  EXPECT_FALSE(HasSuccessor(around_));
}

// Unknown is not absent.
TEST(KeepsConfiguration, UnlessItIsKnownThatNobodyTakesOver) {
  const auto unknown = [](base::Code code, std::string reason) {
    return KeepsConfiguration(base::Fail(base::Error{code, std::move(reason), "no"}));
  };
  EXPECT_TRUE(KeepsConfiguration(true));
  EXPECT_FALSE(KeepsConfiguration(false));
  EXPECT_TRUE(unknown(base::Code::kUnavailable, "ConnectionRefused"));
  EXPECT_TRUE(unknown(base::Code::kTimeout, "RequestTimeout"));
  EXPECT_TRUE(unknown(base::Code::kNotFound, "OwnPodNotFound"));
  EXPECT_FALSE(unknown(base::Code::kUnavailable, "NotInCluster"));
  EXPECT_FALSE(unknown(base::Code::kDenied, "Forbidden"));
}

}  // namespace
}  // namespace pitcrew::node::toolkit
