// Reading of objects, and the rules of Kubernetes that findings rest on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "codec/yaml.h"
#include "desired/testing/outside_operand.h"
#include "fleet/cluster_looks.h"
#include "fleet/report.h"
#include "fleet/rules.h"

namespace pitcrew::fleet {
namespace {

codec::Json Yaml(std::string_view text) {
  auto value = codec::ParseYaml(text);
  EXPECT_TRUE(value) << value.error().ToString();
  return value ? *std::move(value) : codec::Json();
}

TEST(ViewsTest, OfNonsenseAreEmpty) {
  for (const char* text : {"{}", "[1]", "{metadata: 7, spec: x, status: [1]}",
                           "{status: {capacity: {nvidia.com/gpu: many}, conditions: {a: b}}}"}) {
    const auto object = Yaml(text);
    EXPECT_TRUE(ReadNode(object).capacity.empty());
    EXPECT_TRUE(ReadPod(object).requests.empty());
    EXPECT_EQ(ReadDaemonSet(object).desired, 0);
    EXPECT_EQ(ReadEvent(object).count, 1);
    EXPECT_FALSE(ReadPolicy(object).spec.problems.empty());
  }
}

// runtimes-and-distributions.md 5.2: the kubelet's version, or a label.
TEST(ViewsTest, ANodeTellsTheDistributionWhoseContainerdItHas) {
  const auto of = [](const char* kubelet, const char* labels) {
    return std::string(ReadNode(Yaml(fmt::format("metadata: {{name: a, labels: {}}}\nstatus: "
                                                 "{{nodeInfo: {{kubeletVersion: '{}'}}}}\n",
                                                 labels, kubelet)))
                           .distribution());
  };
  EXPECT_EQ(of("v1.34.1+k3s1", "{}"), "k3s");
  EXPECT_EQ(of("v1.34.1+rke2r1", "{}"), "RKE2");
  EXPECT_EQ(of("v1.36.0+k0s.0", "{}"), "k0s");
  EXPECT_EQ(of("v1.34.1", "{microk8s.io/cluster: 'true'}"), "MicroK8s");
  EXPECT_EQ(of("v1.34.1", "{microk8s.io/cluster: 'false'}"), "");
  EXPECT_EQ(of("v1.33.5-eks-113cf36", "{}"), "");
}

TEST(ViewsTest, AmountsOfAllContainersAreAdded) {
  const Pod pod = ReadPod(Yaml(R"(
spec:
  containers:
  - resources: {limits: {nvidia.com/gpu: "2", cpu: "4"}, requests: {nvidia.com/gpu: 2}}
  - resources: {limits: {nvidia.com/gpu: 1}}
)"));
  ASSERT_EQ(pod.requests.size(), 1U);
  EXPECT_EQ(pod.requests.at("nvidia.com/gpu").limit, 3);
  EXPECT_EQ(pod.requests.at("nvidia.com/gpu").requested, 2);
}

// https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers, "Resource sharing": the
// most of what runs at the same time.
TEST(ViewsTest, InitContainersNeedTheirsBeforeTheOthers) {
  const auto amount = [](std::string_view init, std::string_view main) {
    const Pod pod =
        ReadPod(Yaml(fmt::format("spec: {{initContainers: [{}], containers: [{}]}}", init, main)));
    EXPECT_EQ(pod.requests.at("nvidia.com/gpu").limit, pod.requests.at("nvidia.com/gpu").requested);
    return pod.requests.at("nvidia.com/gpu").amount();
  };
  const auto container = [](int gpus, std::string_view more = "") {
    return fmt::format(
        "{{resources: {{limits: {{nvidia.com/gpu: {0}}}, requests: {{nvidia.com/gpu: {0}}}}}{1}}}",
        gpus, more);
  };
  const std::string sidecar = container(1, ", restartPolicy: Always");
  EXPECT_EQ(amount(container(1), container(1)), 1);
  EXPECT_EQ(amount(container(4) + "," + container(3), container(2) + "," + container(1)), 4);
  EXPECT_EQ(amount(container(1), container(2) + "," + container(2)), 4);
  EXPECT_EQ(amount(sidecar, container(2)), 3);
  EXPECT_EQ(amount(sidecar + "," + container(4), container(2)), 5);
  EXPECT_EQ(amount(container(4) + "," + sidecar, container(2)), 4);
}

// Of a series the last time counts, and what recorders of both kinds of events write.
TEST(ViewsTest, EventsHaveTheTimeOfTheirLastOccurrence) {
  const auto time = [](std::string_view members) {
    const Event event = ReadEvent(Yaml(members));
    return event.last ? base::FormatRfc3339(*event.last) : "";
  };
  const std::string created = "metadata: {creationTimestamp: '2026-01-01T00:00:00Z'}\n";
  const std::string begun = "eventTime: '2026-01-01T00:00:01.5Z'\n";
  const std::string series = "series: {lastObservedTime: '2026-01-01T00:00:02.5Z'}\n";
  const std::string last = "lastTimestamp: '2026-01-01T00:00:03Z'\n";
  EXPECT_EQ(time(created), "2026-01-01T00:00:00Z");
  EXPECT_EQ(time(created + begun), "2026-01-01T00:00:01Z");
  EXPECT_EQ(time(created + begun + series), "2026-01-01T00:00:02Z");
  EXPECT_EQ(time(created + begun + series + last), "2026-01-01T00:00:03Z");
  EXPECT_EQ(time(created + begun + "lastTimestamp: null\n"), "2026-01-01T00:00:01Z");
  EXPECT_EQ(time("{}"), "");
}

// What is equal need not be shown again.
TEST(ViewsTest, AHeartbeatIsNotSeenAndALostGpuIs) {
  const auto node = [](std::string_view beat, std::string_view image, int gpus) {
    return ReadNode(Yaml(fmt::format(R"(
metadata: {{name: gpu-a, resourceVersion: "{0}"}}
status:
  conditions: [{{type: Ready, status: "True", lastHeartbeatTime: "2026-01-01T00:00:{0}Z"}}]
  images: [{{names: [{1}]}}]
  allocatable: {{nvidia.com/gpu: {2}}}
)",
                                     beat, image, gpus)));
  };
  EXPECT_EQ(node("01", "a", 8), node("02", "b", 8));
  EXPECT_NE(node("01", "a", 8), node("01", "a", 7));
}

TEST(TolerationTest, FollowsKubernetes) {
  const Taint taint{"team", "a", "NoSchedule"};
  EXPECT_TRUE((Toleration{"team", "Equal", "a", "NoSchedule"}.Tolerates(taint)));
  EXPECT_TRUE((Toleration{"team", "", "a", ""}.Tolerates(taint)));
  EXPECT_TRUE((Toleration{"team", "Exists", "", ""}.Tolerates(taint)));
  EXPECT_TRUE((Toleration{"", "Exists", "", ""}.Tolerates(taint)));
  EXPECT_FALSE((Toleration{"team", "", "b", ""}.Tolerates(taint)));
  EXPECT_FALSE((Toleration{"team", "Exists", "", "NoExecute"}.Tolerates(taint)));
  EXPECT_EQ(FirstUntolerated({{"soft", "", "PreferNoSchedule"}}, {}), nullptr);
}

// operator-behaviour.md section 4: the oldest, of equally old ones the first by name.
TEST(ClusterTest, KnowsTheActivePolicy) {
  Cluster cluster;
  for (const char* text : {"{metadata: {name: z, creationTimestamp: '2026-01-01T00:00:00Z'}}",
                           "{metadata: {name: b, creationTimestamp: '2026-01-01T00:00:00Z'}}",
                           "{metadata: {name: a, creationTimestamp: '2026-01-02T00:00:00Z'}}"}) {
    cluster.policies.push_back(ReadPolicy(Yaml(text)));
  }
  cluster.Index();
  EXPECT_EQ(cluster.active_policy()->name, "b");
}

// validator.md #27 and operator-behaviour.md section 7.4.
TEST(WorkloadTest, IsTheNodesOwnOrTheDefault) {
  RecordProperty("holds", "validator.md #27");
  RecordProperty("holds", "validator.md #27");
  api::ClusterPolicy policy;
  Node node;
  node.labels["nvidia.com/gpu.workload.config"] = "vm-passthrough";
  EXPECT_EQ(WorkloadOf(node, &policy), Workload::kContainer);
  policy.sandbox.enabled = true;
  policy.sandbox.default_workload = "vm-vgpu";
  EXPECT_EQ(WorkloadOf(node, &policy), Workload::kPassthrough);
  node.labels["nvidia.com/gpu.workload.config"] = "bogus";
  EXPECT_EQ(WorkloadOf(node, &policy), Workload::kVgpu);
  node.labels["nvidia.com/gpu.deploy.vfio-manager"] = "true";
  EXPECT_EQ(WorkloadOf(node, &policy), Workload::kPassthrough) << "it stays as it is set up";
}

TEST(OperandTest, IsKnownByItsDaemonSet) {
  EXPECT_EQ(desired::Operands().OfDaemonSet("nvidia-dcgm")->name, "DCGM");
  EXPECT_EQ(desired::Operands().OfDaemonSet("nvidia-dcgm-exporter")->name, "metrics exporter");
  // operator-behaviour.md section 5.3: one per kernel.
  EXPECT_EQ(desired::Operands()
                .OfDaemonSet("nvidia-driver-daemonset-5.15.0-70-generic-ubuntu22.04")
                ->name,
            "driver");
  // operator-behaviour.md #46: of an NVIDIADriver object.
  EXPECT_EQ(desired::Operands().OfDaemonSet("nvidia-gpu-driver-ubuntu20.04-67cc6dbb79")->name,
            "driver");
  EXPECT_EQ(desired::Operands().OfDaemonSet("nvidia-dcgmx"), nullptr);
}

// An operand that the product does not have has a row, a link of the chain and findings.
TEST(OperandTest, OneFromOutsideHasItsRow) {
  Cluster cluster;
  cluster.operand_table = &desired::testing::TableWithOutsideOperand();
  cluster.policies.push_back(ReadPolicy(Yaml(R"(
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {psa: {enabled: true}, gfd: {enabled: false}, dcgmExporter: {enabled: false}}
status: {state: notReady}
)")));
  cluster.nodes["gpu-1"] = ReadNode(Yaml(R"(
metadata: {name: gpu-1, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.deploy.frobnicator: "true"}}
)"));
  DaemonSet daemonset;
  daemonset.key = {cluster.name_space, "nvidia-frobnicator"};
  daemonset.desired = 1;
  cluster.daemonsets["nvidia-frobnicator"] = daemonset;
  cluster.Index();

  const Report report = MakeReport(cluster);
  const auto row = std::ranges::find(report.operands, "frobnicator", &OperandReport::name);
  ASSERT_NE(row, report.operands.end());
  EXPECT_EQ(row->desired, 1);
  EXPECT_EQ(row->ready, 0);
  EXPECT_EQ(row->behind, "gpu-1");
  EXPECT_THAT(row->reason, ::testing::HasSubstr("frobnicator"));
  EXPECT_THAT(report.nodes.at(0).links, ::testing::Contains(Stage::kMetrics));
  const NodeContext context(cluster, cluster.nodes["gpu-1"], nullptr);
  const auto finding = WhyNotReady(context, context.Named("frobnicator"));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->stage, Stage::kMetrics);
}

// Of a hundred nodes with the same trouble some are named, and all are counted.
TEST(EvidenceTest, NamesSomeNodes) {
  const auto finding = [](std::size_t nodes) {
    Cluster cluster;
    cluster.policies.push_back(ReadPolicy(Yaml(R"(
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {driver: {useNvidiaDriverCRD: true}}
)")));
    for (std::size_t i = 0; i < nodes; ++i) {
      cluster.nodes[fmt::format("gpu-{}", i)] = ReadNode(Yaml(fmt::format(
          "metadata: {{name: gpu-{}, labels: {{nvidia.com/gpu.present: 'true'}}}}", i)));
    }
    cluster.Index();
    const auto seen = look::NodesWithoutDriver(cluster);
    EXPECT_EQ(seen.size(), 1U);
    return seen.at(0);
  };
  EXPECT_EQ(finding(1).summary, "1 GPU node gets no driver: there is no NVIDIADriver");
  EXPECT_EQ(finding(2).summary, "2 GPU nodes get no driver: there is no NVIDIADriver");
  EXPECT_EQ(finding(look::kMostNamed).evidence.size(), look::kMostNamed);
  EXPECT_EQ(finding(look::kMostNamed + 1).evidence.size(), look::kMostNamed);
}

// Of several nodes that have most of them, the first by name.
TEST(EvidenceTest, OfTooManyGpusIsTheFirstNodeThatHasMost) {
  Cluster cluster;
  for (const auto& [name, amount] : {std::pair("a", 2), {"b", 4}, {"c", 4}, {"d", 1}}) {
    cluster.nodes[name] = ReadNode(Yaml(fmt::format(
        "{{metadata: {{name: {}}}, status: {{capacity: {{nvidia.com/gpu: {}}}}}}}", name, amount)));
  }
  const Pod pod = ReadPod(Yaml("metadata: {name: train}"));
  const auto rule =
      std::ranges::find(PodRules(), std::string_view("more-gpus-than-a-node-has"), &PodRule::id);
  ASSERT_NE(rule, PodRules().end());
  const auto look = [&](std::int64_t amount) {
    return rule->look(
        {.cluster = cluster, .pod = pod, .resource = "nvidia.com/gpu", .amount = amount});
  };
  const auto seen = look(5);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->evidence.back().object, "Node b");
  EXPECT_EQ(seen->evidence.back().text, "4");
  EXPECT_FALSE(look(4));
}

// driver-lifecycle.md section 2.7: nodes that are unavailable for whatever reason keep the others
// from beginning, and so each tells its own.
TEST(EvidenceTest, OfAnUpgradeThatIsHeldAreTheNodesThatHoldIt) {
  Cluster cluster;
  cluster.policies.push_back(ReadPolicy(Yaml(R"(
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {driver: {upgradePolicy: {autoUpgrade: true, maxUnavailable: 0}}}
)")));
  const auto add = [&](const std::string& name, std::string_view state, std::string_view more) {
    cluster.nodes[name] =
        ReadNode(Yaml(fmt::format("metadata: {{name: {}, labels: {{nvidia.com/gpu.present: 'true', "
                                  "nvidia.com/gpu-driver-upgrade-state: '{}'}}}}\n{}",
                                  name, state, more)));
  };
  const auto ready = [](std::string_view status) {
    return fmt::format("status: {{conditions: [{{type: Ready, status: '{}'}}]}}\n", status);
  };
  add("a-fails", "upgrade-failed", ready("True"));
  add("b-cordoned", "upgrade-required", "spec: {unschedulable: true}\n" + ready("False"));
  add("c-unreachable", "upgrade-required", ready("Unknown"));
  add("d-ready", "upgrade-required", ready("True"));
  add("e-new", "upgrade-required", "");
  add("f-without", "", ready("False"));
  cluster.Index();
  const auto seen = look::UpgradeHeld(cluster);
  ASSERT_EQ(seen.size(), 1U);
  std::vector<std::string> nodes;
  for (const Evidence& evidence : seen[0].evidence) {
    if (evidence.object.starts_with("Node "))
      nodes.push_back(evidence.object + ": " + evidence.text);
  }
  EXPECT_THAT(nodes,
              ::testing::ElementsAre("Node a-fails: \"upgrade-failed\"", "Node b-cordoned: true",
                                     "Node c-unreachable: Unknown"));
}

TEST(LinesTest, KeepTheCauseThatStandsLast) {
  const std::string line = FirstLine(std::string(1000, 'x') + " dial tcp: timeout\nmore");
  EXPECT_LT(line.size(), 410U);
  EXPECT_TRUE(line.ends_with(" dial tcp: timeout"));
  EXPECT_EQ(ReadableLine("2026-01-05T11:58:00.065Z warn  unfit"), "warn  unfit");
  EXPECT_EQ(ReadableLine(R"({"msg":"waiting","reason":"NoDriver"})"), "waiting: NoDriver");
  EXPECT_EQ(LastLineOf("one\ntwo\n\n"), "two");
  EXPECT_EQ(LastLineOf(""), "");
}

// Drivers for virtual machines have a container of another name: the evidence names its image.
TEST(PodsOutdatedTest, TheVgpuManagersImageIsNamedToo) {
  Cluster cluster;
  DaemonSet daemonset;
  daemonset.key = {"gpu-operator", "nvidia-vgpu-manager-daemonset"};
  daemonset.generation = daemonset.observed_generation = daemonset.template_generation = 2;
  daemonset.on_delete = true;
  daemonset.desired = 1;
  daemonset.images.emplace("nvidia-vgpu-manager-ctr", "example.com/vgpu-manager:580.95.02");
  cluster.daemonsets.emplace(daemonset.key.name, daemonset);
  Pod pod;
  pod.key = {"gpu-operator", "nvidia-vgpu-manager-daemonset-a"};
  pod.node = "gpu-1";
  pod.owner_kind = "DaemonSet";
  pod.owner = daemonset.key.name;
  pod.revision = "old";
  pod.template_generation = 1;
  cluster.pods.emplace(pod.key, pod);
  const auto seen = look::PodsOutdated(cluster);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].evidence.back().text, "example.com/vgpu-manager:580.95.02");
}

}  // namespace
}  // namespace pitcrew::fleet
