#include "fleet/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "api/labels.h"
#include "api/qualification.h"
#include "api/validator_names.h"
#include "fleet/driver_wave.h"
#include "fleet/former_offers.h"
#include "fleet/outdated_pods.h"

namespace pitcrew::fleet {
namespace {

bool HasGpuTrace(const Node& node) {
  if (node.has_gpu_pci_label()) return true;
  if (node.Label(api::kGpuPresent) == "true" || !node.capacity.empty()) return true;
  const auto deployed = node.labels.lower_bound(api::kDeployPrefix);
  return deployed != node.labels.end() && deployed->first.starts_with(api::kDeployPrefix);
}

PolicyReport DescribePolicy(const Policy& policy) {
  PolicyReport report{.name = policy.name,
                      .state = policy.state.empty() ? "not looked at yet" : policy.state,
                      .since = std::nullopt,
                      .message = ""};
  const Condition* ready = policy.Find("Ready");
  const Condition* error = policy.Find("Error");
  if (ready != nullptr) report.since = ready->since;
  if (error != nullptr && error->status == "True") report.message = error->message;
  if (ready != nullptr && ready->status == "True" && ready->reason != "Reconciled") {
    report.message = ready->message;
  }
  return report;
}

Time ReadySince(const NodeContext& context) {
  for (const char* name : {"validator", "sandbox validator"}) {
    const Pod* pod = context.PodOf(context.Named(name));
    if (pod != nullptr && pod->ready) return pod->ready_changed;
  }
  return context.node.ready_since;
}

// The chain of the node, without the links that the policy has switched off.
std::vector<Stage> LinksOf(const NodeContext& context) {
  std::vector<Stage> links;
  for (const Stage stage : ChainOf(context.workload)) {
    bool has_operands = false;
    bool wanted = false;
    for (const Operand& operand : context.cluster.operands()) {
      if (operand.stage != stage || !operand.deploy.workloads.Has(context.workload)) continue;
      has_operands = true;
      wanted = wanted || context.Wants(operand);
    }
    if (!has_operands || wanted) links.push_back(stage);
  }
  return links;
}

NodeReport DescribeNode(const NodeContext& context) {
  const Node& node = context.node;
  NodeReport report;
  report.name = node.name;
  report.workload = context.workload;
  report.product = node.Label(api::kGpuProduct);
  report.driver_version = node.Label("nvidia.com/cuda.driver-version.full");
  report.qualification = node.Label(api::kQualification);
  for (const auto& [resource, capacity] : node.capacity) {
    const auto found = node.allocatable.find(resource);
    report.offers.push_back({.resource = resource,
                             .capacity = capacity,
                             .allocatable = found == node.allocatable.end() ? 0 : found->second,
                             .former = IsFormerOffer(context, resource)});
  }
  report.broken = FirstBroken(context);
  if (report.broken) report.stage = report.broken->stage;
  report.links = LinksOf(context);
  if (report.broken && std::ranges::find(report.links, report.stage) == report.links.end()) {
    // Somebody upgrades a driver that the policy does not deploy, for example.
    const auto chain = ChainOf(context.workload);
    report.links.assign(chain.begin(), chain.end());
  }
  report.since = report.broken ? report.broken->since : ReadySince(context);
  return report;
}

std::vector<OperandReport> DescribeOperands(const Cluster& cluster,
                                            const std::vector<NodeReport>& nodes) {
  std::vector<OperandReport> reports;
  const Policy* policy = cluster.active_policy();
  if (policy == nullptr) return reports;
  for (const Operand& operand : cluster.operands()) {
    if (!operand.IsWanted(policy->spec)) continue;
    OperandReport report{
        .name = std::string(operand.name), .desired = 0, .ready = 0, .behind = "", .reason = ""};
    std::vector<const Pod*> outdated;
    for (const auto& [name, daemonset] : cluster.daemonsets) {
      if (cluster.operand_table->OfDaemonSet(name) != &operand) continue;
      report.desired += daemonset.desired;
      report.ready += daemonset.ready;
      std::ranges::copy(OutdatedPods(cluster, daemonset), std::back_inserter(outdated));
    }
    for (const NodeReport& node : nodes) {
      const NodeContext context(cluster, cluster.nodes.find(node.name)->second, nullptr);
      const auto why = WhyNotReady(context, operand);
      if (!why) continue;
      report.behind = node.name;
      report.reason = why->summary;
      break;
    }
    if (report.behind.empty() && !outdated.empty()) {
      report.behind = outdated.front()->node;
      report.reason = fmt::format("{} of {} pods still run the version of before", outdated.size(),
                                  report.desired);
    }
    // An operand that no node wants is no news.
    if (report.desired > 0 || !report.behind.empty()) reports.push_back(std::move(report));
  }
  return reports;
}

bool IsAskedFor(const Question& question, const Key& pod) {
  return std::ranges::find(question.pods, pod) != question.pods.end();
}

bool NeedsGpu(const Cluster& cluster, const Pod& pod) {
  return !pod.requests.empty() && !pod.ready && !pod.deleting &&
         (pod.phase == "Pending" || pod.phase == "Failed" || pod.phase == "Running") &&
         pod.operand == nullptr &&
         // The validator's own pods are told with the validator.
         !(pod.key.name_space == cluster.name_space && pod.app == api::kDevicePluginValidator);
}

void DescribePods(const Cluster& cluster, const Question& question, Report& report) {
  for (const auto& [key, pod] : cluster.pods) {
    const bool asked = IsAskedFor(question, key);
    if (!asked && (!question.empty() || !NeedsGpu(cluster, pod))) continue;
    std::optional<Finding> finding;
    const auto node = cluster.nodes.find(pod.node);
    if (pod.operand != nullptr && node != cluster.nodes.end()) {
      finding = WhyNotReady(NodeContext(cluster, node->second, &report.wanted), *pod.operand);
    } else if (pod.operand == nullptr) {
      finding = WhyNotRunning(cluster, pod);
    }
    if (finding) {
      report.pods.push_back(*std::move(finding));
    } else if (asked) {
      report.pods_without_findings.push_back(key.ToString());
    }
  }
}

void DescribeMachines(const Cluster& cluster, const Question& question, Report& report) {
  if (!question.empty()) return;
  for (const auto& [key, machine] : cluster.machines) {
    if (auto finding = WhyNotStarted(cluster, machine)) report.pods.push_back(*std::move(finding));
  }
}

// The policy or an operand is behind, whatever the findings say.
bool IsBehind(const Report& report) {
  return (report.policy && report.policy->state != "ready") ||
         std::ranges::any_of(report.operands,
                             [](const OperandReport& operand) {
                               return !operand.behind.empty() || operand.ready < operand.desired;
                             }) ||
         std::ranges::any_of(report.drivers, [](const DriverReport& driver) {
           return driver.state != "ready" && driver.state != "disabled";
         });
}

void TellUpgradeWaits(const Cluster& cluster, Report& report) {
  const auto upgrade = DescribeUpgrade(cluster);
  if (!upgrade) return;
  for (const auto& [why, nodes] : upgrade->waiting) {
    for (NodeReport& node : report.nodes) {
      if (std::ranges::find(nodes, node.name) != nodes.end()) node.upgrade_waits = why;
    }
  }
}

}  // namespace

std::size_t Report::ready_nodes() const {
  return static_cast<std::size_t>(std::ranges::count_if(nodes, &NodeReport::ready));
}

bool Report::is_broken() const {
  return ready_nodes() != nodes.size() || !cluster.empty() || IsBehind(*this);
}

Report MakeReport(const Cluster& cluster, const Question& question) {
  Report report;
  report.now = cluster.now;
  report.name_space = cluster.name_space;
  if (cluster.active_policy() != nullptr) report.policy = DescribePolicy(*cluster.active_policy());
  for (const auto& [name, node] : cluster.nodes) {
    const bool asked = std::ranges::find(question.nodes, name) != question.nodes.end();
    if (!asked && !HasGpuTrace(node)) {
      if (node.is_discovered()) {
        ++report.other_nodes;
      } else {
        report.undiscovered.push_back(name);
      }
      continue;
    }
    if (asked || question.empty()) {
      report.nodes.push_back(DescribeNode(NodeContext(cluster, node, &report.wanted)));
    }
  }
  std::ranges::stable_sort(report.nodes, {}, [](const NodeReport& node) {
    return std::tuple(node.ready(), node.stage);
  });
  if (question.empty()) report.operands = DescribeOperands(cluster, report.nodes);
  if (question.empty()) report.drivers = DescribeDrivers(cluster);
  if (question.empty()) {
    report.upgrade = DescribeUpgrade(cluster);
  } else {
    TellUpgradeWaits(cluster, report);
  }
  DescribePods(cluster, question, report);
  DescribeMachines(cluster, question, report);
  report.cluster = ClusterFindings(cluster);
  const auto explained = [&] {
    return report.ready_nodes() != report.nodes.size() || report.cluster.size() > 1;
  };
  // Asked about single nodes or pods, the operands were not counted.
  if (explained() || !question.empty() || !IsBehind(report)) {
    std::erase_if(report.cluster,
                  [](const Finding& finding) { return finding.id == kPolicyNotReady; });
  }
  for (const Kind kind : {Kind::kPolicies, Kind::kNodes, Kind::kOperandPods, Kind::kDaemonSets}) {
    report.judged = report.judged && cluster.has_read(kind);
  }
  for (const auto& [kind, error] : cluster.unread) {
    report.unread.push_back({ToString(kind, cluster.name_space), error.ToString()});
  }
  return report;
}

}  // namespace pitcrew::fleet
