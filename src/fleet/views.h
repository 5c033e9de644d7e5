// What status and doctor keep of the objects of a cluster: a few fields of each, because a fleet of
// 10,000 nodes has 100,000 pods. Reading never fails: a field that is missing or of another kind is
// empty here.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_policy.h"
#include "base/clock.h"
#include "codec/json.h"
#include "desired/driver_objects/driver_view.h"
#include "desired/operand_table.h"

namespace pitcrew::fleet {

using desired::Operand;
using desired::Stage;
using desired::Workload;

using Labels = std::map<std::string, std::string, std::less<>>;
using Time = std::optional<base::WallClock::time_point>;

// The value of a label, or "" when there is none.
std::string_view Get(const Labels& labels, std::string_view key);
// Every pair of `wanted` is in `labels`; the first that is not is put into `missing` if not null.
bool HasAll(const Labels& labels, const Labels& wanted, std::string* missing = nullptr);

struct Key {
  std::string name_space;  // "" for kinds without namespaces
  std::string name;

  [[nodiscard]] std::string ToString() const;
  auto operator<=>(const Key&) const = default;
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;

  // "key=value:Effect".
  [[nodiscard]] std::string ToString() const;

  bool operator==(const Taint&) const = default;
};

struct Toleration {
  std::string key;  // "" with Exists: every taint
  std::string op;   // Equal (also "") or Exists
  std::string value;
  std::string effect;  // "": every effect

  [[nodiscard]] bool Tolerates(const Taint& taint) const;

  bool operator==(const Toleration&) const = default;
};

// The first taint that keeps a pod from being placed; null when there is none. Taints that only
// make the scheduler prefer other nodes do not.
const Taint* FirstUntolerated(const std::vector<Taint>& taints,
                              const std::vector<Toleration>& tolerations);
// What every pod of a DaemonSet tolerates in addition to its template.
const std::vector<Toleration>& DaemonSetTolerations();

struct Node {
  std::string name;
  Labels labels;
  Labels annotations;  // those of nvidia.com only
  std::vector<Taint> taints;
  bool unschedulable = false;
  // The condition Ready: "True", "False", "Unknown", or "" when the kubelet has not said anything.
  std::string ready;
  std::string ready_reason;
  std::string ready_message;
  Time ready_since;
  Time created;
  std::string runtime;  // "containerd://2.2.0"
  std::string kernel;
  std::string os_image;
  std::string kubelet;  // its version: "v1.34.1+k3s1"
  // Resources of nvidia.com.
  std::map<std::string, std::int64_t, std::less<>> capacity;
  std::map<std::string, std::int64_t, std::less<>> allocatable;

  [[nodiscard]] std::string_view Label(std::string_view key) const { return Get(labels, key); }
  // Node feature discovery has labelled it.
  [[nodiscard]] bool is_discovered() const;
  [[nodiscard]] bool has_gpu_pci_label() const;
  // "k3s", "RKE2", "k0s", "MicroK8s": those that bring a containerd of their own, as far as the
  // Node tells (runtimes-and-distributions.md 5.2); "" for any other.
  [[nodiscard]] std::string_view distribution() const;

  bool operator==(const Node&) const = default;
};

struct Container {
  std::string name;
  std::string image;  // that the pod asks for
  bool init = false;
  bool ready = false;
  bool started = false;
  std::int64_t restarts = 0;
  // The state now: "waiting", "running", "terminated", or "" before the kubelet has seen the pod.
  std::string state;
  std::string reason;
  std::string message;
  std::int64_t exit_code = 0;
  Time since;
  // How it ended the last time; exit code 0 and no reason when it never did.
  std::string last_reason;
  std::string last_message;
  std::int64_t last_exit_code = 0;
  Time last_finished;

  [[nodiscard]] bool ended_well() const { return state == "terminated" && exit_code == 0; }

  bool operator==(const Container&) const = default;
};

struct Request {
  std::optional<std::int64_t> requested;
  std::optional<std::int64_t> limit;

  [[nodiscard]] std::int64_t amount() const { return limit.value_or(requested.value_or(0)); }

  bool operator==(const Request&) const = default;
};

struct Pod {
  Key key;
  std::string node;
  std::string app;   // label app, or name, or app.kubernetes.io/name
  std::string role;  // label role, of node feature discovery
  // Which version of its DaemonSet's template the pod was made from: the hash of the revision and
  // the number that the controller gave it; "" and 0 for other pods.
  std::string revision;
  std::int64_t template_generation = 0;
  std::string owner;  // name of the controller
  std::string owner_kind;
  std::string phase;
  std::string reason;  // status.reason, of failed pods
  std::string message;
  bool ready = false;
  bool deleting = false;
  Time created;
  Time ready_changed;
  // Empty for pods that are ready: nobody asks.
  std::vector<Container> containers;
  std::string unschedulable;  // message of PodScheduled=False
  std::string unschedulable_reason;
  Labels node_selector;
  std::vector<Toleration> tolerations;
  std::string runtime_class;
  // What the pod is a part of; null for others. Filled in by Cluster::Index.
  const Operand* operand = nullptr;
  // Resources of nvidia.com, as the scheduler counts them for the whole pod.
  std::map<std::string, Request, std::less<>> requests;

  // When it became not ready; its creation when it never was anything else.
  [[nodiscard]] Time not_ready_since() const { return ready_changed ? ready_changed : created; }

  bool operator==(const Pod&) const = default;
};

struct DaemonSet {
  Key key;
  std::string state;  // label nvidia.com/gpu-operator.state
  std::int64_t generation = 0;
  std::int64_t observed_generation = 0;
  // Number of the template that new pods are made from; 0 when it is not told.
  std::int64_t template_generation = 0;
  bool on_delete = false;  // pods are replaced only when somebody deletes them
  std::int64_t desired = 0;
  std::int64_t ready = 0;
  std::int64_t updated = 0;
  std::int64_t available = 0;
  Labels node_selector;
  std::vector<Toleration> tolerations;
  std::string runtime_class;
  std::map<std::string, std::string, std::less<>> images;  // by container

  bool operator==(const DaemonSet&) const = default;
};

struct Condition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;
  Time since;
};

struct Policy {
  std::string name;
  std::string state;  // ready, notReady, ignored, or "" when the operator has not written one
  Time created;
  std::vector<Condition> conditions;
  api::ClusterPolicy spec;

  [[nodiscard]] const Condition* Find(std::string_view type) const;
};

// A NVIDIADriver.
struct DriverObject {
  std::string name;
  std::string state;  // ready, notReady, disabled, or "" when the operator has not written one
  std::vector<Condition> conditions;
  std::shared_ptr<const desired::DriverView> view;

  [[nodiscard]] const Condition* Find(std::string_view type) const;
};

struct Event {
  std::string kind;  // of the object that it is about
  Key object;
  std::string reason;
  std::string message;
  std::int64_t count = 1;
  Time last;

  bool operator==(const Event&) const = default;
};

struct RuntimeClass {
  std::string name;
  std::string handler;
};

// What NFD's worker told of a node: a NodeFeature object.
struct Features {
  // Loaded kernel modules; none when the worker does not publish them.
  std::optional<std::vector<std::string>> modules;
  // NVIDIA devices on the PCI bus that are GPUs (class 0300 or 0302).
  std::optional<int> gpus;
};

// What the node is used for; `policy` null: there is none.
Workload WorkloadOf(const Node& node, const api::ClusterPolicy* policy);

Node ReadNode(const codec::Json& object);
Pod ReadPod(const codec::Json& object);
DaemonSet ReadDaemonSet(const codec::Json& object);
Policy ReadPolicy(const codec::Json& object);
DriverObject ReadDriver(const codec::Json& object);
Event ReadEvent(const codec::Json& object);
RuntimeClass ReadRuntimeClass(const codec::Json& object);
Features ReadFeatures(const codec::Json& object);
// Fields of the spec in a CustomResourceDefinition, two names deep: "cdi", "cdi.enabled".
std::set<std::string, std::less<>> ReadServedFields(const codec::Json& definition);
std::vector<std::string> ReadConfigMapKeys(const codec::Json& object);
Key ReadKey(const codec::Json& object);
Time ReadTime(const codec::Json& object, std::initializer_list<std::string_view> path);

}  // namespace pitcrew::fleet
