#include "fleet/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/labels.h"
#include "base/strings.h"
#include "fleet/fields.h"

namespace pitcrew::fleet {
namespace {

// Of longer lines the beginning and, as the innermost cause stands last, more of the end is told.
constexpr std::size_t kLongestLine = 400;
constexpr std::size_t kBeginning = 130;
constexpr std::size_t kEnding = 260;

std::string Fill(std::string_view fix,
                 const std::map<std::string, std::string, std::less<>>& words) {
  std::string text(fix);
  // A fix that depends on what was seen has words of its own.
  if (const auto advice = words.find("advice"); advice != words.end()) {
    text = base::ReplaceAll(text, "{advice}", advice->second);
  }
  for (const auto& [word, value] : words) text = base::ReplaceAll(text, "{" + word + "}", value);
  return text;
}

Finding MakeFinding(std::string_view id, Stage stage, std::string object, Seen seen,
                    std::string_view fix) {
  return {.id = std::string(id),
          .stage = stage,
          .object = std::move(object),
          .summary = std::move(seen.summary),
          .evidence = std::move(seen.evidence),
          .fix = Fill(seen.fix.empty() ? fix : seen.fix, seen.words),
          .since = seen.since};
}

std::string PolicyName(const Cluster& cluster) {
  return cluster.active_policy() == nullptr ? "cluster-policy" : cluster.active_policy()->name;
}

// The name of the pod on the node, or what to put in its place.
std::string NameOf(const Pod* pod) { return pod == nullptr ? "POD" : pod->key.name; }

void AddWords(const NodeContext& context, Seen& seen) {
  const Node& node = context.node;
  seen.words.emplace("node", node.name);
  seen.words.emplace("kernel", node.kernel);
  seen.words.emplace("os", fmt::format("{}{}", node.Label(api::kOsReleaseId),
                                       node.Label(api::kOsReleaseVersionId)));
  seen.words.emplace("driver-pod", NameOf(context.PodOf(context.Named("driver"))));
  seen.words.emplace("toolkit-pod", NameOf(context.PodOf(context.Named("container toolkit"))));
  seen.words.emplace("plugin-pod", NameOf(context.PodOf(context.Named("device plugin"))));
  seen.words.emplace("mig-pod", NameOf(context.PodOf(context.Named("MIG manager"))));
  seen.words.emplace("vgpu-pod", NameOf(context.PodOf(context.Named("vGPU device manager"))));
  seen.words.emplace("worker-pod", NameOf(context.DiscoveryWorker()));
  seen.words.emplace("namespace", context.cluster.name_space);
  seen.words.emplace("policy", PolicyName(context.cluster));
}

void AddWords(const OperandContext& context, Seen& seen) {
  AddWords(context.on, seen);
  seen.words.emplace("operand", context.operand.name);
  const std::string container = context.container == nullptr ? "" : context.container->name;
  seen.words.emplace("field", context.operand.field());
  seen.words.emplace("image-field", ImageFieldOf(context.operand, container));
  seen.words.emplace("resources-field", ResourcesFieldOf(context.operand, container));
  seen.words.emplace("pod", context.pod == nullptr ? "" : context.pod->key.name);
  seen.words.emplace("container", container);
  seen.words.emplace("daemonset", context.daemonset == nullptr
                                      ? std::string(context.operand.daemonsets.front())
                                      : context.daemonset->key.name);
}

// The container that holds a pod up: the first one to initialise that has not ended well, else the
// first that is not ready.
const Container* FirstCulprit(const Pod& pod) {
  for (const Container& container : pod.containers) {
    if (container.init && !container.ended_well() && !(container.started && container.ready)) {
      return &container;
    }
  }
  // One that fails is more telling than one that waits for it.
  const Container* first = nullptr;
  for (const Container& container : pod.containers) {
    if (container.init || container.ready) continue;
    if (first == nullptr) first = &container;
    if (container.reason == "CrashLoopBackOff" || container.state == "terminated")
      return &container;
  }
  return first;
}

OperandContext MakeContext(const NodeContext& on, const Operand& operand) {
  OperandContext context{on, operand, nullptr, on.PodOf(operand), nullptr};
  if (context.pod != nullptr) context.container = FirstCulprit(*context.pod);
  for (const auto& [name, daemonset] : on.cluster.daemonsets) {
    if (on.cluster.operand_table->OfDaemonSet(name) != &operand) continue;
    const bool own = context.pod != nullptr && context.pod->owner == name;
    const bool selects = HasAll(on.node.labels, daemonset.node_selector);
    if (context.daemonset == nullptr || own || (selects && context.pod == nullptr)) {
      context.daemonset = &daemonset;
    }
    if (own) break;
  }
  return context;
}

// A rule that is data alone: words of the container that tell the cause.
Look LookForWords(const OperandContext& context, const OperandRule& rule) {
  // What a container says while it works may sound like a failure and be none.
  if (context.container == nullptr ||
      (context.container->restarts == 0 && context.container->state == "running" &&
       !context.container->init)) {
    return std::nullopt;
  }
  const std::string line = context.LineWith(rule.said);
  if (line.empty()) return std::nullopt;
  return Seen{.summary = std::string(rule.summary),
              .evidence = {context.Saw(line)},
              .words = {},
              .since = context.pod->not_ready_since()};
}

// The newest Event on the node with a reason that a rule of this operand knows: older ones tell of
// a trouble that is over.
const Event* NewestTold(const OperandContext& context) {
  for (const Event* event : context.on.cluster.EventsOf("Node", {"", context.on.node.name})) {
    const bool known = std::ranges::any_of(OperandRules(), [&](const OperandRule& rule) {
      return rule.part == context.operand.name && rule.reason == event->reason;
    });
    if (known) return event;
  }
  return nullptr;
}

Look LookForReason(const OperandContext& context, const OperandRule& rule) {
  if (const Event* event = NewestTold(context)) {
    if (event->reason != rule.reason) return std::nullopt;
    return Seen{.summary = std::string(rule.summary),
                .evidence = {SawEvent(*event)},
                .words = {},
                .since = event->last};
  }
  const std::string said = "reason=" + base::ToLower(rule.reason);
  const std::string_view parts[] = {said};
  const std::string line = context.LineWith(parts);
  if (line.empty()) return std::nullopt;
  return Seen{.summary = std::string(rule.summary),
              .evidence = {context.Saw(line)},
              .words = {},
              .since = context.pod->not_ready_since()};
}

bool IsExpected(const NodeContext& context, const Operand& operand) {
  if (!context.Wants(operand)) return false;
  if (!operand.node_label.empty() && context.node.Label(operand.node_label) != "true") {
    return false;
  }
  return operand.deploy.IsOwn(context.node.Label(operand.deploy.key));
}

}  // namespace

NodeContext::NodeContext(const Cluster& seen_cluster, const Node& seen_node, Wanted* wanted)
    : cluster(seen_cluster),
      node(seen_node),
      policy(seen_cluster.active_policy() == nullptr ? nullptr
                                                     : &seen_cluster.active_policy()->spec),
      workload(WorkloadOf(seen_node, policy)),
      wanted_(wanted) {}

bool NodeContext::Wants(const Operand& operand) const {
  return policy != nullptr && operand.deploy.workloads.Has(workload) && operand.IsWanted(*policy);
}

const Operand& NodeContext::Named(std::string_view name) const {
  return cluster.operand_table->Named(name);
}

const Pod* NodeContext::PodOf(const Operand& operand) const {
  const Pod* found = nullptr;
  for (const Pod* pod : cluster.PodsOf(node.name)) {
    if (pod->operand != &operand) continue;
    if (found == nullptr || (found->deleting && !pod->deleting) ||
        (found->deleting == pod->deleting && found->created < pod->created)) {
      found = pod;
    }
  }
  return found;
}

const Pod* NodeContext::DiscoveryWorker() const {
  for (const Pod* pod : cluster.PodsOf(node.name)) {
    if (pod->role == "worker" && Contains(pod->owner, "node-feature-discovery")) return pod;
  }
  return nullptr;
}

bool NodeContext::has_host_driver() const {
  return policy != nullptr &&
         (!policy->driver_enabled() || node.Label(api::kDeployDriver) == api::kPreInstalled);
}

std::string_view NodeContext::Log(const LogKey& key) const {
  const auto found = cluster.logs.find(key);
  if (found != cluster.logs.end()) return found->second;
  if (wanted_ != nullptr) wanted_->logs.insert(key);
  return "";
}

const Features* NodeContext::features() const {
  const auto found = cluster.features.find(node.name);
  if (found != cluster.features.end()) return &found->second;
  if (wanted_ != nullptr) wanted_->features.insert(node.name);
  return nullptr;
}

Evidence OperandContext::Saw(std::string text, Time at) const {
  if (pod != nullptr) {
    return {"Pod " + pod->key.ToString(),
            container == nullptr ? "" : fmt::format("container {}", container->name),
            std::move(text), at};
  }
  if (daemonset != nullptr)
    return {"DaemonSet " + daemonset->key.ToString(), "", std::move(text), at};
  return {fmt::format("DaemonSet {}/{}", on.cluster.name_space, operand.daemonsets.front()), "",
          std::move(text), at};
}

std::string OperandContext::Words() const {
  if (pod == nullptr || container == nullptr) return "";
  std::string words = container->message + "\n" + container->last_message;
  if (container->restarts > 0) {
    words += "\n";
    words += on.Log({pod->key, container->name, true});
  }
  words += "\n";
  words += on.Log({pod->key, container->name, false});
  return words;
}

std::string OperandContext::LineWith(std::span<const std::string_view> parts) const {
  for (const std::string& line : base::Split(Words(), '\n')) {
    if (ContainsAny(base::ToLower(line), parts)) return ReadableLine(line);
  }
  return "";
}

std::string OperandContext::LastLine() const {
  if (pod == nullptr || container == nullptr) return "";
  // The log of a container that waits to be started again is that of its last run.
  const bool previous = container->state == "waiting" && container->restarts > 0;
  std::string line = LastLineOf(on.Log({pod->key, container->name, previous}));
  if (line.empty() && previous) line = LastLineOf(on.Log({pod->key, container->name, false}));
  return line;
}

std::optional<Finding> WhyNotReady(const NodeContext& context, const Operand& operand) {
  if (!IsExpected(context, operand) || !context.cluster.has_read(Kind::kOperandPods)) {
    return std::nullopt;
  }
  const Pod* pod = context.PodOf(operand);
  if (pod != nullptr && pod->ready && !pod->deleting) return std::nullopt;
  const OperandContext about = MakeContext(context, operand);
  for (const OperandRule& rule : OperandRules()) {
    if (!rule.part.empty() && rule.part != operand.name && rule.part != ToString(*operand.stage)) {
      continue;
    }
    Look seen = rule.look != nullptr  ? rule.look(about)
                : rule.reason.empty() ? LookForWords(about, rule)
                                      : LookForReason(about, rule);
    if (!seen) continue;
    AddWords(about, *seen);
    return MakeFinding(rule.id, *operand.stage, "Node " + context.node.name, *std::move(seen),
                       rule.fix);
  }
  return std::nullopt;
}

std::optional<Finding> FirstBroken(const NodeContext& context) {
  for (const Stage stage : ChainOf(context.workload)) {
    for (const Operand& operand : context.cluster.operands()) {
      if (operand.stage != stage) continue;
      if (auto finding = WhyNotReady(context, operand)) return finding;
    }
    for (const NodeRule& rule : NodeRules()) {
      if (rule.stage != stage) continue;
      Look seen = rule.look(context);
      if (!seen) continue;
      AddWords(context, *seen);
      return MakeFinding(rule.id, stage, "Node " + context.node.name, *std::move(seen), rule.fix);
    }
  }
  return std::nullopt;
}

std::optional<Finding> WhyNotRunning(const Cluster& cluster, const Pod& pod) {
  std::vector<PodContext> contexts;
  for (const auto& [resource, request] : pod.requests) {
    contexts.push_back({cluster, pod, resource, request.amount()});
  }
  if (contexts.empty()) contexts.push_back({cluster, pod, "", 0});
  for (const PodContext& context : contexts) {
    for (const PodRule& rule : PodRules()) {
      Look seen = rule.look(context);
      if (!seen) continue;
      seen->words.emplace("namespace", pod.key.name_space);
      seen->words.emplace("pod", pod.key.name);
      seen->words.emplace("resource", context.resource);
      seen->words.emplace("policy", PolicyName(cluster));
      if (!seen->since) seen->since = pod.created;
      return MakeFinding(rule.id, Stage::kReady, "Pod " + pod.key.ToString(), *std::move(seen),
                         rule.fix);
    }
  }
  return std::nullopt;
}

std::optional<Finding> WhyNotStarted(const Cluster& cluster, const Machine& machine) {
  for (const MachineRule& rule : MachineRules()) {
    Look seen = rule.look(cluster, machine);
    if (!seen) continue;
    return MakeFinding(rule.id, Stage::kReady, machine.ToString(), *std::move(seen), rule.fix);
  }
  return std::nullopt;
}

std::vector<Finding> ClusterFindings(const Cluster& cluster) {
  std::vector<Finding> findings;
  for (const ClusterRule& rule : ClusterRules()) {
    for (Seen& seen : rule.look(cluster)) {
      seen.words.emplace("namespace", cluster.name_space);
      seen.words.emplace("policy", PolicyName(cluster));
      findings.push_back(MakeFinding(rule.id, Stage::kReady, "cluster", std::move(seen), rule.fix));
    }
  }
  return findings;
}

std::vector<std::string_view> FindingIds() {
  std::vector<std::string_view> ids;
  for (const auto& rule : NodeRules()) ids.push_back(rule.id);
  for (const auto& rule : OperandRules()) ids.push_back(rule.id);
  for (const auto& rule : PodRules()) ids.push_back(rule.id);
  for (const auto& rule : MachineRules()) ids.push_back(rule.id);
  for (const auto& rule : ClusterRules()) ids.push_back(rule.id);
  return ids;
}

Evidence SawLabel(const Node& node, std::string_view key) {
  const auto found = node.labels.find(key);
  return {"Node " + node.name, fmt::format("label {}", key),
          found == node.labels.end() ? "absent" : fmt::format("\"{}\"", found->second),
          std::nullopt};
}

Evidence SawEvent(const Event& event) {
  std::string text = FirstLine(event.message);
  if (event.count > 1) text += fmt::format(" ({} times)", event.count);
  return {fmt::format("{} {}", event.kind, event.object.ToString()), "event " + event.reason, text,
          event.last};
}

std::string FirstLine(std::string_view text) {
  text = base::Trim(text);
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.size() <= kLongestLine) return std::string(line);
  // Not in the middle of a character.
  const auto begins_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(line[at]) & 0xC0U) != 0x80U;
  };
  std::size_t head = kBeginning;
  while (!begins_character(head)) --head;
  std::size_t tail = line.size() - kEnding;
  while (!begins_character(tail)) ++tail;
  return fmt::format("{} ... {}", line.substr(0, head), line.substr(tail));
}

std::string ReadableLine(std::string_view line) {
  line = base::Trim(line);
  // The time stands elsewhere.
  if (const std::size_t end = line.find(' ');
      end != std::string_view::npos && base::ParseRfc3339(line.substr(0, end))) {
    line = base::Trim(line.substr(end));
  }
  if (!line.starts_with('{')) return FirstLine(line);
  const auto entry = codec::ParseJson(line, "log line");
  if (!entry) return FirstLine(line);
  std::string text = codec::FindString(*entry, {"msg"});
  for (const char* member : {"reason", "error"}) {
    const std::string value = codec::FindString(*entry, {member});
    if (!value.empty() && !Contains(text, value)) text += (text.empty() ? "" : ": ") + value;
  }
  return FirstLine(text.empty() ? line : std::string_view(text));
}

std::string LastLineOf(std::string_view log) {
  log = base::Trim(log);
  const std::size_t end = log.rfind('\n');
  return ReadableLine(end == std::string_view::npos ? log : log.substr(end + 1));
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool ContainsAny(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return Contains(text, part); });
}

}  // namespace pitcrew::fleet
