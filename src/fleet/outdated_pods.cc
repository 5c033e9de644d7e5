#include "fleet/outdated_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "fleet/cluster_looks.h"
#include "fleet/driver_wave.h"

namespace pitcrew::fleet {
namespace {

constexpr std::string_view kDriverVersion = "nvidia.com/cuda.driver-version.full";

// What the node runs, and what the DaemonSet's containers are to run.
void AddVersions(const Cluster& cluster, const DaemonSet& daemonset, const Pod& pod, Seen& seen) {
  if (const auto node = cluster.nodes.find(pod.node); node != cluster.nodes.end()) {
    if (!node->second.Label(kDriverVersion).empty() &&
        daemonset.images.contains("nvidia-driver-ctr")) {
      seen.evidence.push_back(SawLabel(node->second, kDriverVersion));
    }
  }
  for (const char* container : {"nvidia-driver-ctr", "nvidia-vgpu-manager-ctr"}) {
    const auto image = daemonset.images.find(container);
    if (image == daemonset.images.end()) continue;
    seen.evidence.push_back({"DaemonSet " + daemonset.key.ToString(),
                             fmt::format("container {}", container), image->second, std::nullopt});
  }
}

}  // namespace

std::vector<const Pod*> OutdatedPods(const Cluster& cluster, const DaemonSet& daemonset) {
  if (daemonset.observed_generation < daemonset.generation ||
      daemonset.updated >= daemonset.desired || daemonset.template_generation == 0) {
    return {};
  }
  std::vector<const Pod*> pods;
  // A template that was changed and changed back has a new number and the revision of before.
  std::set<std::string> current;
  for (const auto& [key, pod] : cluster.pods) {
    if (key.name_space != daemonset.key.name_space || pod.owner_kind != "DaemonSet" ||
        pod.owner != daemonset.key.name) {
      continue;
    }
    if (pod.template_generation >= daemonset.template_generation) {
      current.insert(pod.revision);
    } else if (pod.template_generation > 0) {
      pods.push_back(&pod);
    }
  }
  std::erase_if(pods, [&](const Pod* pod) { return current.contains(pod->revision); });
  std::ranges::sort(pods, {}, &Pod::node);
  return pods;
}

std::vector<Seen> look::PodsOutdated(const Cluster& cluster) {
  std::vector<Seen> all;
  for (const auto& [name, daemonset] : cluster.daemonsets) {
    const Operand* operand = cluster.operand_table->OfDaemonSet(name);
    if (!daemonset.on_delete || operand == nullptr) continue;
    if (UpgraderOf(cluster, daemonset)) continue;
    const auto pods = OutdatedPods(cluster, daemonset);
    if (pods.empty()) continue;
    Seen seen{
        .summary = fmt::format("{} of {} pods of the {} still run the version of before: they "
                               "are replaced only when somebody deletes them",
                               pods.size(), daemonset.desired, operand->name),
        .evidence = {},
        .words = {{"pod", pods.front()->key.name},
                  {"node", pods.front()->node},
                  {"operand", std::string(operand->name)},
                  {"app", pods.front()->app}},
        .since = std::nullopt};
    for (const Pod* pod : pods) {
      if (seen.evidence.size() == look::kMostNamed) break;
      seen.evidence.push_back({"Pod " + pod->key.ToString(), "on " + pod->node,
                               fmt::format("made from version {} of the DaemonSet, which is at {}",
                                           pod->template_generation, daemonset.template_generation),
                               pod->created});
    }
    AddVersions(cluster, daemonset, *pods.front(), seen);
    all.push_back(std::move(seen));
  }
  return all;
}

}  // namespace pitcrew::fleet
