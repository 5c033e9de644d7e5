#include "node/nfd/worker_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "codec/config_reader.h"

namespace pitcrew::node::nfd {
namespace {

using codec::ConfigReader;

constexpr std::chrono::seconds kShortestInterval{1};

// Applies selectors in order: "all", "name", "-name"; unknown names are logged and skipped.
std::set<std::string> SelectSources(const std::vector<std::string>& selectors) {
  const auto& all = AllSources();
  std::set<std::string> selected;
  for (const auto& selector : selectors) {
    const bool remove = selector.starts_with('-');
    const auto name = remove ? selector.substr(1) : selector;
    if (!remove && name == "all") {
      selected.insert(all.begin(), all.end());
    } else if (std::ranges::find(all, name) == all.end()) {
      base::LogWarning("There is no such feature source", {{"source", name}});
    } else if (remove) {
      selected.erase(name);
    } else {
      selected.insert(name);
    }
  }
  return selected;
}

std::vector<std::string> InOrderOfPriority(const std::set<std::string>& selected) {
  std::vector<std::string> ordered;
  for (const auto& name : AllSources()) {
    if (selected.contains(name)) ordered.push_back(name);
  }
  return ordered;
}

struct RawCore {
  std::string label_white_list;
  bool no_owner_refs = false;
  std::optional<std::vector<std::string>> owner_refs;
  std::vector<std::string> feature_sources = {"all"};
  std::vector<std::string> label_sources = {"all"};
};

}  // namespace

const std::vector<std::string>& AllSources() {
  static const std::vector<std::string> kAll = {"cpu",    "kernel", "memory", "pci",
                                                "system", "custom", "local"};
  return kAll;
}

base::Result<std::vector<Owner>> ParseOwners(const std::vector<std::string>& names) {
  std::set<Owner> owners;
  for (const auto& name : names) {
    const auto owner = name == "node"  ? std::optional(Owner::kNode)
                       : name == "pod" ? std::optional(Owner::kPod)
                       : name == "ds"  ? std::optional(Owner::kDaemonSet)
                                       : std::nullopt;
    if (!owner) {
      return base::Fail(
          base::Invalid("InvalidOwner", fmt::format("\"{}\" is not one of node, pod, ds", name)));
    }
    if (!owners.insert(*owner).second) {
      return base::Fail(
          base::Invalid("InvalidOwner", fmt::format("\"{}\" stands there twice", name)));
    }
  }
  return std::vector<Owner>(owners.begin(), owners.end());
}

base::Result<WorkerConfig> MakeWorkerConfig(const ConfigTexts& texts,
                                            const WorkerOverrides& overrides) {
  const auto merged = MergedConfig(texts);
  TRY_ASSIGN(const auto root, ConfigReader::Create(merged, ""));
  TRY_ASSIGN(const auto core, root.Object("core"));
  WorkerConfig config;
  RawCore raw;
  TRY(core.Read("labelWhiteList", raw.label_white_list));
  TRY(core.Read("noPublish", config.no_publish));
  TRY(core.Read("noOwnerRefs", raw.no_owner_refs));
  TRY(core.Read("ownerRefs", raw.owner_refs));
  TRY(core.Read("featureSources", raw.feature_sources));
  TRY(core.Read("labelSources", raw.label_sources));
  TRY(core.Read("noPublishFeatures", config.no_publish_features));
  TRY(core.Read("sleepInterval", config.sleep_interval));
  // The old name of labelSources counts in the file only.
  TRY_ASSIGN(const auto file, ConfigReader::Create(texts.file, ""));
  TRY_ASSIGN(const auto file_core, file.Object("core"));
  TRY(file_core.Read("sources", raw.label_sources));
  TRY_ASSIGN(const auto sources, root.Object("sources"));
  TRY_ASSIGN(const auto pci, sources.Object("pci"));
  TRY(pci.Read("deviceClassWhitelist", config.pci.device_class_whitelist));
  TRY(pci.Read("deviceLabelFields", config.pci.device_label_fields));

  if (overrides.no_publish) config.no_publish = *overrides.no_publish;
  if (overrides.no_owner_refs) raw.no_owner_refs = *overrides.no_owner_refs;
  if (overrides.owner_refs) raw.owner_refs = *overrides.owner_refs;
  if (overrides.feature_sources) raw.feature_sources = *overrides.feature_sources;
  if (overrides.label_sources) raw.label_sources = *overrides.label_sources;
  if (overrides.no_publish_features) config.no_publish_features = *overrides.no_publish_features;

  TRY_ASSIGN(config.label_white_list, LabelWhiteList::Compile(raw.label_white_list));
  if (raw.owner_refs) {
    TRY_ASSIGN(config.owners, ParseOwners(*raw.owner_refs));
  }
  if (raw.no_owner_refs) config.owners.clear();
  config.feature_sources = SelectSources(raw.feature_sources);
  config.label_sources = InOrderOfPriority(SelectSources(raw.label_sources));
  if (config.sleep_interval.count() > 0 && config.sleep_interval < kShortestInterval) {
    base::LogWarning("core.sleepInterval is too short; one second is used");
    config.sleep_interval = kShortestInterval;
  }
  return config;
}

}  // namespace pitcrew::node::nfd
