#include "fleet/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/labels.h"
#include "base/strings.h"
#include "codec/json_items.h"
#include "desired/node_labels.h"

namespace pitcrew::fleet {
namespace {

using codec::Find;
using codec::FindString;
using codec::IntegerAt;
using codec::ItemsAt;
using codec::Json;

bool FindBool(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* found = Find(value, path);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

Labels ReadLabels(const Json* labels, std::string_view prefix = "") {
  Labels result;
  if (labels == nullptr || !labels->is_object()) return result;
  for (const auto& [key, value] : labels->items()) {
    if (value.is_string() && key.starts_with(prefix)) {
      result.emplace(key, value.get_ref<const std::string&>());
    }
  }
  return result;
}

// Extended resources are whole numbers, as text or number.
std::optional<std::int64_t> ReadQuantity(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  const bool thousands = text.ends_with('k');
  const auto number =
      base::ParseInteger(std::string_view(text).substr(0, text.size() - (thousands ? 1 : 0)));
  if (!number) return std::nullopt;
  return thousands ? *number * 1000 : *number;
}

template <class Take>
void ForEachResource(const Json* resources, Take take) {
  if (resources == nullptr || !resources->is_object()) return;
  for (const auto& [name, value] : resources->items()) {
    if (!name.starts_with(api::kResourcePrefix)) continue;
    if (const auto amount = ReadQuantity(value)) take(name, *amount);
  }
}

std::vector<Toleration> ReadTolerations(const Json& spec) {
  std::vector<Toleration> result;
  for (const Json& entry : ItemsAt(spec, {"tolerations"})) {
    result.push_back({FindString(entry, {"key"}), FindString(entry, {"operator"}),
                      FindString(entry, {"value"}), FindString(entry, {"effect"})});
  }
  return result;
}

Container ReadContainer(const Json& status, std::string_view kind, const Json& spec) {
  Container container;
  container.name = FindString(status, {"name"});
  container.image = FindString(status, {"image"});
  container.init = kind == "initContainers";
  // The runtime may name what it has fetched otherwise, by a digest for example.
  for (const Json& asked : ItemsAt(spec, {kind})) {
    if (FindString(asked, {"name"}) == container.name)
      container.image = FindString(asked, {"image"});
  }
  container.ready = FindBool(status, {"ready"});
  container.started = FindBool(status, {"started"});
  container.restarts = IntegerAt(status, {"restartCount"});
  for (const char* state : {"waiting", "running", "terminated"}) {
    const Json* found = Find(status, {"state", state});
    if (found == nullptr) continue;
    container.state = state;
    container.reason = FindString(*found, {"reason"});
    container.message = FindString(*found, {"message"});
    container.exit_code = IntegerAt(*found, {"exitCode"});
    container.since = ReadTime(*found, {"startedAt"});
    if (container.state == "terminated") container.since = ReadTime(*found, {"finishedAt"});
  }
  if (const Json* last = Find(status, {"lastState", "terminated"}); last != nullptr) {
    container.last_reason = FindString(*last, {"reason"});
    container.last_message = FindString(*last, {"message"});
    container.last_exit_code = IntegerAt(*last, {"exitCode"});
    container.last_finished = ReadTime(*last, {"finishedAt"});
  }
  return container;
}

void ReadContainers(const Json& object, const Json& spec, Pod& pod) {
  for (const Json& status : ItemsAt(object, {"status", "initContainerStatuses"})) {
    pod.containers.push_back(ReadContainer(status, "initContainers", spec));
  }
  for (const Json& status : ItemsAt(object, {"status", "containerStatuses"})) {
    pod.containers.push_back(ReadContainer(status, "containers", spec));
  }
}

using Amounts = std::map<std::string, std::int64_t>;

Amounts AmountsOf(const Json& container, std::string_view member) {
  Amounts amounts;
  ForEachResource(Find(container, {"resources", member}),
                  [&](const auto& name, auto amount) { amounts[name] += amount; });
  return amounts;
}

void Add(Amounts& sum, const Amounts& amounts) {
  for (const auto& [name, amount] : amounts) sum[name] += amount;
}

// What the scheduler counts for a pod: containers that run together are added up, sidecars among
// them (init containers with restart policy Always); of the init containers, which run one after
// the other, each needs its own beside the sidecars before it
// (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers, "Resource sharing").
Amounts EffectiveAmounts(const Json& spec, std::string_view member) {
  Amounts sidecars;
  Amounts most;
  const auto raise = [&](const Amounts& amounts) {
    for (const auto& [name, amount] : amounts) {
      most.try_emplace(name, 0);
      most[name] = std::max(most[name], amount);
    }
  };
  for (const Json& container : ItemsAt(spec, {"initContainers"})) {
    Amounts together = sidecars;
    Add(together, AmountsOf(container, member));
    raise(together);
    if (FindString(container, {"restartPolicy"}) == "Always") sidecars = std::move(together);
  }
  for (const Json& container : ItemsAt(spec, {"containers"})) {
    Add(sidecars, AmountsOf(container, member));
  }
  raise(sidecars);
  return most;
}

void ReadRequests(const Json& spec, Pod& pod) {
  for (const auto& [name, amount] : EffectiveAmounts(spec, "requests")) {
    pod.requests[name].requested = amount;
  }
  for (const auto& [name, amount] : EffectiveAmounts(spec, "limits")) {
    pod.requests[name].limit = amount;
  }
}

void ReadController(const Json& object, std::string& kind, std::string& name) {
  for (const Json& owner : ItemsAt(object, {"metadata", "ownerReferences"})) {
    if (!FindBool(owner, {"controller"})) continue;
    kind = FindString(owner, {"kind"});
    name = FindString(owner, {"name"});
  }
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found = std::ranges::find(conditions, type, &Condition::type);
  return found == conditions.end() ? nullptr : &*found;
}

std::vector<Condition> ReadConditions(const Json& object) {
  std::vector<Condition> conditions;
  for (const Json& condition : ItemsAt(object, {"status", "conditions"})) {
    conditions.push_back({FindString(condition, {"type"}), FindString(condition, {"status"}),
                          FindString(condition, {"reason"}), FindString(condition, {"message"}),
                          ReadTime(condition, {"lastTransitionTime"})});
  }
  return conditions;
}

}  // namespace

std::string_view Get(const Labels& labels, std::string_view key) {
  const auto found = labels.find(key);
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

bool HasAll(const Labels& labels, const Labels& wanted, std::string* missing) {
  for (const auto& [key, value] : wanted) {
    const auto found = labels.find(key);
    if (found != labels.end() && found->second == value) continue;
    if (missing != nullptr) *missing = fmt::format("{}={}", key, value);
    return false;
  }
  return true;
}

bool Node::is_discovered() const {
  return std::ranges::any_of(
      labels, [](const auto& label) { return desired::IsDiscoveryLabel(label.first); });
}

std::string_view Node::distribution() const {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"+k3s", "k3s"}, {"+rke2r", "RKE2"}, {"+k0s", "k0s"}};
  for (const auto& [part, whose] : kNames) {
    if (kubelet.find(part) != std::string::npos) return whose;
  }
  return Label("microk8s.io/cluster") == "true" ? "MicroK8s" : "";
}

bool Node::has_gpu_pci_label() const {
  return !desired::GpuPciLabel([&](std::string_view key) { return Label(key); }).empty();
}

Workload WorkloadOf(const Node& node, const api::ClusterPolicy* policy) {
  if (policy == nullptr) return Workload::kContainer;
  const std::string_view label = node.Label(api::kWorkloadConfig);
  if (policy->sandbox.enabled && desired::IsUnknownWorkload(label)) {
    const auto standing =
        desired::SetUpFor([&](std::string_view key) { return !node.Label(key).empty(); });
    if (standing) return *standing;
  }
  return desired::WorkloadFor(label, policy->sandbox);
}

std::string Key::ToString() const {
  return name_space.empty() ? name : fmt::format("{}/{}", name_space, name);
}

std::string Taint::ToString() const {
  return value.empty() ? fmt::format("{}:{}", key, effect)
                       : fmt::format("{}={}:{}", key, value, effect);
}

bool Toleration::Tolerates(const Taint& taint) const {
  if (!effect.empty() && effect != taint.effect) return false;
  if (op == "Exists") return key.empty() || key == taint.key;
  return key == taint.key && value == taint.value;
}

const Taint* FirstUntolerated(const std::vector<Taint>& taints,
                              const std::vector<Toleration>& tolerations) {
  for (const Taint& taint : taints) {
    if (taint.effect == "PreferNoSchedule") continue;
    if (std::ranges::none_of(tolerations, [&](const Toleration& toleration) {
          return toleration.Tolerates(taint);
        })) {
      return &taint;
    }
  }
  return nullptr;
}

const std::vector<Toleration>& DaemonSetTolerations() {
  static const std::vector<Toleration> kTolerations = {
      {"node.kubernetes.io/not-ready", "Exists", "", ""},
      {"node.kubernetes.io/unreachable", "Exists", "", ""},
      {"node.kubernetes.io/disk-pressure", "Exists", "", ""},
      {"node.kubernetes.io/memory-pressure", "Exists", "", ""},
      {"node.kubernetes.io/pid-pressure", "Exists", "", ""},
      {"node.kubernetes.io/unschedulable", "Exists", "", ""},
      {"node.kubernetes.io/network-unavailable", "Exists", "", ""},
  };
  return kTolerations;
}

const Condition* Policy::Find(std::string_view type) const {
  return FindCondition(conditions, type);
}
const Condition* DriverObject::Find(std::string_view type) const {
  return FindCondition(conditions, type);
}

Time ReadTime(const Json& object, std::initializer_list<std::string_view> path) {
  const std::string text = FindString(object, path);
  if (text.empty()) return std::nullopt;
  const auto time = base::ParseRfc3339(text);
  return time ? Time(*time) : std::nullopt;
}

Key ReadKey(const Json& object) {
  return {FindString(object, {"metadata", "namespace"}), FindString(object, {"metadata", "name"})};
}

Node ReadNode(const Json& object) {
  Node node;
  node.name = FindString(object, {"metadata", "name"});
  node.labels = ReadLabels(Find(object, {"metadata", "labels"}));
  node.annotations = ReadLabels(Find(object, {"metadata", "annotations"}), api::kResourcePrefix);
  node.created = ReadTime(object, {"metadata", "creationTimestamp"});
  node.unschedulable = FindBool(object, {"spec", "unschedulable"});
  for (const Json& taint : ItemsAt(object, {"spec", "taints"})) {
    node.taints.push_back(
        {FindString(taint, {"key"}), FindString(taint, {"value"}), FindString(taint, {"effect"})});
  }
  for (const Json& condition : ItemsAt(object, {"status", "conditions"})) {
    if (FindString(condition, {"type"}) != "Ready") continue;
    node.ready = FindString(condition, {"status"});
    node.ready_reason = FindString(condition, {"reason"});
    node.ready_message = FindString(condition, {"message"});
    node.ready_since = ReadTime(condition, {"lastTransitionTime"});
  }
  node.runtime = FindString(object, {"status", "nodeInfo", "containerRuntimeVersion"});
  node.kernel = FindString(object, {"status", "nodeInfo", "kernelVersion"});
  node.os_image = FindString(object, {"status", "nodeInfo", "osImage"});
  node.kubelet = FindString(object, {"status", "nodeInfo", "kubeletVersion"});
  ForEachResource(Find(object, {"status", "capacity"}),
                  [&](const auto& name, auto amount) { node.capacity[name] = amount; });
  ForEachResource(Find(object, {"status", "allocatable"}),
                  [&](const auto& name, auto amount) { node.allocatable[name] = amount; });
  return node;
}

Pod ReadPod(const Json& object) {
  Pod pod;
  pod.key = ReadKey(object);
  pod.created = ReadTime(object, {"metadata", "creationTimestamp"});
  pod.deleting = Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  for (const char* label : {"app", "name", "app.kubernetes.io/name"}) {
    if (pod.app.empty()) pod.app = FindString(object, {"metadata", "labels", label});
  }
  pod.role = FindString(object, {"metadata", "labels", "role"});
  pod.revision = FindString(object, {"metadata", "labels", "controller-revision-hash"});
  pod.template_generation =
      base::ParseInteger(FindString(object, {"metadata", "labels", "pod-template-generation"}))
          .value_or(0);
  ReadController(object, pod.owner_kind, pod.owner);
  pod.phase = FindString(object, {"status", "phase"});
  pod.reason = FindString(object, {"status", "reason"});
  pod.message = FindString(object, {"status", "message"});
  for (const Json& condition : ItemsAt(object, {"status", "conditions"})) {
    const std::string type = FindString(condition, {"type"});
    const bool is_true = FindString(condition, {"status"}) == "True";
    if (type == "Ready") {
      pod.ready = is_true;
      pod.ready_changed = ReadTime(condition, {"lastTransitionTime"});
    } else if (type == "PodScheduled" && !is_true) {
      pod.unschedulable = FindString(condition, {"message"});
      pod.unschedulable_reason = FindString(condition, {"reason"});
    }
  }
  const Json* spec = Find(object, {"spec"});
  if (spec == nullptr) return pod;
  pod.node = FindString(*spec, {"nodeName"});
  pod.runtime_class = FindString(*spec, {"runtimeClassName"});
  ReadRequests(*spec, pod);
  if (pod.ready) return pod;
  pod.node_selector = ReadLabels(Find(*spec, {"nodeSelector"}));
  pod.tolerations = ReadTolerations(*spec);
  ReadContainers(object, *spec, pod);
  return pod;
}

DaemonSet ReadDaemonSet(const Json& object) {
  DaemonSet daemonset;
  daemonset.key = ReadKey(object);
  daemonset.state = FindString(object, {"metadata", "labels", api::kStateLabel});
  daemonset.template_generation =
      base::ParseInteger(FindString(object, {"metadata", "annotations",
                                             "deprecated.daemonset.template.generation"}))
          .value_or(0);
  daemonset.on_delete = FindString(object, {"spec", "updateStrategy", "type"}) == "OnDelete";
  daemonset.generation = IntegerAt(object, {"metadata", "generation"});
  daemonset.observed_generation = IntegerAt(object, {"status", "observedGeneration"});
  daemonset.desired = IntegerAt(object, {"status", "desiredNumberScheduled"});
  daemonset.ready = IntegerAt(object, {"status", "numberReady"});
  daemonset.updated = IntegerAt(object, {"status", "updatedNumberScheduled"});
  daemonset.available = IntegerAt(object, {"status", "numberAvailable"});
  const Json* spec = Find(object, {"spec", "template", "spec"});
  if (spec == nullptr) return daemonset;
  daemonset.node_selector = ReadLabels(Find(*spec, {"nodeSelector"}));
  daemonset.tolerations = ReadTolerations(*spec);
  daemonset.runtime_class = FindString(*spec, {"runtimeClassName"});
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : ItemsAt(*spec, {list})) {
      daemonset.images[FindString(container, {"name"})] = FindString(container, {"image"});
    }
  }
  return daemonset;
}

Policy ReadPolicy(const Json& object) {
  Policy policy;
  policy.name = FindString(object, {"metadata", "name"});
  policy.created = ReadTime(object, {"metadata", "creationTimestamp"});
  policy.state = FindString(object, {"status", "state"});
  policy.conditions = ReadConditions(object);
  if (auto spec = api::ReadClusterPolicy(object)) {
    policy.spec = *std::move(spec);
  } else {
    policy.spec.problems.push_back({"", spec.error().message});
  }
  return policy;
}

DriverObject ReadDriver(const Json& object) {
  DriverObject driver{.name = FindString(object, {"metadata", "name"}),
                      .state = FindString(object, {"status", "state"}),
                      .conditions = ReadConditions(object),
                      .view = nullptr};
  auto view = std::make_shared<desired::DriverView>();
  if (auto read = desired::ReadDriverView(object)) {
    *view = *std::move(read);
  } else {
    view->driver.name = driver.name;
    view->driver.problems.push_back({"spec", read.error().message});
  }
  driver.view = std::move(view);
  return driver;
}

Event ReadEvent(const Json& object) {
  Event event;
  event.kind = FindString(object, {"involvedObject", "kind"});
  event.object = {FindString(object, {"involvedObject", "namespace"}),
                  FindString(object, {"involvedObject", "name"})};
  event.reason = FindString(object, {"reason"});
  event.message = FindString(object, {"message"});
  event.count = std::max<std::int64_t>(1, IntegerAt(object, {"count"}));
  event.last = ReadTime(object, {"lastTimestamp"});
  if (!event.last) event.last = ReadTime(object, {"series", "lastObservedTime"});
  if (!event.last) event.last = ReadTime(object, {"eventTime"});
  if (!event.last) event.last = ReadTime(object, {"metadata", "creationTimestamp"});
  return event;
}

RuntimeClass ReadRuntimeClass(const Json& object) {
  return {FindString(object, {"metadata", "name"}), FindString(object, {"handler"})};
}

Features ReadFeatures(const Json& object) {
  Features features;
  if (const Json* loaded =
          Find(object, {"spec", "features", "flags", "kernel.loadedmodule", "elements"});
      loaded != nullptr && loaded->is_object()) {
    features.modules.emplace();
    for (const auto& [name, value] : loaded->items()) features.modules->push_back(name);
  }
  if (const Json* devices = Find(object, {"spec", "features", "instances", "pci.device"});
      devices != nullptr) {
    int gpus = 0;
    for (const Json& device : ItemsAt(*devices, {"elements"})) {
      const std::string device_class = FindString(device, {"attributes", "class"});
      if (FindString(device, {"attributes", "vendor"}) == "10de" &&
          (device_class == "0300" || device_class == "0302")) {
        ++gpus;
      }
    }
    features.gpus = gpus;
  }
  return features;
}

std::set<std::string, std::less<>> ReadServedFields(const Json& definition) {
  std::set<std::string, std::less<>> fields;
  const Json* versions = Find(definition, {"spec", "versions"});
  if (versions == nullptr || !versions->is_array()) return fields;
  for (const Json& version : *versions) {
    const Json* spec =
        Find(version, {"schema", "openAPIV3Schema", "properties", "spec", "properties"});
    if (spec == nullptr || !spec->is_object()) continue;
    for (const auto& [name, field] : spec->items()) {
      fields.insert(name);
      const Json* members = Find(field, {"properties"});
      if (members == nullptr || !members->is_object()) continue;
      for (const auto& [member, schema] : members->items()) {
        fields.insert(fmt::format("{}.{}", name, member));
      }
    }
  }
  return fields;
}

std::vector<std::string> ReadConfigMapKeys(const Json& object) {
  std::vector<std::string> keys;
  for (const char* part : {"data", "binaryData"}) {
    const Json* data = Find(object, {part});
    if (data == nullptr || !data->is_object()) continue;
    for (const auto& [key, value] : data->items()) keys.push_back(key);
  }
  return keys;
}

}  // namespace pitcrew::fleet
