#include "node/nfd/node_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/strings.h"
#include "node/nfd/label_rules.h"
#include "node/nfd/resources.h"

namespace pitcrew::node::nfd {
namespace {

bool IsThirdParty(const KeyedNodeFeature& object, const MasterConfig& config) {
  return object.key.namespace_name != config.namespace_name ||
         object.key.name != object.view.node_name;
}

bool IsDenied(std::string_view label_namespace, const MasterConfig& config) {
  return std::ranges::any_of(config.deny_label_namespaces, [&](std::string_view pattern) {
    if (!pattern.starts_with('*')) return label_namespace == pattern;
    pattern.remove_prefix(std::min(pattern.find_first_not_of('*'), pattern.size()));
    return label_namespace.ends_with(pattern);
  });
}

base::Status Reject(const std::string& name, std::string_view why) {
  return base::Fail(base::Invalid("LabelRejected", fmt::format("label {}: {}", name, why)));
}

// labels or annotations of a node as texts.
std::map<std::string, std::string> TextsOf(const codec::Json& node, std::string_view part) {
  std::map<std::string, std::string> texts;
  const auto* found = codec::Find(node, {"metadata", part});
  if (found == nullptr || !found->is_object()) return texts;
  for (const auto& [key, value] : found->items()) {
    if (value.is_string()) texts[key] = value.get<std::string>();
  }
  return texts;
}

// Only what differs is in the patch; an empty part is left out.
std::optional<codec::Json> MetadataPatch(codec::Json labels, codec::Json annotations) {
  codec::Json metadata = codec::Json::object();
  if (!labels.empty()) metadata["labels"] = std::move(labels);
  if (!annotations.empty()) metadata["annotations"] = std::move(annotations);
  if (metadata.empty()) return std::nullopt;
  return codec::Json{{"metadata", std::move(metadata)}};
}

std::string InstancePrefix(const MasterConfig& config) {
  return config.instance.empty() ? "" : config.instance + ".";
}

}  // namespace

Labels MergeLabels(std::vector<KeyedNodeFeature> objects, const MasterConfig& config) {
  std::ranges::sort(objects, {}, [&](const KeyedNodeFeature& object) {
    return std::make_tuple(object.key.namespace_name != config.namespace_name, object.key.name,
                           object.key.namespace_name);
  });
  Labels merged;
  for (const auto& object : objects) {
    if (config.deny_node_feature_labels && IsThirdParty(object, config)) continue;
    if (!config.auto_prefix) {
      for (const auto& [name, value] : object.view.labels) merged[name] = value;
      continue;
    }
    // Inside one object a name with a prefix beats the same without.
    Labels prefixed;
    for (const auto& [name, value] : object.view.labels) {
      if (NamespaceOf(name).empty()) prefixed[WithDefaultNamespace(name)] = value;
    }
    for (const auto& [name, value] : object.view.labels) {
      if (!NamespaceOf(name).empty()) prefixed[name] = value;
    }
    for (const auto& [name, value] : prefixed) merged[name] = value;
  }
  return merged;
}

base::Status CheckNodeLabel(const std::string& name, const std::string& value,
                            const MasterConfig& config) {
  const auto label_namespace = NamespaceOf(name);
  // The API server would refuse the whole patch, with all other labels, because of one bad label.
  TRY(CheckQualifiedName(name));
  TRY(CheckLabelValue(value));
  const bool is_extra = std::ranges::find(config.extra_label_namespaces, label_namespace) !=
                        config.extra_label_namespaces.end();
  if (!is_extra) {
    if (label_namespace.empty() && config.auto_prefix) return Reject(name, "it has no prefix");
    if (IsReservedNamespace(label_namespace)) {
      return Reject(name, "its namespace belongs to Kubernetes");
    }
    if (IsDenied(label_namespace, config)) return Reject(name, "its namespace is denied");
  }
  if (!config.label_white_list.Matches(BaseNameOf(name))) {
    return Reject(name, "labelWhiteList does not match it");
  }
  return {};
}

FilteredLabels FilterLabels(const Labels& merged, const MasterConfig& config) {
  FilteredLabels result;
  if (config.disable_labels) return result;
  for (const auto& [name, value] : merged) {
    if (auto good = CheckNodeLabel(name, value, config); good) {
      result.labels[name] = value;
    } else {
      result.rejected.push_back(std::move(good).error());
    }
  }
  return result;
}

std::string OwnedLabelsAnnotation(const MasterConfig& config) {
  return InstancePrefix(config) + std::string(kOwnedLabels);
}

std::string JoinOwnedNames(const std::vector<std::string>& names) {
  const auto prefix = fmt::format("{}/", kFeatureNamespace);
  std::set<std::string> stripped;
  for (const auto& name : names) {
    stripped.insert(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
  }
  return base::Join({stripped.begin(), stripped.end()}, ",");
}

std::vector<std::string> SplitOwnedNames(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& name : base::SplitTrimmed(text, ','))
    names.push_back(WithDefaultNamespace(name));
  return names;
}

std::optional<codec::Json> PlanNodePatch(const codec::Json& node, const Labels& desired,
                                         bool keep_unlisted, const MasterConfig& config) {
  const auto labels = TextsOf(node, "labels");
  const auto annotations = TextsOf(node, "annotations");
  const auto bookkeeping = OwnedLabelsAnnotation(config);
  const auto listed = annotations.find(bookkeeping);
  const auto owned_names =
      listed == annotations.end() ? std::vector<std::string>() : SplitOwnedNames(listed->second);
  const std::set<std::string> owned(owned_names.begin(), owned_names.end());

  codec::Json label_changes = codec::Json::object();
  std::vector<std::string> owned_after;
  for (const auto& [name, value] : desired) {
    const auto present = labels.find(name);
    const bool foreign = present != labels.end() && !owned.contains(name);
    if (foreign && !config.allow_overwrite) continue;
    if (present == labels.end() || present->second != value) label_changes[name] = value;
    owned_after.push_back(name);
  }
  for (const auto& name : owned) {
    if (desired.contains(name) || !labels.contains(name)) continue;
    if (keep_unlisted) {
      owned_after.push_back(name);
    } else {
      label_changes[name] = nullptr;
    }
  }

  codec::Json annotation_changes = codec::Json::object();
  const auto after = JoinOwnedNames(owned_after);
  const auto before = listed == annotations.end() ? std::string() : listed->second;
  if (after.empty() && listed != annotations.end()) {
    annotation_changes[bookkeeping] = nullptr;
  } else if (after != before) {
    annotation_changes[bookkeeping] = after;
  }
  for (const auto stale : {kMasterVersion, kWorkerVersion}) {
    if (annotations.contains(std::string(stale))) annotation_changes[std::string(stale)] = nullptr;
  }
  return MetadataPatch(std::move(label_changes), std::move(annotation_changes));
}

std::optional<codec::Json> PlanPrune(const codec::Json& node, const MasterConfig& config) {
  auto patch = PlanNodePatch(node, {}, false, config).value_or(codec::Json::object());
  const auto prefix = InstancePrefix(config) + "nfd.node.kubernetes.io";
  for (const auto& [key, value] : TextsOf(node, "annotations")) {
    if (key.starts_with(prefix)) patch["metadata"]["annotations"][key] = nullptr;
  }
  if (patch.empty()) return std::nullopt;
  return patch;
}

}  // namespace pitcrew::node::nfd
