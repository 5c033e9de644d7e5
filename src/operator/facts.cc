#include "operator/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/labels.h"
#include "base/strings.h"
#include "operator/render.h"

namespace pitcrew::gpu_operator {
namespace {

base::Result<OsRelease> OsOf(const Node& node) {
  OsRelease os{std::string(node.labels.Get(api::kOsReleaseId)),
               std::string(node.labels.Get(api::kOsReleaseVersionId))};
  const auto missing = [&](std::string_view what, std::string_view label) {
    return base::Fail(base::Invalid(
        "OsLabelsMissing",
        fmt::format("{} of GPU node {} is unknown: label {} is missing; is node feature discovery "
                    "running there?",
                    what, node.name, label)));
  };
  if (os.id.empty()) return missing("OS name", api::kOsReleaseId);
  if (os.version_id.empty()) return missing("OS version", api::kOsReleaseVersionId);
  return os;
}

base::Status AddKernel(std::map<std::string, OsRelease>& kernels, const Node& node) {
  const std::string kernel(node.labels.Get(api::kKernelVersionFull));
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

std::string OsRelease::tag() const {
  if (id == "ol" || id == "rocky" || id == "rhel") {
    return id + version_id.substr(0, version_id.find('.'));
  }
  return full();
}

Runtime Facts::runtime() const {
  return openshift() ? Runtime::kCrio : MainRuntime(runtimes, toolkits);
}

std::vector<Runtime> Facts::toolkit_runtimes() const {
  std::vector<Runtime> all = {runtime()};
  if (openshift()) return all;
  for (const auto& [runtime, count] : runtimes) {
    if (runtime != all.front()) all.push_back(runtime);
  }
  return all;
}

Facts FactsOfNodes(Facts base, const std::vector<const Node*>& nodes) {
  Facts facts = std::move(base);
  facts.nfd_labels = false;
  facts.gpu_nodes = 0;
  facts.joining_gpu_nodes = 0;
  facts.runtimes.clear();
  facts.os.reset();
  std::map<std::string, OsRelease> kernels;
  base::Status kernel_status;
  std::set<std::string> rhcos;
  std::vector<const Node*> gpu_nodes;
  for (const Node* node : nodes) {
    facts.nfd_labels = facts.nfd_labels || node->nfd_labels;
    if (node->gpu_present()) {
      gpu_nodes.push_back(node);
    } else if (node->has_gpu_pci_label()) {
      ++facts.joining_gpu_nodes;
    }
    if (const auto runtime = GpuRuntimeOf(*node)) ++facts.runtimes[*runtime];
  }
  std::ranges::sort(gpu_nodes, {}, [](const Node* node) -> std::string_view { return node->name; });
  facts.gpu_nodes = gpu_nodes.size();
  for (const Node* node : gpu_nodes) {
    if (!facts.os) facts.os = OsOf(*node);
    if (const auto version = node->labels.Get(api::kOsTreeVersion); !version.empty()) {
      rhcos.emplace(version);
    }
    if (kernel_status) kernel_status = AddKernel(kernels, *node);
  }
  facts.rhcos_versions.assign(rhcos.begin(), rhcos.end());
  if (kernel_status) {
    facts.kernels = std::move(kernels);
  } else {
    facts.kernels = base::Fail(std::move(kernel_status).error());
  }
  return facts;
}

base::Result<std::string> OpenShiftVersionOf(const codec::Json& cluster_version) {
  const codec::Json* history = codec::Find(cluster_version, {"status", "history"});
  if (history != nullptr && history->is_array()) {
    for (const codec::Json& entry : *history) {
      if (codec::FindString(entry, {"state"}) != "Completed") continue;
      const auto pieces = base::Split(codec::FindString(entry, {"version"}), '.');
      if (pieces.size() >= 2) return pieces[0] + "." + pieces[1];
    }
  }
  return base::Fail(
      base::Unavailable("OpenShiftVersionUnknown",
                        "ClusterVersion \"version\" has no completed entry in its history yet"));
}

Proxy ProxyOf(const codec::Json& object) {
  return {.http = codec::FindString(object, {"spec", "httpProxy"}),
          .https = codec::FindString(object, {"spec", "httpsProxy"}),
          .none = codec::FindString(object, {"spec", "noProxy"}),
          .trusted_ca = codec::FindString(object, {"spec", "trustedCA", "name"})};
}

DriverToolkit DriverToolkitOf(const codec::Json& image_stream) {
  DriverToolkit toolkit;
  toolkit.image_stream_exists = true;
  const codec::Json* tags = codec::Find(image_stream, {"spec", "tags"});
  if (tags == nullptr || !tags->is_array()) return toolkit;
  for (const codec::Json& tag : *tags) {
    const std::string name = codec::FindString(tag, {"name"});
    toolkit.broken = toolkit.broken || name.empty();
    if (name.empty() || name == "latest" || codec::Find(tag, {"from"}) == nullptr) continue;
    toolkit.images[name] = codec::FindString(tag, {"from", "name"});
  }
  return toolkit;
}

base::Result<Facts> CompleteFacts(Facts facts, const api::ClusterPolicy& policy,
                                  const FactSource& source) {
  if (facts.openshift()) {
    const auto toolkit = source.driver_toolkit();
    if (toolkit.is_unknown()) return base::Fail(*toolkit.error());
    if (toolkit.is_present()) facts.driver_toolkit = *toolkit.value();
    const auto proxy = source.proxy();
    if (proxy.is_unknown()) return base::Fail(*proxy.error());
    if (proxy.is_present()) facts.proxy = *proxy.value();
  }
  for (const std::string& name : ReferencedConfigMaps(policy)) {
    facts.config_maps.insert_or_assign(name, source.config_map(name));
  }
  for (const std::string& name : ReferencedSecrets(policy)) {
    facts.secrets.insert_or_assign(name, source.secret(name));
  }
  return facts;
}

}  // namespace pitcrew::gpu_operator
