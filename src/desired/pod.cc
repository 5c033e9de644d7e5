#include "desired/pod.h"

#include <algorithm>

namespace pitcrew::desired {
namespace {

Object& List(Object& parent, std::string_view member) {
  Object& list = parent[std::string(member)];
  if (!list.is_array()) list = Object::array();
  return list;
}

Object& Map(Object& parent, std::string_view member) {
  Object& map = parent[std::string(member)];
  if (!map.is_object()) map = Object::object();
  return map;
}

Object* FindNamed(Object& parent, std::string_view list, std::string_view name) {
  const auto found = parent.find(list);
  if (found == parent.end() || !found->is_array()) return nullptr;
  for (Object& item : *found) {
    if (NameOf(item) == name) return &item;
  }
  return nullptr;
}

void AppendContainers(Object& daemonset, std::string_view list, std::vector<Object*>& containers) {
  Object& pod = PodSpec(daemonset);
  const auto found = pod.find(list);
  if (found == pod.end()) return;
  for (Object& container : *found) containers.push_back(&container);
}

}  // namespace

Object& PodTemplate(Object& daemonset) { return Map(Map(daemonset, "spec"), "template"); }
Object& PodSpec(Object& daemonset) { return Map(PodTemplate(daemonset), "spec"); }

std::string NameOf(const Object& object) {
  const auto name = object.find("name");
  if (name != object.end() && name->is_string()) return name->get<std::string>();
  return codec::FindString(object, {"metadata", "name"});
}

std::vector<Object*> InitContainers(Object& daemonset) {
  std::vector<Object*> containers;
  AppendContainers(daemonset, "initContainers", containers);
  return containers;
}

std::vector<Object*> MainContainers(Object& daemonset) {
  std::vector<Object*> containers;
  AppendContainers(daemonset, "containers", containers);
  return containers;
}

std::vector<Object*> AllContainers(Object& daemonset) {
  std::vector<Object*> containers = InitContainers(daemonset);
  AppendContainers(daemonset, "containers", containers);
  return containers;
}

Object* FindContainer(Object& daemonset, std::string_view name) {
  for (Object* container : AllContainers(daemonset)) {
    if (NameOf(*container) == name) return container;
  }
  return nullptr;
}

void RemoveContainer(Object& daemonset, std::string_view name) {
  for (const std::string_view list : {"initContainers", "containers"}) {
    Object& pod = PodSpec(daemonset);
    const auto found = pod.find(list);
    if (found == pod.end()) continue;
    auto& items = found->get_ref<Object::array_t&>();
    std::erase_if(items, [&](const Object& container) { return NameOf(container) == name; });
    if (items.empty()) pod.erase(found);
  }
}

void SetEnv(Object& container, std::string_view name, std::string_view value) {
  Object variable = {{"name", name}, {"value", value}};
  if (Object* found = FindNamed(container, "env", name)) {
    *found = std::move(variable);
  } else {
    List(container, "env").push_back(std::move(variable));
  }
}

void SetEnv(Object& container, const std::vector<api::EnvVar>& variables) {
  for (const api::EnvVar& variable : variables) SetEnv(container, variable.name, variable.value);
}

std::optional<std::string> FindEnv(const Object& container, std::string_view name) {
  const auto env = container.find("env");
  if (env == container.end()) return std::nullopt;
  for (const Object& variable : *env) {
    if (NameOf(variable) == name && variable.contains("value")) {
      return variable["value"].get<std::string>();
    }
  }
  return std::nullopt;
}

void AddMount(Object& container, const Mount& mount) {
  Object object = {{"name", mount.volume}, {"mountPath", mount.path}};
  if (mount.read_only) object["readOnly"] = true;
  if (!mount.sub_path.empty()) object["subPath"] = mount.sub_path;
  Object& mounts = List(container, "volumeMounts");
  for (Object& existing : mounts) {
    if (codec::FindString(existing, {"mountPath"}) == mount.path) {
      existing = std::move(object);
      return;
    }
  }
  mounts.push_back(std::move(object));
}

Object* FindMount(Object& container, std::string_view volume) {
  return FindNamed(container, "volumeMounts", volume);
}

void SetArgs(Object& container, const std::vector<std::string>& args) {
  if (!args.empty()) container["args"] = args;
}

void SetResources(Object& container, const std::optional<codec::Json>& resources) {
  if (!resources) return;
  container.erase("resources");
  for (const char* member : {"limits", "requests"}) {
    const auto found = resources->find(member);
    if (found != resources->end() && !found->empty()) container["resources"][member] = *found;
  }
}

void RunAsRoot(Object& container) { Map(container, "securityContext")["runAsUser"] = 0; }

bool OverrideProbe(Object& container, std::string_view member, const api::Probe& probe) {
  if (probe == api::Probe{}) return true;
  const auto found = container.find(member);
  if (found == container.end()) return false;
  const auto apply = [&](const char* name, std::int32_t value) {
    if (value != 0) (*found)[name] = value;
  };
  apply("initialDelaySeconds", probe.initial_delay_seconds);
  apply("timeoutSeconds", probe.timeout_seconds);
  apply("periodSeconds", probe.period_seconds);
  apply("successThreshold", probe.success_threshold);
  apply("failureThreshold", probe.failure_threshold);
  return true;
}

void AddPullSecrets(Object& daemonset, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    Object& pod = PodSpec(daemonset);
    if (FindNamed(pod, "imagePullSecrets", secret) == nullptr) {
      List(pod, "imagePullSecrets").push_back({{"name", secret}});
    }
  }
}

void UseHostNetwork(Object& daemonset) {
  Object& pod = PodSpec(daemonset);
  pod["hostNetwork"] = true;
  pod["dnsPolicy"] = "ClusterFirstWithHostNet";
}

void SetPodAnnotation(Object& daemonset, std::string_view key, std::string_view value) {
  SetAnnotation(PodTemplate(daemonset), key, value);
}

void SetNodeSelector(Object& daemonset, std::string_view key, std::string_view value) {
  Map(PodSpec(daemonset), "nodeSelector")[std::string(key)] = value;
}

void SetLabel(Object& object, std::string_view key, std::string_view value) {
  Map(Map(object, "metadata"), "labels")[std::string(key)] = value;
}

void SetAnnotation(Object& object, std::string_view key, std::string_view value) {
  Map(Map(object, "metadata"), "annotations")[std::string(key)] = value;
}

Object* FindVolume(Object& daemonset, std::string_view name) {
  return FindNamed(PodSpec(daemonset), "volumes", name);
}

void SetVolume(Object& daemonset, Object volume) {
  if (Object* found = FindVolume(daemonset, NameOf(volume))) {
    *found = std::move(volume);
  } else {
    List(PodSpec(daemonset), "volumes").push_back(std::move(volume));
  }
}

Object HostPathVolume(std::string_view name, std::string_view path, std::string_view type) {
  Object volume = {{"name", name}, {"hostPath", {{"path", path}}}};
  if (!type.empty()) volume["hostPath"]["type"] = type;
  return volume;
}

Object ConfigMapVolume(std::string_view name, std::string_view config_map,
                       const std::vector<std::string>& keys) {
  Object volume = {{"name", name}, {"configMap", {{"name", config_map}}}};
  for (const std::string& key : keys) {
    List(volume["configMap"], "items").push_back({{"key", key}, {"path", key}});
  }
  return volume;
}

bool SetHostPath(Object& daemonset, std::string_view volume, std::string_view path) {
  Object* found = FindVolume(daemonset, volume);
  if (found == nullptr || !found->contains("hostPath")) return false;
  (*found)["hostPath"]["path"] = path;
  return true;
}

}  // namespace pitcrew::desired
