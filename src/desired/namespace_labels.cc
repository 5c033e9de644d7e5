#include "desired/namespace_labels.h"

#include <algorithm>
#include <utility>

#include "desired/owned_object.h"
#include "desired/predecessor.h"

namespace pitcrew::desired {
namespace {

using codec::Json;

// Labels and the value that the operator gives them (operator-behaviour.md section 13.3).
constexpr std::pair<const char*, const char*> kWritten[] = {
    {"pod-security.kubernetes.io/enforce", "privileged"},
    {"pod-security.kubernetes.io/audit", "privileged"},
    {"pod-security.kubernetes.io/warn", "privileged"},
    {"openshift.io/cluster-monitoring", "true"},
};

// What the annotation tells; an empty object when there is none, or when somebody has spoilt it.
Json Before(const Json& current) {
  const std::string text =
      codec::FindString(current, {"metadata", "annotations", kNamespaceLabelsBefore});
  auto before = text.empty() ? base::Result<Json>(Json::object())
                             : codec::ParseJson(text, kNamespaceLabelsBefore);
  return before && before->is_object() ? *std::move(before) : Json::object();
}

}  // namespace

Json NamespacePatch(const std::map<std::string, std::string>& labels, const Json& current) {
  Json patch = {{"metadata", {{"labels", labels}}}};
  Json before = Before(current);
  const std::size_t known = before.size();
  for (const auto& [label, value] : labels) {
    const std::string replaced = codec::FindString(current, {"metadata", "labels", label});
    if (!replaced.empty() && !before.contains(label)) before[label] = replaced;
  }
  if (before.size() > known) {
    patch["metadata"]["annotations"][std::string(kNamespaceLabelsBefore)] =
        codec::ToJsonText(before);
  }
  return patch;
}

Changes CleanUpNamespace(const Json& current) {
  Changes changes;
  const Json* entries = codec::Find(current, {"metadata", "managedFields"});
  if (entries == nullptr || !entries->is_array()) return changes;
  const Json before = Before(current);
  for (const auto& [label, written] : kWritten) {
    if (codec::FindString(current, {"metadata", "labels", label}) != written) continue;
    const auto set_by_operator = [&, field = std::string("f:") + label](const Json& entry) {
      const std::string manager = codec::FindString(entry, {"manager"});
      return (manager == kFieldManager || manager == kUpstreamManager) &&
             codec::Find(entry, {"fieldsV1", "f:metadata", "f:labels", field}) != nullptr;
    };
    if (!std::ranges::any_of(*entries, set_by_operator)) continue;
    const std::string value = codec::FindString(before, {label});
    changes[label] = value.empty() ? std::nullopt : std::optional(value);
  }
  return changes;
}

}  // namespace pitcrew::desired
