// Findings about the cluster as a whole.
#include <fmt/format.h>

#include <algorithm>

#include "api/definition.h"
#include "api/labels.h"
#include "base/strings.h"
#include "codec/yaml.h"
#include "fleet/cluster_looks.h"

namespace pitcrew::fleet {
namespace {

std::vector<Seen> DefinitionMissing(const Cluster& cluster) {
  if (!cluster.definition_absent) return {};
  return {{.summary = "the kind ClusterPolicy is not installed",
           .evidence = {{"CustomResourceDefinition clusterpolicies.nvidia.com", "", "absent",
                         std::nullopt}},
           .words = {},
           .since = std::nullopt}};
}

// Fields of the definition that belongs to this program.
const std::set<std::string, std::less<>>& KnownFields() {
  static const std::set<std::string, std::less<>> kFields = [] {
    std::set<std::string, std::less<>> fields;
    for (const api::EmbeddedDefinition& one : api::EmbeddedDefinitions()) {
      if (!Contains(one.file, "clusterpolicies")) continue;
      if (const auto definition = codec::ParseYaml(one.text, one.file)) {
        fields = ReadServedFields(*definition);
      }
    }
    return fields;
  }();
  return kFields;
}

std::vector<Seen> DefinitionOutdated(const Cluster& cluster) {
  if (!cluster.served_fields) return {};
  std::vector<std::string> missing;
  for (const std::string& field : KnownFields()) {
    // Of a block that is missing, the members need not be told.
    if (!cluster.served_fields->contains(field) &&
        (missing.empty() || !field.starts_with(missing.back() + "."))) {
      missing.push_back(field);
    }
  }
  if (missing.empty()) return {};
  const std::size_t count = missing.size();
  constexpr std::size_t kTold = 5;
  if (count > kTold) missing.resize(kTold);
  return {{.summary = "the CustomResourceDefinition is older than this program: the API server "
                      "drops fields that it does not know",
           .evidence = {{"CustomResourceDefinition clusterpolicies.nvidia.com", "schema of spec",
                         fmt::format("{} fields are absent: {}{}", count, base::Join(missing, ", "),
                                     count > kTold ? ", ..." : ""),
                         std::nullopt}},
           .words = {},
           .since = std::nullopt}};
}

std::vector<Seen> NoPolicy(const Cluster& cluster) {
  if (!cluster.policies.empty() || !cluster.has_read(Kind::kPolicies) ||
      cluster.definition_absent) {
    return {};
  }
  return {{.summary = "there is no ClusterPolicy: nothing is deployed",
           .evidence = {{"ClusterPolicy", "", "absent", std::nullopt}},
           .words = {},
           .since = std::nullopt}};
}

std::vector<Seen> SeveralPolicies(const Cluster& cluster) {
  if (cluster.policies.size() < 2) return {};
  Seen seen{.summary = fmt::format("there are {} ClusterPolicies; only the oldest, {}, counts",
                                   cluster.policies.size(), cluster.active_policy()->name),
            .evidence = {},
            .words = {},
            .since = std::nullopt};
  for (const Policy& policy : cluster.policies) {
    if (&policy == cluster.active_policy()) continue;
    seen.evidence.push_back({"ClusterPolicy " + policy.name, "status.state",
                             policy.state.empty() ? "absent" : policy.state, policy.created});
    seen.words["other"] = policy.name;
  }
  return {seen};
}

std::vector<Seen> PolicyInvalid(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  if (policy == nullptr || policy->spec.problems.empty()) return {};
  Seen seen{.summary = fmt::format("ClusterPolicy {} has values that cannot be used", policy->name),
            .evidence = {},
            .words = {},
            .since = std::nullopt};
  for (const api::FieldProblem& problem : policy->spec.problems) {
    seen.evidence.push_back(
        {"ClusterPolicy " + policy->name, problem.path, problem.message, std::nullopt});
  }
  return {seen};
}

std::vector<Seen> PolicyFails(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  if (policy == nullptr || !policy->spec.problems.empty()) return {};
  const Condition* error = policy->Find("Error");
  if (error == nullptr || error->status != "True" || error->reason == "OperandNotReady") return {};
  return {{.summary = "the operator cannot carry the policy out",
           .evidence = {{"ClusterPolicy " + policy->name, "condition Error: " + error->reason,
                         FirstLine(error->message), error->since}},
           .words = {},
           .since = error->since}};
}

std::vector<Seen> RemovalHeld(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  const Condition* held = policy == nullptr ? nullptr : policy->Find("NodeLabelsReady");
  if (held == nullptr || held->status != "False") return {};
  return {
      {.summary = "many nodes have lost their GPU label together; their operands are kept until a "
                  "person says that it is true",
       .evidence = {{"ClusterPolicy " + policy->name, "condition NodeLabelsReady: " + held->reason,
                     FirstLine(held->message), held->since}},
       .words = {},
       .since = held->since}};
}

std::vector<Seen> OperatorMissing(const Cluster& cluster) {
  if (!cluster.has_read(Kind::kOperandPods)) return {};
  for (const auto& [key, pod] : cluster.pods) {
    if (pod.app == "gpu-operator" && key.name_space == cluster.name_space) return {};
  }
  return {{.summary = fmt::format("the operator does not run in namespace {}", cluster.name_space),
           .evidence = {{"Pods with label app=gpu-operator", "namespace " + cluster.name_space,
                         "absent", std::nullopt}},
           .words = {},
           .since = std::nullopt}};
}

std::vector<Seen> NoDiscovery(const Cluster& cluster) {
  if (cluster.nodes.empty() || !cluster.has_read(Kind::kNodes)) return {};
  if (std::ranges::any_of(cluster.nodes,
                          [](const auto& entry) { return entry.second.is_discovered(); })) {
    return {};
  }
  return {
      {.summary = "node feature discovery has labelled no node: GPUs cannot be found",
       .evidence = {{"all Nodes", "labels feature.node.kubernetes.io/*", "absent", std::nullopt}},
       .words = {},
       .since = std::nullopt}};
}

std::vector<Seen> NoRuntimeClass(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  if (policy == nullptr || !cluster.has_read(Kind::kRuntimeClasses) ||
      policy->spec.cdi.nri_plugin_enabled || !policy->spec.toolkit_enabled()) {
    return {};
  }
  const std::string& name = policy->spec.operator_settings.runtime_class;
  if (std::ranges::find(cluster.runtime_classes, name, &RuntimeClass::name) !=
      cluster.runtime_classes.end()) {
    return {};
  }
  return {{.summary =
               fmt::format("RuntimeClass {} does not exist: pods that name it are refused", name),
           .evidence = {{"RuntimeClass " + name, "", "absent", std::nullopt}},
           .words = {{"class", name}},
           .since = std::nullopt}};
}

// Without CDI and without nvidia as the default runtime only pods with a runtimeClassName get GPUs
// (container-toolkit.md section 4.18).
std::vector<Seen> NotDefaultRuntime(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  if (policy == nullptr || policy->spec.cdi.enabled || !policy->spec.toolkit_enabled()) return {};
  for (const api::EnvVar& variable : policy->spec.toolkit.env) {
    if (!variable.name.ends_with("SET_AS_DEFAULT") || variable.value != "false") continue;
    return {
        {.summary = fmt::format("without CDI and without a default runtime only pods with "
                                "runtimeClassName {} are given GPUs",
                                policy->spec.operator_settings.runtime_class),
         .evidence = {{"ClusterPolicy " + policy->name, "spec.cdi.enabled", "false", std::nullopt},
                      {"ClusterPolicy " + policy->name, "spec.toolkit.env[" + variable.name + "]",
                       variable.value, std::nullopt}},
         .words = {{"class", policy->spec.operator_settings.runtime_class},
                   {"variable", variable.name}},
         .since = std::nullopt}};
  }
  return {};
}

// Deployments and node feature discovery; operands are looked at node by node.
std::vector<Seen> ComponentFails(const Cluster& cluster) {
  std::vector<Seen> all;
  for (const auto& [key, pod] : cluster.pods) {
    if (key.name_space != cluster.name_space || pod.ready || !pod.requests.empty()) continue;
    if (pod.owner_kind == "DaemonSet" && pod.operand != nullptr) continue;
    for (const Container& container : pod.containers) {
      if (PullFails(container)) continue;  // image-missing
      const bool fails = container.reason == "CrashLoopBackOff" ||
                         (container.restarts > 0 && container.last_exit_code != 0);
      if (!fails || container.ready || pod.owner_kind == "") continue;
      std::string said =
          FirstLine(container.last_message.empty() ? container.message : container.last_message);
      all.push_back({.summary = fmt::format("{} fails: {}", pod.owner, container.reason),
                     .evidence = {{"Pod " + key.ToString(), "container " + container.name,
                                   fmt::format("exit code {}, {} restarts: {}",
                                               container.last_exit_code, container.restarts,
                                               said.empty() ? "it has left no message" : said),
                                   container.last_finished}},
                     .words = {{"pod", key.name}, {"container", container.name}},
                     .since = pod.ready_changed});
      break;
    }
  }
  return all;
}

std::vector<Seen> LimitRefused(const Cluster& cluster) {
  std::vector<Seen> all;
  for (const Event& event : cluster.events) {
    if (event.reason != "FailedCreate" ||
        !Contains(event.message, "Limit must be set for non overcommitable resources")) {
      continue;
    }
    all.push_back(
        {.summary = fmt::format("{} {} requests a GPU without a limit, and its pods are refused",
                                event.kind, event.object.ToString()),
         .evidence = {SawEvent(event)},
         .words = {},
         .since = event.last});
  }
  return all;
}

// Why a policy is not ready when nothing else tells it: what the operator itself says.
std::vector<Seen> PolicyWaits(const Cluster& cluster) {
  const Policy* policy = cluster.active_policy();
  if (policy == nullptr) return {};
  Seen seen{.summary = fmt::format("ClusterPolicy {} is not ready", policy->name),
            .evidence = {},
            .words = {},
            .since = std::nullopt};
  for (const Condition& condition : policy->conditions) {
    if (condition.status != "False" || condition.type == "Error") continue;
    if (condition.type == "Ready") {
      seen.since = condition.since;
      continue;
    }
    seen.evidence.push_back({"ClusterPolicy " + policy->name,
                             fmt::format("condition {}: {}", condition.type, condition.reason),
                             FirstLine(condition.message), condition.since});
  }
  for (const auto& [name, daemonset] : cluster.daemonsets) {
    if (!seen.evidence.empty()) break;
    if (cluster.operand_table->OfDaemonSet(name) == nullptr || daemonset.ready >= daemonset.desired)
      continue;
    seen.summary = "pods of an operand are not ready";
    seen.evidence.push_back({"DaemonSet " + daemonset.key.ToString(), "status.numberReady",
                             fmt::format("{} of {}", daemonset.ready, daemonset.desired),
                             std::nullopt});
  }
  if (seen.evidence.empty() && policy->state == "ready") return {};
  if (seen.evidence.empty()) {
    seen.evidence.push_back({"ClusterPolicy " + policy->name, "status.state",
                             policy->state.empty() ? "absent" : policy->state, std::nullopt});
  }
  return {seen};
}

constexpr ClusterRule kClusterRules[] = {
    {"image-missing", look::ImagesMissing, "{advice}"},
    {"crd-missing", DefinitionMissing, "Install the chart; its folder crds has the definition."},
    {"crd-outdated", DefinitionOutdated,
     "Helm does not upgrade definitions by itself:\n"
     "$ helm show crds CHART | kubectl apply --server-side --force-conflicts -f -"},
    {"no-policy", NoPolicy,
     "Create one: clusterPolicy.deployCR=true of the chart, or your own with kubectl apply."},
    {"several-policies", SeveralPolicies,
     "Keep one:\n"
     "$ kubectl delete clusterpolicy {other}"},
    {"policy-invalid", PolicyInvalid,
     "Correct the fields named:\n"
     "$ kubectl edit clusterpolicy {policy}"},
    {"policy-fails", PolicyFails,
     "The message names the object or the field.\n"
     "$ kubectl describe clusterpolicy {policy}"},
    {"mass-removal-held", RemovalHeld,
     "If the GPUs are there, see why node feature discovery lost them. If they are really gone, "
     "say so:\n"
     "$ kubectl logs -n {namespace} -l role=worker\n"
     "$ kubectl annotate clusterpolicy {policy} nvidia.com/gpu-operator.allow-mass-removal=true"},
    {"pods-outdated", look::PodsOutdated,
     "Node by node, when the pods with GPUs on it may end (the driver manager of a new driver pod "
     "evicts them first):\n"
     "$ kubectl delete pod -n {namespace} {pod}"},
    {"driver-upgrade-held", look::UpgradeHeld, "{advice}"},
    {"drivers-conflict", look::DriversConflict,
     "Let each node have one: other labels in the selectors, or one default.\n"
     "$ kubectl edit nvidiadriver {driver}"},
    {"driver-object-fails", look::DriversFail,
     "The message names the object or the field.\n"
     "$ kubectl edit nvidiadriver {driver}"},
    {"node-without-driver", look::NodesWithoutDriver,
     "Select such nodes by a NVIDIADriver, or make one the default (spec.default: true). On a node "
     "that has a driver of its own, say so: label nvidia.com/gpu.deploy.driver=false.\n"
     "$ kubectl get nvidiadrivers"},
    {"operator-not-running", OperatorMissing,
     "If it runs in another namespace, name that with -n; otherwise see why it has no pod:\n"
     "$ kubectl describe deployment -n {namespace} gpu-operator"},
    {"nfd-absent", NoDiscovery,
     "Install it with the chart (nfd.enabled=true), or see what your own does: its workers must "
     "set feature.node.kubernetes.io/pci-10de.present."},
    {"runtime-class-absent", NoRuntimeClass,
     "The operator makes it; the condition of pre-requisites says what keeps it from that:\n"
     "$ kubectl describe clusterpolicy {policy}"},
    {"no-default-runtime", NotDefaultRuntime,
     "Set spec.cdi.enabled: true in ClusterPolicy {policy}, take {variable} out of "
     "spec.toolkit.env, or give pods with GPUs runtimeClassName: {class}."},
    {"component-fails", ComponentFails,
     "Read its log:\n"
     "$ kubectl logs -n {namespace} {pod} -c {container} --previous"},
    {"workload-without-limit", LimitRefused,
     "Give the container a limit for nvidia.com/gpu; the request follows from it."},
    {kPolicyNotReady, PolicyWaits,
     "While pods are made or replaced this is how it looks, and it passes. If it lasts:\n"
     "$ kubectl describe clusterpolicy {policy}\n"
     "$ kubectl logs -n {namespace} deployment/gpu-operator"},
};

}  // namespace

std::span<const ClusterRule> ClusterRules() { return kClusterRules; }

}  // namespace pitcrew::fleet
