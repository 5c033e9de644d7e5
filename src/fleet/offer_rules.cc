// Findings about what a node offers to the scheduler, when all its operands run.
#include <fmt/format.h>

#include <algorithm>

#include "api/cc_mode.h"
#include "api/labels.h"
#include "api/mig_progress.h"
#include "api/vgpu_config.h"
#include "base/clock.h"
#include "base/strings.h"
#include "fleet/former_offers.h"
#include "fleet/operand_looks.h"
#include "fleet/rules.h"

namespace pitcrew::fleet {
namespace {

// What the MIG manager says itself; upstream's says nothing. That of an earlier configuration does
// not count.
std::optional<api::MigProgress> MigProgressOf(const NodeContext& context) {
  const auto text = Get(context.node.annotations, api::kMigConfigProgress);
  if (text.empty()) return std::nullopt;
  auto progress = api::ParseMigProgress(text);
  if (progress && progress->config != context.node.Label(api::kMigConfig)) return std::nullopt;
  return progress;
}

Evidence SawProgress(const NodeContext& context, const api::MigProgress& progress) {
  std::vector<std::string> parts = {progress.phase};
  for (const auto& [position, step] : progress.gpus) {
    parts.push_back(fmt::format("GPU {} {}", position, step));
  }
  const auto since = base::ParseRfc3339(progress.since);
  return {"Node " + context.node.name, "annotation " + std::string(api::kMigConfigProgress),
          base::Join(parts, ", "), since ? Time(*since) : std::nullopt};
}

Look MigFailed(const NodeContext& context) {
  if (context.node.Label(api::kMigConfigState) != "failed") return std::nullopt;
  Seen seen{.summary = fmt::format("the MIG configuration \"{}\" could not be applied",
                                   context.node.Label(api::kMigConfig)),
            .evidence = {SawLabel(context.node, api::kMigConfig),
                         SawLabel(context.node, api::kMigConfigState)},
            .words = {},
            .since = std::nullopt};
  if (const auto progress = MigProgressOf(context); progress && progress->phase == "failed") {
    seen.summary += ": " + progress->message;
    seen.evidence.push_back(SawProgress(context, *progress));
    seen.since = seen.evidence.back().at;
  }
  return seen;
}

// How far a change is, in a few words; "" when nothing says so.
std::string HowFar(const api::MigProgress& progress) {
  if (progress.phase == "waiting" && !progress.waiting_for.empty()) {
    return fmt::format(": it waits for pods that use the GPUs: {}{}",
                       base::Join(progress.waiting_for, ", "),
                       progress.deadline.empty() ? "" : ", until " + progress.deadline);
  }
  if (progress.phase == "pausing") return ": operands that use the GPUs end";
  if (progress.phase == "changing") return ": GPUs are being divided anew";
  return "";
}

Look MigPending(const NodeContext& context) {
  const std::string_view state = context.node.Label(api::kMigConfigState);
  if (state != "pending" && state != "rebooting") return std::nullopt;
  const auto progress = MigProgressOf(context);
  Seen seen{.summary = fmt::format("the MIG configuration \"{}\" is being applied{}",
                                   context.node.Label(api::kMigConfig),
                                   state == "rebooting" ? ": the node restarts"
                                   : progress           ? HowFar(*progress)
                                                        : ""),
            .evidence = {SawLabel(context.node, api::kMigConfig),
                         SawLabel(context.node, api::kMigConfigState)},
            .words = {},
            .since = std::nullopt};
  if (progress) {
    seen.evidence.push_back(SawProgress(context, *progress));
    seen.since = seen.evidence.back().at;
  }
  for (const auto& [key, value] : context.node.labels) {
    if (key.starts_with(api::kDeployPrefix) && Contains(value, api::kPausedForMigChange)) {
      seen.evidence.push_back(SawLabel(context.node, key));
      break;
    }
  }
  return seen;
}

// What a manager says of a change that failed. Its annotation has the form of MIG's.
Look ChangeFailed(const NodeContext& context, std::string_view what, std::string_view label,
                  std::string_view state, std::string_view annotation) {
  if (context.node.Label(state) != "failed") return std::nullopt;
  const std::string_view asked = context.node.Label(label);
  Seen seen{.summary = asked.empty()
                           ? fmt::format("the node's default {} could not be applied", what)
                           : fmt::format("the {} \"{}\" could not be applied", what, asked),
            .evidence = {SawLabel(context.node, label), SawLabel(context.node, state)},
            .words = {},
            .since = std::nullopt};
  const auto text = Get(context.node.annotations, annotation);
  const auto progress = text.empty() ? std::nullopt : api::ParseMigProgress(text);
  if (progress && progress->phase == "failed") {
    seen.summary += ": " + FirstLine(progress->message);
    if (const auto since = base::ParseRfc3339(progress->since)) seen.since = *since;
  }
  return seen;
}

Look VgpuFailed(const NodeContext& context) {
  return ChangeFailed(context, "vGPU configuration", api::kVgpuConfig, api::kVgpuConfigState,
                      api::kVgpuConfigProgress);
}

Look CcFailed(const NodeContext& context) {
  return ChangeFailed(context, "mode of confidential computing", api::kCcMode, api::kCcModeState,
                      api::kCcModeProgress);
}

bool Offers(const Node& node) {
  return std::ranges::any_of(node.allocatable, [](const auto& entry) { return entry.second > 0; });
}

// Whether the policy has a device plugin on nodes of this workload.
bool HasPlugin(const NodeContext& context) {
  return std::ranges::any_of(context.cluster.operands(), [&](const Operand& operand) {
    return operand.stage == Stage::kPlugin && context.Wants(operand);
  });
}

// What the plugin has said last about a device that it found unfit.
void AddPluginWords(const NodeContext& context, Seen& seen) {
  const Pod* pod = context.PodOf(context.Named("device plugin"));
  if (pod == nullptr) return;
  const std::string_view log = context.Log({pod->key, "nvidia-device-plugin", false});
  std::string found;
  for (const std::string& line : base::Split(log, '\n')) {
    const std::string words = base::ToLower(line);
    if (Contains(words, "unhealthy") || Contains(words, "xid")) found = ReadableLine(line);
  }
  if (found.empty()) return;
  seen.evidence.push_back(
      {"Pod " + pod->key.ToString(), "container nvidia-device-plugin", found, std::nullopt});
}

Look NotOffered(const NodeContext& context) {
  if (!HasPlugin(context) || Offers(context.node)) return std::nullopt;
  // They are offered, and unfit: that is the next finding.
  if (std::ranges::any_of(context.node.capacity, [&](const auto& entry) {
        return entry.second > 0 && !IsFormerOffer(context, entry.first);
      })) {
    return std::nullopt;
  }
  std::vector<std::string> former;
  for (const auto& [resource, capacity] : context.node.capacity) {
    if (IsFormerOffer(context, resource)) former.push_back(resource);
  }
  const bool listed = former.size() < context.node.capacity.size();
  return Seen{
      .summary = listed ? "the device plugin runs, and the kubelet offers 0 GPUs"
                        : "the device plugin runs, and the kubelet does not know it: the node "
                          "offers no resource of nvidia.com",
      .evidence = {{"Node " + context.node.name, "status.capacity[nvidia.com/*]",
                    listed ? "0"
                    : former.empty()
                        ? "absent"
                        : "only those of a plugin that has ended: " + base::Join(former, ", "),
                    std::nullopt}},
      .words = {{"resource", std::string(api::kGpuResource)}},
      .since = std::nullopt};
}

// The device plugin offers shared GPUs only while they have a server. The pod of the MPS control
// daemon is ready all the same: it tries again.
Look MpsNotServing(const NodeContext& context) {
  if (context.node.Label(api::kMpsCapable) != "true" || Offers(context.node)) return std::nullopt;
  const Pod* pod = context.PodOf(context.Named("MPS control daemon"));
  if (pod == nullptr) return std::nullopt;
  const std::string_view log = context.Log({pod->key, "mps-control-daemon-ctr", false});
  std::string last;
  for (const std::string& line : base::Split(log, '\n')) {
    if (Contains(line, "clients are served")) last.clear();
    if (Contains(line, "clients are not served")) last = ReadableLine(line);
  }
  if (last.empty()) return std::nullopt;
  return Seen{.summary = "the GPUs are shared by MPS, and their MPS server does not run",
              .evidence = {{"Pod " + pod->key.ToString(), "container mps-control-daemon-ctr", last,
                            std::nullopt}},
              .words = {{"mps-pod", pod->key.name}},
              .since = std::nullopt};
}

Look SomeUnhealthy(const NodeContext& context) {
  for (const auto& [resource, capacity] : context.node.capacity) {
    const auto found = context.node.allocatable.find(resource);
    const std::int64_t offered = found == context.node.allocatable.end() ? 0 : found->second;
    if (offered >= capacity || IsFormerOffer(context, resource)) continue;
    Seen seen{.summary = fmt::format("{} of the node's {} {} are unhealthy", capacity - offered,
                                     capacity, resource),
              .evidence = {{"Node " + context.node.name, "status.allocatable[" + resource + "]",
                            fmt::format("{} of {}", offered, capacity), std::nullopt}},
              .words = {{"resource", resource}},
              .since = std::nullopt};
    AddPluginWords(context, seen);
    return seen;
  }
  return std::nullopt;
}

// The validator's last step, which waits for the resource.
Look PluginNotValidated(const NodeContext& context) {
  const Pod* pod = context.PodOf(context.Named("validator"));
  if (pod == nullptr || pod->ready || !context.Wants(context.Named("validator")))
    return std::nullopt;
  for (const Container& container : pod->containers) {
    if (container.name != "plugin-validation" || container.ended_well()) continue;
    if (container.state.empty() || container.reason == "PodInitializing") continue;
    std::string said =
        FirstLine(container.state == "terminated" ? container.message : container.last_message);
    if (said.empty()) said = LastLineOf(context.Log({pod->key, container.name, false}));
    if (said.empty()) said = container.reason.empty() ? container.state : container.reason;
    return Seen{.summary = "the validator has not seen the device plugin's resource yet",
                .evidence = {{"Pod " + pod->key.ToString(), "container plugin-validation", said,
                              container.since}},
                .words = {{"pod", pod->key.name}},
                .since = container.since};
  }
  return std::nullopt;
}

Look Cordoned(const NodeContext& context) {
  if (!context.node.unschedulable) return std::nullopt;
  Seen seen{.summary = "the node is cordoned: no new pod is placed on it",
            .evidence = {{"Node " + context.node.name, "spec.unschedulable", "true", std::nullopt}},
            .words = {},
            .since = std::nullopt};
  if (!context.node.Label(api::kUpgradeState).empty()) {
    seen.evidence.push_back(SawLabel(context.node, api::kUpgradeState));
  }
  return seen;
}

constexpr NodeRule kOfferRules[] = {
    {"mig-failed", Stage::kAllocatable, MigFailed,
     "Read why. Choose a configuration that the GPUs have, or try the same again by starting the "
     "MIG "
     "manager anew (writing the same label again changes nothing).\n"
     "$ kubectl logs -n {namespace} {mig-pod}\n"
     "$ kubectl label node {node} nvidia.com/mig.config=NAME --overwrite\n"
     "$ kubectl delete pod -n {namespace} {mig-pod}"},
    {"mig-pending", Stage::kAllocatable, MigPending,
     "The GPUs must not be in use. If it lasts, see who uses them, and what the MIG manager says:\n"
     "$ kubectl get pods -A --field-selector spec.nodeName={node}\n"
     "$ kubectl logs -n {namespace} {mig-pod}"},
    {"vgpu-failed", Stage::kAllocatable, VgpuFailed,
     "Read why; what fits on the GPUs is in it, or told by nvidia-vgpu-dm status. Choose another "
     "configuration, or end the virtual machine that is named: then it is tried again by itself.\n"
     "$ kubectl label node {node} nvidia.com/vgpu.config=NAME --overwrite\n"
     "$ kubectl exec -n {namespace} {vgpu-pod} -- nvidia-vgpu-dm status"},
    {"cc-failed", Stage::kAllocatable, CcFailed,
     "Read why. The GPUs have the modes of before. Choose another mode, or mend what is named: "
     "what may pass is tried again by itself.\n"
     "$ kubectl label node {node} nvidia.com/cc.mode=off --overwrite"},
    {"mps-not-serving", Stage::kAllocatable, MpsNotServing,
     "The reason is in the line; it is tried again at most every 30 s. A GPU that a process of "
     "another pod holds cannot be shared until that ends.\n"
     "$ kubectl logs -n {namespace} {mps-pod} -c mps-control-daemon-ctr"},
    {"gpus-not-offered", Stage::kAllocatable, NotOffered,
     "See what the plugin says about its registration and the devices. On {node}, ls "
     "/var/lib/kubelet/device-plugins shows its socket and the kubelet's; a kubelet that is "
     "started "
     "with another --root-dir has its own elsewhere, and needs a link or a bind mount from there.\n"
     "$ kubectl logs -n {namespace} {plugin-pod}"},
    {"gpus-unhealthy", Stage::kAllocatable, SomeUnhealthy,
     "The log of the plugin names the device and the XID error; on {node}, dmesg | grep -i xid. "
     "Drain the node, and reset the GPU or restart the node.\n"
     "$ kubectl logs -n {namespace} {plugin-pod}"},
    {"plugin-not-validated", Stage::kAllocatable, PluginNotValidated,
     "If it lasts:\n"
     "$ kubectl logs -n {namespace} {pod} -c plugin-validation"},
    {"qualification-awaited", Stage::kSchedulable, look::AwaitsQualification,
     look::kAwaitsQualificationFix},
    {"node-cordoned", Stage::kSchedulable, Cordoned,
     "If the work on it is done:\n"
     "$ kubectl uncordon {node}"},
};

}  // namespace

std::span<const NodeRule> OfferRules() { return kOfferRules; }

}  // namespace pitcrew::fleet
