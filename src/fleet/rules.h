// The findings as tables: each entry is an id, what to look for, and the fix. The first entry that
// sees something on a node is the node's first broken link, so order matters: along the chain, and
// within a link the particular before the general.
//
// To add a finding: one entry, its line in docs/troubleshooting.md, one golden case in
// src/doctor/tests/data.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/cluster.h"
#include "fleet/finding.h"

namespace pitcrew::fleet {

// What a look would like to know in addition: logs and node features are read only where they help.
struct Wanted {
  std::set<LogKey> logs;
  std::set<std::string> features;  // names of nodes
};

// What a look has seen.
struct Seen {
  std::string summary;
  std::vector<Evidence> evidence;
  // Replace "{word}" in the fix.
  std::map<std::string, std::string, std::less<>> words;
  Time since;
  std::string fix = {};  // instead of the rule's
};
using Look = std::optional<Seen>;

class NodeContext {
 public:
  NodeContext(const Cluster& seen_cluster, const Node& seen_node, Wanted* wanted);

  const Cluster& cluster;
  const Node& node;
  const api::ClusterPolicy* policy;  // null when there is no active one, or none was read
  Workload workload;

  // The operand runs here when the policy enables it and the node's workload has it.
  [[nodiscard]] bool Wants(const Operand& operand) const;
  // An operand by its name in tables, which must exist.
  [[nodiscard]] const Operand& Named(std::string_view name) const;
  // The newest pod of the operand on this node; null when there is none.
  [[nodiscard]] const Pod* PodOf(const Operand& operand) const;
  // The pod of node feature discovery on this node; null when there is none.
  [[nodiscard]] const Pod* DiscoveryWorker() const;
  // The driver comes from the host: driver.enabled is false, or the driver manager has found one.
  [[nodiscard]] bool has_host_driver() const;
  // Text of a log; "" when it was not read (it is then asked for).
  [[nodiscard]] std::string_view Log(const LogKey& key) const;
  // Null when they were not read (they are then asked for).
  [[nodiscard]] const Features* features() const;

 private:
  Wanted* wanted_;
};

struct NodeRule {
  std::string_view id;
  Stage stage;
  Look (*look)(const NodeContext& context);
  std::string_view fix;
};
std::span<const NodeRule> NodeRules();
std::span<const NodeRule> OfferRules();  // the part of them that is about what the node offers

// An operand that should run on a node, and is not ready there.
struct OperandContext {
  const NodeContext& on;
  const Operand& operand;
  // The DaemonSet that should have made the pod: the pod's own, else the one that selects the node,
  // else any of the operand; null when there is none.
  const DaemonSet* daemonset;
  const Pod* pod;              // null when there is none
  const Container* container;  // the first that holds the pod up; null when none is known

  // "Pod gpu-operator/x, container y" or the DaemonSet.
  [[nodiscard]] Evidence Saw(std::string text, Time at = std::nullopt) const;
  // What the container has said: its messages, and its logs where they were read.
  [[nodiscard]] std::string Words() const;
  // The first line of Words(), in its own case, that contains one of `parts` (given in lower case).
  [[nodiscard]] std::string LineWith(std::span<const std::string_view> parts) const;
  // The last line of the container's log; "" when it was not read.
  [[nodiscard]] std::string LastLine() const;
};

struct OperandRule {
  std::string_view id;
  std::string_view part;  // name of an operand or of a link of the chain; "": every operand
  // Null: what the container says contains one of `said`, or the operand tells `reason` by an Event
  // on the node or in its log; `summary` is what that means.
  Look (*look)(const OperandContext& context);
  std::string_view fix;
  std::span<const std::string_view> said = {};  // in lower case
  std::string_view summary = {};
  std::string_view reason = {};
};
std::span<const OperandRule> OperandRules();

// The container waits because its image cannot be pulled.
bool PullFails(const Container& container);
// What the kubelet said when it tried; its state itself often only says that it waits.
std::string PullMessage(const Cluster& cluster, const Pod& pod, const Container& container);
// The pull secrets that the pod names and the kubelet could not get, as its Event has them: "a, b";
// "" when there is no such Event. Secrets themselves are never read.
std::string MissingPullSecrets(const Cluster& cluster, const Pod& pod);
enum class PullTrouble { kNotFound, kDenied, kOther };
// Tells of them, if there are any; the fix is then to make them, unless the trouble is another.
void AddMissingPullSecrets(const Cluster& cluster, const Pod& pod, PullTrouble trouble, Seen& seen);
PullTrouble PullTroubleOf(const Container& container, std::string_view message);

// A pod of a user that asks for GPUs and does not run.
struct PodContext {
  const Cluster& cluster;
  const Pod& pod;
  std::string resource;  // the one that it asks for; of several the first by name
  std::int64_t amount = 0;
};
struct PodRule {
  std::string_view id;
  Look (*look)(const PodContext& context);
  std::string_view fix;
};
std::span<const PodRule> PodRules();

// A virtual machine that asks for GPUs, and for which KubeVirt has made no pod that runs.
struct MachineRule {
  std::string_view id;
  Look (*look)(const Cluster& cluster, const Machine& machine);
  std::string_view fix;
};
std::span<const MachineRule> MachineRules();

// What concerns the cluster as a whole. A look may see the same thing several times.
struct ClusterRule {
  std::string_view id;
  std::vector<Seen> (*look)(const Cluster& cluster);
  std::string_view fix;
};
std::span<const ClusterRule> ClusterRules();
// The last of them: told only where nothing else tells why the cluster is not ready.
inline constexpr std::string_view kPolicyNotReady = "policy-not-ready";

// The first rule that sees something; none when the node is ready as far as is known.
std::optional<Finding> FirstBroken(const NodeContext& context);
// Why this operand is not ready on the node; none when it is, or does not belong there.
std::optional<Finding> WhyNotReady(const NodeContext& context, const Operand& operand);
std::optional<Finding> WhyNotRunning(const Cluster& cluster, const Pod& pod);
// None also where its pod tells why.
std::optional<Finding> WhyNotStarted(const Cluster& cluster, const Machine& machine);
std::vector<Finding> ClusterFindings(const Cluster& cluster);

// Every id, in the order of the tables; for the documentation's test.
std::vector<std::string_view> FindingIds();

// Texts that several rules share.
Evidence SawLabel(const Node& node, std::string_view key);
Evidence SawEvent(const Event& event);
// The first line, cut to a length that a screen holds.
std::string FirstLine(std::string_view text);
// A line of a log; of one that is a JSON object, its message and its reason.
std::string ReadableLine(std::string_view line);
std::string LastLineOf(std::string_view log);
bool Contains(std::string_view text, std::string_view part);
bool ContainsAny(std::string_view text, std::span<const std::string_view> parts);

}  // namespace pitcrew::fleet
