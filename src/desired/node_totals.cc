#include "desired/node_totals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "api/labels.h"
#include "desired/node_labels.h"

namespace pitcrew::desired {
namespace {

// A system and the first of the names of its nodes.
struct FirstNode {
  std::string_view name;
  const NodeSystem* system;
};

base::Result<OsRelease> OsOf(const FirstNode& node) {
  const auto missing = [&](std::string_view what, std::string_view label) {
    return base::Fail(base::Invalid(
        "OsLabelsMissing",
        fmt::format("{} of GPU node {} is unknown: label {} is missing; is node feature discovery "
                    "running there?",
                    what, node.name, label)));
  };
  if (node.system->os.empty()) return missing("OS name", api::kOsReleaseId);
  if (node.system->os_version.empty()) return missing("OS version", api::kOsReleaseVersionId);
  return OsRelease{std::string(node.system->os), std::string(node.system->os_version)};
}

base::Status AddKernel(std::map<std::string, OsRelease>& kernels, const FirstNode& node) {
  const std::string kernel(node.system->kernel);
  if (kernel.empty()) {
    return base::Fail(base::Invalid(
        "KernelLabelMissing", fmt::format("kernel of GPU node {} is unknown: label {} is missing",
                                          node.name, api::kKernelVersionFull)));
  }
  TRY_ASSIGN(const OsRelease os, OsOf(node));
  const auto [place, added] = kernels.try_emplace(kernel, os);
  if (!added && place->second != os) {
    return base::Fail(base::Invalid(
        "KernelWithTwoSystems",
        fmt::format("kernel {} runs under both {} and {}: precompiled drivers need one operating "
                    "system per kernel",
                    kernel, place->second.full(), os.full())));
  }
  return {};
}

}  // namespace

NodeShare ShareOf(const Node& node) {
  NodeShare share{.nfd_labels = node.nfd_labels,
                  .gpu = node.gpu_present(),
                  .losing = LosesGpu(node),
                  .runtime = GpuRuntimeOf(node),
                  .system = {}};
  share.joining = !share.gpu && node.has_gpu_pci_label();
  if (share.gpu) {
    share.system = {.os = node.labels.Get(api::kOsReleaseId),
                    .os_version = node.labels.Get(api::kOsReleaseVersionId),
                    .kernel = node.labels.Get(api::kKernelVersionFull),
                    .rhcos = node.labels.Get(api::kOsTreeVersion)};
  }
  return share;
}

void NodeTotals::Add(const Node& node) {
  const NodeShare share = ShareOf(node);
  nfd_nodes_ += share.nfd_labels ? 1 : 0;
  gpu_nodes_ += share.gpu ? 1 : 0;
  joining_ += share.joining ? 1 : 0;
  losing_ += share.losing ? 1 : 0;
  if (share.runtime) ++runtimes_[*share.runtime];
  if (share.system) systems_[*share.system].insert(node.name);
}

void NodeTotals::Remove(const Node& node) {
  const NodeShare share = ShareOf(node);
  nfd_nodes_ -= share.nfd_labels ? 1 : 0;
  gpu_nodes_ -= share.gpu ? 1 : 0;
  joining_ -= share.joining ? 1 : 0;
  losing_ -= share.losing ? 1 : 0;
  if (share.runtime && --runtimes_[*share.runtime] == 0) runtimes_.erase(*share.runtime);
  if (!share.system) return;
  const auto system = systems_.find(*share.system);
  if (system == systems_.end()) return;
  system->second.erase(node.name);
  if (system->second.empty()) systems_.erase(system);
}

void NodeTotals::Fill(Facts& facts) const {
  facts.nfd_labels = nfd_nodes_ > 0;
  facts.gpu_nodes = gpu_nodes_;
  facts.joining_gpu_nodes = joining_;
  facts.runtimes = runtimes_;
  // Whatever a node adds, and whatever is wrong with it, the first node of its system does already.
  std::vector<FirstNode> first_nodes;
  std::set<std::string> rhcos;
  for (const auto& [system, names] : systems_) {
    first_nodes.push_back({.name = *names.begin(), .system = &system});
    if (!system.rhcos.empty()) rhcos.emplace(system.rhcos);
  }
  std::ranges::sort(first_nodes, {}, &FirstNode::name);
  facts.rhcos_versions.assign(rhcos.begin(), rhcos.end());
  facts.os.reset();
  if (!first_nodes.empty()) {
    // One node without labels does not hold up the drivers of all others.
    const auto telling = std::ranges::find_if(
        first_nodes, [](const FirstNode& node) { return OsOf(node).has_value(); });
    facts.os = OsOf(telling == first_nodes.end() ? first_nodes.front() : *telling);
  }
  std::map<std::string, OsRelease> kernels;
  for (const FirstNode& node : first_nodes) {
    if (base::Status added = AddKernel(kernels, node); !added) {
      facts.kernels = base::Fail(std::move(added).error());
      return;
    }
  }
  facts.kernels = std::move(kernels);
}

}  // namespace pitcrew::desired
