#include "desired/placement.h"

#include <fmt/format.h>

#include <string>

#include "api/labels.h"
#include "desired/pod.h"

namespace pitcrew::desired {
namespace {

bool IsKind(const Object& object, std::string_view kind) {
  return codec::FindString(object, {"kind"}) == kind;
}

// Renames what the manifests call `from`, or "<from>-something".
void Rename(Object& holder, const std::string& from, const std::string& to) {
  const std::string name = codec::FindString(holder, {"name"});
  if (name == from || name.starts_with(from + "-")) holder["name"] = to + name.substr(from.size());
}

void PlaceDaemonSet(Object& daemonset, const Placement& placement, const std::string& before) {
  const std::string app(api::kAppLabel);
  daemonset["metadata"]["name"] = placement.daemonset;
  SetLabel(daemonset, app, placement.daemonset);
  SetLabel(PodTemplate(daemonset), app, placement.daemonset);
  daemonset["spec"]["selector"]["matchLabels"][app] = placement.daemonset;
  for (const auto& [key, value] : placement.node_selector) SetNodeSelector(daemonset, key, value);
  constexpr const char* kConstraints = "openshift.io/scc";
  if (codec::FindString(daemonset, {"metadata", "annotations", kConstraints}) == before) {
    SetAnnotation(daemonset, kConstraints, placement.name);
  }
  Object& pod = PodSpec(daemonset);
  if (codec::FindString(pod, {"serviceAccountName"}) == before) {
    pod["serviceAccountName"] = placement.name;
  }
  if (!pod.contains("volumes")) return;
  for (Object& volume : pod["volumes"]) {
    if (volume.contains("configMap")) Rename(volume["configMap"], before, placement.name);
  }
}

}  // namespace

base::Status Place(std::vector<Object>& objects, const Placement& placement) {
  const Object* account = FindObject(objects, "ServiceAccount");
  if (account == nullptr) {
    return base::Fail(base::Internal("NotPlaceable", "an operand without a service account"));
  }
  const std::string before = NameOf(*account);
  int daemonsets = 0;
  for (Object& object : objects) {
    if (IsKind(object, "DaemonSet")) {
      if (++daemonsets > 1) {
        return base::Fail(base::Internal(
            "NotPlaceable",
            fmt::format("pool {} has nodes that need several DaemonSets", placement.daemonset)));
      }
      PlaceDaemonSet(object, placement, before);
      continue;
    }
    Rename(object["metadata"], before, placement.name);
    if (object.contains("roleRef")) Rename(object["roleRef"], before, placement.name);
    if (!object.contains("subjects")) continue;
    for (Object& subject : object["subjects"]) {
      if (IsKind(subject, "ServiceAccount")) Rename(subject, before, placement.name);
    }
  }
  return {};
}

}  // namespace pitcrew::desired
