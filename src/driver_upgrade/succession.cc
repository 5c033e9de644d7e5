#include "driver_upgrade/succession.h"

#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "driver_upgrade/pods.h"

namespace pitcrew::driver_upgrade {
namespace {

using codec::Json;

constexpr std::string_view kTemplateGeneration = "pod-template-generation";

Json ValueAt(const Json& object, std::string_view member) {
  const Json* found = codec::Find(object, {member});
  return found == nullptr ? Json() : *found;
}

// By name; the last of several with one name counts.
Json VariablesOf(const Json& container) {
  Json variables = Json::object();
  for (const Json& variable : ValueAt(container, "env")) {
    const std::string name = codec::FindString(variable, {"name"});
    if (name == "DRIVER_CONFIG_DIGEST" || name == "NVIDIA_VISIBLE_DEVICES" ||
        variable.contains("valueFrom"))
      continue;
    variables[name] = codec::FindString(variable, {"value"});
  }
  return variables;
}

// Where the files of a volume come from; "" for what the cluster itself mounts.
std::string SourceOf(const Json& volume) {
  const std::string name = codec::FindString(volume, {"name"});
  if (name == "driver-startup-probe-script" || name == "gpu-operator-trusted-ca") return name;
  for (const auto& [kind, member] :
       {std::pair("configMap", "name"), std::pair("secret", "secretName"),
        std::pair("hostPath", "path")}) {
    if (const std::string found = codec::FindString(volume, {kind, member}); !found.empty()) {
      return std::string(kind) + " " + found;
    }
  }
  return volume.contains("emptyDir") ? "emptyDir" : "";
}

// Path in the container to what lies there.
Json FilesOf(const Json& container, const Json& pod_spec) {
  std::map<std::string, std::string> sources;
  for (const Json& volume : ValueAt(pod_spec, "volumes")) {
    sources[codec::FindString(volume, {"name"})] = SourceOf(volume);
  }
  Json files = Json::object();
  for (const Json& mount : ValueAt(container, "volumeMounts")) {
    const std::string& source = sources[codec::FindString(mount, {"name"})];
    if (source.empty()) continue;
    files[codec::FindString(mount, {"mountPath"})] =
        source + " " + codec::FindString(mount, {"subPath"});
  }
  return files;
}

// What makes labels of a pod those of the DaemonSet's pods.
Json LabelsLike(const Json& pod, const Json& daemonset) {
  Json labels = Json::object();
  if (const Json* standing = codec::Find(pod, {"metadata", "labels"})) {
    for (const auto& [key, value] : standing->items()) labels[key] = nullptr;
  }
  if (const Json* wanted = codec::Find(daemonset, {"spec", "template", "metadata", "labels"})) {
    for (const auto& [key, value] : wanted->items()) labels[key] = value;
  }
  return labels;
}

// Metadata of a patch that holds for the object as it was read only.
Json WithVersionOf(const Json& object, Json metadata) {
  for (const char* member : {"uid", "resourceVersion"}) {
    metadata[member] = codec::FindString(object, {"metadata", member});
  }
  return metadata;
}

}  // namespace

std::uint64_t DriverConfigurationOf(const Json& pod_spec) {
  Json driver = Json::object();
  for (const Json& container : ValueAt(pod_spec, "containers")) {
    const std::string name = codec::FindString(container, {"name"});
    Json& known = driver[name];
    for (const char* member : {"image", "command", "args", "envFrom"}) {
      known[member] = ValueAt(container, member);
    }
    known["env"] = VariablesOf(container);
    if (name == kDriverContainer) known["files"] = FilesOf(container, pod_spec);
  }
  if (!driver.contains(kDriverContainer)) return 0;
  return std::hash<std::string>{}(codec::ToJsonText(driver)) | 1U;
}

Json HandOverPatch(const Json& pod, const Json& daemonset, std::string_view revision) {
  Json labels = LabelsLike(pod, daemonset);
  labels[std::string(kRevisionHash)] = revision;
  const std::string generation = codec::FindString(
      daemonset, {"metadata", "annotations", "deprecated.daemonset.template.generation"});
  if (!generation.empty()) labels[std::string(kTemplateGeneration)] = generation;
  return {{"metadata", WithVersionOf(pod, {{"labels", std::move(labels)}})}};
}

Json PassOnPatch(const Json& pod, const Json& daemonset) {
  Json labels = LabelsLike(pod, daemonset);
  labels.erase(std::string(kRevisionHash));
  // Without blockOwnerDeletion: that takes a right on finalizers of DaemonSets.
  const Json owner = {{"apiVersion", "apps/v1"},
                      {"kind", "DaemonSet"},
                      {"name", codec::FindString(daemonset, {"metadata", "name"})},
                      {"uid", codec::FindString(daemonset, {"metadata", "uid"})},
                      {"controller", true}};
  return {{"metadata", WithVersionOf(pod, {{"labels", std::move(labels)},
                                           {"ownerReferences", Json::array({owner})}})}};
}

}  // namespace pitcrew::driver_upgrade
