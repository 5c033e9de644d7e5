#include "doctor/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "api/labels.h"
#include "desired/cluster_kinds.h"
#include "kube/request.h"
#include "kubevirt/kinds.h"
#include "node/node_feature/node_feature.h"
#include "snapshot/file.h"
#include "snapshot/snapshot.h"

namespace pitcrew::doctor {
namespace {

using codec::Json;
using fleet::Cluster;
using fleet::Kind;

// More would take minutes, and nobody reads them.
constexpr std::size_t kMostLogs = 60;
constexpr int kLogLines = 60;
constexpr std::size_t kMostFailingPods = 200;
constexpr int kPageSize = 500;

void TakeNewest(fleet::Time time, Cluster& cluster) {
  if (time && *time > cluster.now) cluster.now = *time;
}

// Every time that an object of a file names counts for "now".
void TakeTimes(const Json& value, Cluster& cluster) {
  if (value.is_structured()) {
    for (const Json& member : value) TakeTimes(member, cluster);
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() < 20 || text.size() > 35 || text[4] != '-' || text[10] != 'T') return;
    if (const auto time = base::ParseRfc3339(text)) TakeNewest(*time, cluster);
  }
}

void TakeLog(const Json& object, Cluster& cluster) {
  const Json* previous = codec::Find(object, {"previous"});
  cluster.logs[{fleet::ReadKey(object), codec::FindString(object, {"container"}),
                previous != nullptr && *previous == true}] = codec::FindString(object, {"text"});
}

// Calls `take` for every object of a list, page by page; or for the first one only.
template <class TakeOne>
base::Status ForEach(kube::Client& client, const kube::ResourceKind& kind,
                     const std::string& name_space, const std::string& fields, Extent extent,
                     const io::StopToken& stop, TakeOne take) {
  const bool whole = extent == Extent::kWhole;
  const kube::ListOptions options{
      .label_selector = "", .field_selector = fields, .page_size = whole ? kPageSize : 1};
  std::string token;
  do {
    TRY_ASSIGN(const std::string body,
               client.Send(kube::ListRequest(kind, name_space, options, token), stop));
    TRY_ASSIGN(const Json page, codec::ParseJson(body, kind.plural));
    if (const Json* items = codec::Find(page, {"items"}); items != nullptr && items->is_array()) {
      for (const Json& item : *items) take(item);
    }
    token = codec::FindString(page, {"metadata", "continue"});
  } while (whole && !token.empty());
  return {};
}

// Reads one kind after the other; what fails is noted, and only silence of the server ends it.
class Reading {
 public:
  Reading(kube::Client& client, Cluster& cluster, const io::StopToken& stop)
      : client_(client), cluster_(cluster), stop_(stop) {}

  template <class TakeOne>
  base::Status Read(Kind kind, const kube::ResourceKind& resource, const std::string& name_space,
                    const std::string& fields, Extent extent, TakeOne take) {
    return Note(kind, ForEach(client_, resource, name_space, fields, extent, stop_, take));
  }

  base::Status Note(Kind kind, base::Status status) {
    if (status) return {};
    const base::Error& error = status.error();
    // A kind that is not installed has no objects.
    if (error.reason == "ResourceNotServed" || error.code == base::Code::kNotFound) return {};
    if (error.code == base::Code::kDenied || error.code == base::Code::kUnsupported ||
        error.code == base::Code::kInvalid) {
      cluster_.unread.emplace(kind, error);
      return {};
    }
    return base::Fail(error.Within("read " + fleet::ToString(kind, cluster_.name_space)));
  }

 private:
  kube::Client& client_;
  Cluster& cluster_;
  const io::StopToken& stop_;
};

base::Status ReadDefinition(kube::Client& client, Reading& reading, Cluster& cluster,
                            const io::StopToken& stop) {
  const auto definition =
      client.Get(kube::kCustomResourceDefinitions,
                 {.namespace_name = "", .name = std::string(kPolicyDefinition)}, stop);
  if (definition) {
    cluster.served_fields = fleet::ReadServedFields(*definition);
    return {};
  }
  if (definition.error().code == base::Code::kNotFound) cluster.definition_absent = true;
  return reading.Note(Kind::kDefinitions, base::Fail(definition.error()));
}

// Only the ConfigMap that the policy names: others are of no use, and may be large.
base::Status ReadPluginConfig(kube::Client& client, Reading& reading, Cluster& cluster,
                              const io::StopToken& stop) {
  cluster.Index();
  if (cluster.active_policy() == nullptr) return {};
  const std::string& name = cluster.active_policy()->spec.device_plugin.config_name;
  if (name.empty()) return {};
  const auto map =
      client.Get(kube::kConfigMaps, {.namespace_name = cluster.name_space, .name = name}, stop);
  if (!map) return reading.Note(Kind::kConfigMaps, base::Fail(map.error()));
  cluster.config_maps[name] = fleet::ReadConfigMapKeys(*map);
  return {};
}

// Only where drivers are theirs: elsewhere nobody needs rights to read them.
base::Status ReadDrivers(Reading& reading, Cluster& cluster) {
  cluster.Index();
  if (!cluster.uses_driver_objects()) return {};
  return reading.Read(Kind::kDrivers, desired::kNvidiaDrivers, "", "", Extent::kWhole,
                      [&](const Json& object) {
                        auto driver = fleet::ReadDriver(object);
                        cluster.drivers.insert_or_assign(driver.name, std::move(driver));
                      });
}

base::Status ReadPods(Reading& reading, Extent extent, Cluster& cluster) {
  const auto take_pod = [&](const Json& object) {
    auto pod = fleet::ReadPod(object);
    cluster.pods.insert_or_assign(pod.key, std::move(pod));
  };
  TRY(reading.Read(Kind::kOperandPods, kube::kPods, cluster.name_space, "", extent, take_pod));
  const auto take_user = [&](const Json& object) {
    auto pod = fleet::ReadPod(object);
    if (!pod.requests.empty()) cluster.pods.insert_or_assign(pod.key, std::move(pod));
  };
  for (const char* phase : {"Pending", "Failed"}) {
    TRY(reading.Read(Kind::kUserPods, kube::kPods, "", WaitingPods(phase, cluster.name_space),
                     extent, take_user));
  }
  return {};
}

// Pods whose containers fail are running to the API server, which knows no selector for them.
// Reading all running pods of a fleet would take minutes; the kubelet's warnings name those that
// fail.
base::Status ReadFailingPods(kube::Client& client, Reading& reading, Cluster& cluster,
                             const io::StopToken& stop) {
  cluster.Index();
  for (const fleet::Key& key : FailingPods(cluster)) {
    const auto object = client.Get(kube::kPods, {key.name_space, key.name}, stop);
    if (!object) {
      TRY(reading.Note(Kind::kUserPods, base::Fail(object.error())));
      continue;
    }
    auto pod = fleet::ReadPod(*object);
    if (!pod.requests.empty()) cluster.pods.insert_or_assign(key, std::move(pod));
  }
  return {};
}

// Only where nodes are for virtual machines: elsewhere nobody needs rights to read them.
base::Status ReadMachines(kube::Client& client, Reading& reading, Cluster& cluster,
                          const io::StopToken& stop) {
  cluster.Index();
  if (cluster.active_policy() == nullptr || !cluster.active_policy()->spec.sandbox.enabled) {
    return {};
  }
  std::vector<const kube::ResourceKind*> kinds{&kubevirt::kKubeVirts, &kubevirt::kInstances,
                                               &kubevirt::kVirtualMachines};
  const auto definition = client.Get(
      kube::kCustomResourceDefinitions,
      {.namespace_name = "", .name = std::string(kubevirt::kHyperConvergedDefinition)}, stop);
  if (!definition) TRY(reading.Note(Kind::kMachines, base::Fail(definition.error())));
  if (const auto form = definition ? kubevirt::FormOfDefinition(*definition) : std::nullopt) {
    kinds.push_back(&kubevirt::KindOf(*form));
  }
  for (const kube::ResourceKind* kind : kinds) {
    TRY(reading.Read(Kind::kMachines, *kind, "", "", Extent::kWhole, [&](Json object) {
      object["apiVersion"] = kind->api_version();
      object["kind"] = kind->kind;
      Take(object, cluster);
    }));
  }
  return {};
}

}  // namespace

std::vector<fleet::Key> FailingPods(const Cluster& cluster) {
  std::map<fleet::Key, fleet::Time> last;
  for (const fleet::Event& event : cluster.events) {
    const bool fails = event.reason == "BackOff" || event.reason == "Failed";
    if (!fails || event.kind != "Pod" || event.object.name_space == cluster.name_space ||
        cluster.pods.contains(event.object)) {
      continue;
    }
    fleet::Time& time = last[event.object];
    time = std::max(time, event.last);
  }
  std::vector<std::pair<fleet::Time, fleet::Key>> newest;
  for (const auto& [key, time] : last) newest.emplace_back(time, key);
  std::ranges::sort(newest, std::ranges::greater());
  if (newest.size() > kMostFailingPods) newest.resize(kMostFailingPods);
  std::vector<fleet::Key> keys;
  for (auto& [time, key] : newest) keys.push_back(std::move(key));
  return keys;
}

std::string WaitingPods(std::string_view phase, std::string_view name_space) {
  return fmt::format("status.phase={},metadata.namespace!={}", phase, name_space);
}

void PutMachine(const fleet::Machine& machine, Cluster& cluster) {
  if (!machine.waits || machine.resources.empty()) return;
  if (machine.kind == kubevirt::kInstances.kind) {
    cluster.machines.insert_or_assign(machine.key, machine);
  } else {
    cluster.machines.try_emplace(machine.key, machine);
  }
}

void Take(const Json& object, Cluster& cluster) {
  const std::string kind = codec::FindString(object, {"kind"});
  const fleet::Key key = fleet::ReadKey(object);
  const bool here = key.name_space == cluster.name_space;
  if (kind == "Node") {
    cluster.nodes.insert_or_assign(key.name, fleet::ReadNode(object));
  } else if (kind == "Pod") {
    cluster.pods.insert_or_assign(key, fleet::ReadPod(object));
  } else if (kind == "DaemonSet" && here) {
    cluster.daemonsets.insert_or_assign(key.name, fleet::ReadDaemonSet(object));
  } else if (kind == "ClusterPolicy") {
    cluster.policies.push_back(fleet::ReadPolicy(object));
  } else if (kind == desired::kNvidiaDrivers.kind) {
    cluster.drivers.insert_or_assign(key.name, fleet::ReadDriver(object));
  } else if (kind == "Event") {
    if (codec::FindString(object, {"type"}) != "Normal") {
      cluster.events.push_back(fleet::ReadEvent(object));
    }
  } else if (kind == "RuntimeClass") {
    cluster.runtime_classes.push_back(fleet::ReadRuntimeClass(object));
  } else if (kind == "ConfigMap" && here) {
    cluster.config_maps.insert_or_assign(key.name, fleet::ReadConfigMapKeys(object));
  } else if (kind == "NodeFeature") {
    cluster.features.insert_or_assign(key.name, fleet::ReadFeatures(object));
  } else if (kind == "CustomResourceDefinition" && key.name == kPolicyDefinition) {
    cluster.served_fields = fleet::ReadServedFields(object);
  } else if (kind == kubevirt::kVirtualMachines.kind || kind == kubevirt::kInstances.kind) {
    PutMachine(fleet::ReadMachine(object), cluster);
  } else if (auto permission = fleet::ReadPermission(object)) {
    cluster.permissions.push_back(*std::move(permission));
  } else if (kind == "PodLog") {
    TakeLog(object, cluster);
  }
}

namespace {

// Nodes and pods are many, and what is kept of them depends on nothing else: they are taken as they
// come. The rest waits until the operator's namespace is known.
class Gathering {
 public:
  explicit Gathering(const std::string& origin) : rest_(origin, /*complete=*/true) {}

  base::Status Add(Json object) {
    TRY(snapshot::CheckIdentity(object));
    const snapshot::KindName kind = snapshot::KindNameOf(object);
    const bool node = kind == snapshot::KindNameOf(kube::kNodes);
    if (!node && kind != snapshot::KindNameOf(kube::kPods)) return rest_.Add(std::move(object));
    const fleet::Key key = fleet::ReadKey(object);
    if (node ? cluster_.nodes.contains(key.name) : cluster_.pods.contains(key)) {
      return base::Fail(snapshot::StandsTwice(object));
    }
    if (!node && codec::FindString(object, {"metadata", "labels", "app"}) == "gpu-operator") {
      operators_.insert(key);
    }
    TakeWithTimes(object);
    return {};
  }

  Cluster Finish(std::string name_space) {
    if (name_space.empty() && !operators_.empty()) name_space = operators_.begin()->name_space;
    if (!name_space.empty()) cluster_.name_space = std::move(name_space);
    for (const auto& [kind, objects] : rest_.kinds()) {
      for (const auto& [key, object] : objects) TakeWithTimes(object);
    }
    // A file that has definitions, and not this one.
    const auto& definitions = rest_.All(kube::kCustomResourceDefinitions);
    cluster_.definition_absent = !definitions.empty() && !cluster_.served_fields;
    cluster_.Index();
    return std::move(cluster_);
  }

 private:
  void TakeWithTimes(const Json& object) {
    Take(object, cluster_);
    TakeTimes(object, cluster_);
  }

  Cluster cluster_;
  std::set<fleet::Key> operators_;  // the operator's own pods
  snapshot::Snapshot rest_;
};

}  // namespace

base::Result<Cluster> FromFile(const std::string& path, std::string name_space) {
  Gathering gathering(snapshot::NameOfInput(path));
  TRY(snapshot::VisitFile(path, [&](Json object) { return gathering.Add(std::move(object)); }));
  return gathering.Finish(std::move(name_space));
}

std::string FindNamespace(kube::Client& client, const std::string& asked,
                          const io::StopToken& stop) {
  if (!asked.empty()) return asked;
  const auto policies = client.List(desired::kClusterPolicies, "", {}, stop);
  if (policies) {
    for (const Json& policy : policies->items) {
      const std::string found = codec::FindString(policy, {"status", "namespace"});
      if (!found.empty()) return found;
    }
  }
  return "gpu-operator";
}

base::Result<Cluster> ReadLive(kube::Client& client, const std::string& name_space,
                               const io::StopToken& stop, Extent extent) {
  Cluster cluster;
  cluster.name_space = name_space;
  cluster.now = base::WallClock::now();
  Reading reading(client, cluster, stop);
  TRY(ReadDefinition(client, reading, cluster, stop));
  TRY(reading.Read(
      Kind::kPolicies, desired::kClusterPolicies, "", "", Extent::kWhole,
      [&](const Json& object) { cluster.policies.push_back(fleet::ReadPolicy(object)); }));
  TRY(ReadDrivers(reading, cluster));
  TRY(reading.Read(Kind::kNodes, kube::kNodes, "", "", extent, [&](const Json& object) {
    auto node = fleet::ReadNode(object);
    cluster.nodes.insert_or_assign(node.name, std::move(node));
  }));
  TRY(reading.Read(Kind::kDaemonSets, kube::kDaemonSets, name_space, "", extent,
                   [&](const Json& object) {
                     auto daemonset = fleet::ReadDaemonSet(object);
                     cluster.daemonsets.insert_or_assign(daemonset.key.name, std::move(daemonset));
                   }));
  TRY(ReadPods(reading, extent, cluster));
  const auto take_event = [&](const Json& object) {
    cluster.events.push_back(fleet::ReadEvent(object));
  };
  TRY(reading.Read(Kind::kEvents, kube::kEvents, "", "type=Warning", extent, take_event));
  if (!cluster.has_read(Kind::kEvents)) {
    // Events of the operands' namespace matter most, and reading these alone may be allowed.
    TRY(reading.Note(Kind::kEvents, ForEach(client, kube::kEvents, name_space, "type=Warning",
                                            extent, stop, take_event)));
  }
  if (extent == Extent::kWhole) TRY(ReadFailingPods(client, reading, cluster, stop));
  TRY(reading.Read(Kind::kRuntimeClasses, kube::kRuntimeClasses, "", "", Extent::kWhole,
                   [&](const Json& object) {
                     cluster.runtime_classes.push_back(fleet::ReadRuntimeClass(object));
                   }));
  TRY(ReadPluginConfig(client, reading, cluster, stop));
  if (extent == Extent::kWhole) TRY(ReadMachines(client, reading, cluster, stop));
  cluster.Index();
  return cluster;
}

base::Status ReadPodsAsked(kube::Client& client, const fleet::Question& question, Cluster& cluster,
                           const io::StopToken& stop) {
  for (const fleet::Key& key : question.pods) {
    if (cluster.pods.contains(key)) continue;
    const auto object = client.Get(kube::kPods, {key.name_space, key.name}, stop);
    if (object) {
      cluster.pods.insert_or_assign(key, fleet::ReadPod(*object));
    } else if (object.error().code != base::Code::kNotFound) {
      return base::Fail(object.error().Within("read pod " + key.ToString()));
    }
  }
  cluster.Index();
  return {};
}

base::Status ReadWanted(kube::Client& client, const fleet::Wanted& wanted, Cluster& cluster,
                        const io::StopToken& stop) {
  std::size_t left = kMostLogs;
  for (const fleet::LogKey& key : wanted.logs) {
    if (cluster.logs.contains(key) || left == 0) continue;
    --left;
    const auto text = client.GetRaw(
        fmt::format("/api/v1/namespaces/{}/pods/{}/log?container={}&tailLines={}{}",
                    key.pod.name_space, key.pod.name, kube::PercentEncode(key.container), kLogLines,
                    key.previous ? "&previous=true" : ""),
        stop);
    if (text) {
      // The kubelet says so in the log's place when the log is gone.
      cluster.logs[key] = text->starts_with("unable to retrieve container logs") ? "" : *text;
    } else {
      // A container that has not run has no log.
      cluster.logs[key] = "";
      if (text.error().code == base::Code::kDenied) {
        cluster.unread.emplace(Kind::kLogs, text.error());
      }
      if (text.error().code == base::Code::kCancelled) return base::Fail(text.error());
    }
  }
  left = kMostLogs;
  for (const std::string& node : wanted.features) {
    if (cluster.features.contains(node) || left == 0) continue;
    --left;
    const auto features =
        client.Get(node::node_feature::kNodeFeatures, {cluster.name_space, node}, stop);
    if (features) {
      cluster.features[node] = fleet::ReadFeatures(*features);
    } else {
      cluster.features[node] = {};
      if (features.error().code == base::Code::kDenied) {
        cluster.unread.emplace(Kind::kFeatures, features.error());
      }
    }
  }
  return {};
}

}  // namespace pitcrew::doctor
