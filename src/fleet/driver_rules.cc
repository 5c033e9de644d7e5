// What is wrong with the NVIDIADrivers of a cluster (reference operator-behaviour.md sections 7.5
// and 8.1).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/labels.h"
#include "base/strings.h"
#include "desired/driver_objects/assignment.h"
#include "fleet/cluster_looks.h"

namespace pitcrew::fleet {
namespace {

desired::DriverAssignment AssignmentOf(const Cluster& cluster) {
  std::vector<std::shared_ptr<const desired::DriverView>> views;
  for (const auto& [name, driver] : cluster.drivers) views.push_back(driver.view);
  return desired::DriverAssignment(views);
}

desired::DriverAssignment::Choice ChoiceOf(const desired::DriverAssignment& assignment,
                                           const Node& node) {
  desired::Labels labels;
  for (const auto& [key, value] : node.labels) labels.Add(key, value);
  return assignment.Of(labels);
}

bool LooksAtDrivers(const Cluster& cluster) {
  return cluster.uses_driver_objects() && cluster.has_read(Kind::kDrivers) &&
         cluster.has_read(Kind::kNodes);
}

// Not for nodes that some driver is for, or that nobody can say it of.
bool LacksDriver(const Cluster& cluster, const desired::DriverAssignment& assignment,
                 const Node& node) {
  const std::string_view deploy = node.Label(api::kDeployDriver);
  if (node.Label(api::kGpuPresent) != "true" || deploy == "false" || deploy == api::kPreInstalled ||
      WorkloadOf(node, &cluster.active_policy()->spec) != Workload::kContainer) {
    return false;
  }
  const auto choice = ChoiceOf(assignment, node);
  return !choice.open && choice.driver == nullptr;
}

}  // namespace

std::vector<Seen> look::DriversConflict(const Cluster& cluster) {
  std::vector<Seen> all;
  if (!LooksAtDrivers(cluster)) return all;
  for (const auto& [name, driver] : cluster.drivers) {
    const std::string problem = desired::SelectorProblem(driver.view->driver);
    if (problem.empty() || driver.view->deleting) continue;
    all.push_back({.summary = fmt::format("the selector of NVIDIADriver {} cannot be followed: no "
                                          "node changes its driver until it is mended",
                                          name),
                   .evidence = {{"NVIDIADriver " + name, "", problem, std::nullopt}},
                   .words = {{"driver", name}},
                   .since = std::nullopt});
  }
  const desired::DriverAssignment assignment = AssignmentOf(cluster);
  if (const auto& rivals = assignment.rival_defaults(); !rivals.empty()) {
    all.push_back({.summary = fmt::format("{} NVIDIADrivers are the default: nodes that no other "
                                          "one selects keep what they have",
                                          rivals.size()),
                   .evidence = {{"NVIDIADrivers " + base::Join(rivals, ", "), "spec.default",
                                 "true", std::nullopt}},
                   .words = {{"driver", rivals.back()}},
                   .since = std::nullopt});
  }
  std::map<std::vector<std::string>, std::vector<std::string>> nodes;  // by their drivers
  for (const auto& [name, node] : cluster.nodes) {
    if (node.Label(api::kGpuPresent) != "true") continue;
    auto rivals = ChoiceOf(assignment, node).rivals;
    if (!rivals.empty()) nodes[std::move(rivals)].push_back(name);
  }
  for (const auto& [rivals, names] : nodes) {
    Seen seen{
        .summary = fmt::format("NVIDIADrivers {} all select {} {}: {}", base::Join(rivals, ", "),
                               names.size(), names.size() == 1 ? "node" : "nodes",
                               names.size() == 1 ? "it keeps the driver that it has"
                                                 : "they keep the driver that they have"),
        .evidence = {},
        .words = {{"driver", rivals.back()}},
        .since = std::nullopt};
    for (const std::string& driver : rivals) {
      const auto& selector = cluster.drivers.find(driver)->second.view->driver.node_selector;
      std::vector<std::string> labels;
      if (selector) {
        for (const auto& [key, value] : *selector) labels.push_back(key + "=" + value);
      }
      seen.evidence.push_back({"NVIDIADriver " + driver, "spec.nodeSelector",
                               labels.empty() ? "every node with a GPU" : base::Join(labels, ","),
                               std::nullopt});
    }
    for (const std::string& name : names) {
      if (seen.evidence.size() == kMostNamed) break;
      seen.evidence.push_back(SawLabel(cluster.nodes.find(name)->second, api::kDriverOwner));
    }
    all.push_back(std::move(seen));
  }
  return all;
}

std::vector<Seen> look::DriversFail(const Cluster& cluster) {
  std::vector<Seen> all;
  if (!cluster.uses_driver_objects()) return all;
  for (const auto& [name, driver] : cluster.drivers) {
    const Condition* error = driver.Find("Error");
    // Rivals are DriversConflict's; and pods that are not ready tell themselves why.
    if (error == nullptr || error->status != "True" || error->reason != "ReconcileFailed" ||
        Contains(error->message, "multiple default NVIDIADrivers")) {
      continue;
    }
    all.push_back({.summary = fmt::format("the operator cannot carry NVIDIADriver {} out", name),
                   .evidence = {{"NVIDIADriver " + name, "condition Error: " + error->reason,
                                 FirstLine(error->message), error->since}},
                   .words = {{"driver", name}},
                   .since = error->since});
  }
  return all;
}

std::vector<Seen> look::NodesWithoutDriver(const Cluster& cluster) {
  if (!LooksAtDrivers(cluster)) return {};
  const desired::DriverAssignment assignment = AssignmentOf(cluster);
  Seen seen;
  std::size_t count = 0;
  for (const auto& [name, node] : cluster.nodes) {
    if (!LacksDriver(cluster, assignment, node)) continue;
    if (++count <= kMostNamed) seen.evidence.push_back(SawLabel(node, api::kDriverOwner));
  }
  if (count == 0) return {};
  seen.summary =
      fmt::format("{} GPU {} no driver: {}", count, count == 1 ? "node gets" : "nodes get",
                  cluster.drivers.empty()
                      ? "there is no NVIDIADriver"
                      : "no NVIDIADriver selects " + std::string(count == 1 ? "it" : "them") +
                            ", and none is the default");
  return {seen};
}

}  // namespace pitcrew::fleet
