#include "operator/permitted_devices/permitted_device_controller.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "desired/owned_object.h"

namespace pitcrew::gpu_operator {
namespace {

using codec::Json;
using kubevirt::Decision;
using kubevirt::Entry;
using kubevirt::Obstacle;

// All is one key: what is permitted follows from all nodes together.
const kube::ObjectKey kEverything{.namespace_name = "", .name = "permitted-devices"};

// How long what has gone wrong is left alone where nothing tells that it has become better: rights,
// admission, a kind that cannot be listed.
constexpr std::chrono::seconds kLater{60};

std::string UidOf(const Json& object) { return codec::FindString(object, {"metadata", "uid"}); }

std::string NameOf(const MachineWatches::Target& target) {
  return fmt::format("{} {}", kubevirt::KindOf(target.form).kind,
                     kube::KeyOf(target.object).ToString());
}

std::string Describe(const std::vector<Entry>& entries) {
  std::vector<std::string> texts;
  for (const Entry& entry : entries) {
    texts.push_back(fmt::format("{} ({})", entry.resource, entry.selector));
  }
  return base::Join(texts, ", ");
}

}  // namespace

PermittedDeviceController::PermittedDeviceController(World& world, kube::EventRecorder& events,
                                                     PermittedDeviceOptions options)
    : world_(world),
      events_(events),
      options_(std::move(options)),
      controller_(
          {.name = "permitted-devices", .workers = 1, .backoff = {}},
          [this](const kube::ObjectKey&, const io::StopToken& stop) { return Reconcile(stop); }),
      watches_(world.client, [this] { controller_.Enqueue(kEverything); }) {
  // What a node without the label is used for.
  controller_.Watch<desired::PolicyView>(
      world.policies, [](const kube::Change<desired::PolicyView>& change, const auto& enqueue) {
        const auto sandbox = [](const auto& view) { return view->policy.sandbox.default_workload; };
        const bool same =
            change.before != nullptr && change.now != nullptr &&
            sandbox(change.before) == sandbox(change.now) &&
            change.before->policy.sandbox.enabled == change.now->policy.sandbox.enabled;
        if (!same) enqueue(kEverything);
      });
}

base::Status PermittedDeviceController::Run(const io::StopToken& stop) {
  watches_.Start();
  return controller_.Run(stop);
}

kubevirt::Facts PermittedDeviceController::FactsNow(
    std::vector<kubevirt::MachineNode> nodes) const {
  kubevirt::Facts facts;
  // Without a policy nothing is offered by us: an uninstallation takes away what was permitted
  // while nodes still have what they had.
  if (const auto policy = world_.ActivePolicy()) {
    facts.sandbox = policy->policy.sandbox;
    facts.nodes = std::move(nodes);
  }
  facts.named = watches_.Named();
  return facts;
}

void PermittedDeviceController::TellOnce(std::string& told, const base::Error& error) {
  if (told == error.message) return;
  told = error.message;
  base::LogWarning("permitted devices are left as they are", error);
}

base::Result<kube::Action> PermittedDeviceController::Reconcile(const io::StopToken& stop) {
  const auto followed = watches_.Follow();
  const auto targets = followed ? watches_.Targets() : base::Fail(followed.error());
  auto nodes = targets ? watches_.Nodes() : base::Fail(targets.error());
  if (!nodes) {
    // The watches tell when they know; until then why they do not.
    if (nodes.error().code == base::Code::kUnavailable) return kube::Action::RequeueAfter(kLater);
    TellOnce(told_trouble_, nodes.error());
    return kube::Action::Done();
  }
  if (targets->empty() && !nodes->empty()) {
    TellOnce(told_trouble_,
             base::NotFound("NoKubeVirt",
                            "nodes are for virtual machines, and the cluster has neither a "
                            "KubeVirt nor a HyperConverged object: install KubeVirt"));
  } else {
    told_trouble_.clear();
  }
  const auto facts = FactsNow(*std::move(nodes));
  kube::Action action = kube::Action::Done();
  std::optional<base::Error> failure;
  for (const Target& target : *targets) {
    const auto done = ReconcileTarget(target, facts, stop);
    if (!done) {
      failure = done.error();
    } else if (done->requeue_after &&
               (!action.requeue_after || *done->requeue_after < *action.requeue_after)) {
      action = *done;
    }
  }
  if (failure) return base::Fail(*failure);
  return action;
}

std::set<std::string> PermittedDeviceController::Expired(const std::string& uid) const {
  std::set<std::string> expired;
  const auto now = base::SteadyClock::now();
  for (const auto& [key, since] : unused_since_) {
    if (key.first == uid && now - since >= options_.grace) expired.insert(key.second);
  }
  return expired;
}

kube::Action PermittedDeviceController::NoteUnused(const std::string& uid,
                                                   const std::vector<Entry>& unused) {
  std::erase_if(unused_since_, [&](const auto& entry) {
    return entry.first.first == uid &&
           std::ranges::find(unused, entry.first.second, &Entry::resource) == unused.end();
  });
  const auto now = base::SteadyClock::now();
  kube::Action action = kube::Action::Done();
  for (const Entry& entry : unused) {
    const auto since = unused_since_.try_emplace({uid, entry.resource}, now).first->second;
    const auto left = std::max<std::chrono::nanoseconds>(options_.grace - (now - since),
                                                         std::chrono::milliseconds(1));
    if (!action.requeue_after || left < *action.requeue_after) {
      action = kube::Action::RequeueAfter(left);
    }
  }
  return action;
}

base::Result<kube::Action> PermittedDeviceController::ReconcileTarget(const Target& target,
                                                                      const kubevirt::Facts& facts,
                                                                      const io::StopToken& stop) {
  const std::string uid = UidOf(target.object);
  const auto expired = Expired(uid);
  const auto decision =
      kubevirt::Decide(target.object, target.form, facts, *options_.names, expired);
  if (!decision) {
    Tell(target, {{decision.error().reason, decision.error().message}});
    return kube::Action::Done();
  }
  if (decision->patch) {
    const auto written = Write(target, facts, expired, stop);
    if (!written && (written.error().code == base::Code::kDenied ||
                     written.error().code == base::Code::kInvalid)) {
      Tell(target, {{"PermittedDevicesRefused", written.error().message}});
      return kube::Action::RequeueAfter(kLater);
    }
    TRY(written);
  }
  Tell(target, decision->obstacles);
  return NoteUnused(uid, decision->unused);
}

// Decided once more over what stands now: the lists are written whole, so that nothing that
// somebody has changed meanwhile may be lost. A conflict is an error, and so tried again from the
// start.
base::Status PermittedDeviceController::Write(const Target& target, const kubevirt::Facts& facts,
                                              const std::set<std::string>& expired,
                                              const io::StopToken& stop) {
  const auto& kind = kubevirt::KindOf(target.form);
  const auto key = kube::KeyOf(target.object);
  const auto fresh = world_.client->Get(kind, key, stop);
  if (!fresh) {
    if (fresh.error().code == base::Code::kNotFound) return {};  // the watch tells
    return base::Fail(fresh.error());
  }
  TRY_ASSIGN(const Decision decision,
             kubevirt::Decide(*fresh, target.form, facts, *options_.names, expired));
  if (!decision.patch) return {};
  Json patch = *decision.patch;
  patch["metadata"]["resourceVersion"] = codec::FindString(*fresh, {"metadata", "resourceVersion"});
  const auto patched = world_.client->Patch(
      kind, key, kube::PatchType::kMerge, patch,
      {.field_manager = std::string(desired::kFieldManager), .subresource = {}}, stop);
  if (!patched) return base::Fail(patched.error().Within("permit devices in " + NameOf(target)));
  TellChange(target, decision);
  return {};
}

void PermittedDeviceController::TellChange(const Target& target, const Decision& decision) {
  std::vector<std::string> parts;
  if (!decision.added.empty()) parts.push_back("permitted " + Describe(decision.added));
  if (!decision.removed.empty()) {
    parts.push_back("no longer permitted, as nobody offers or asks for it: " +
                    Describe(decision.removed));
  }
  if (parts.empty()) return;
  const auto message = base::Join(parts, "; ");
  base::LogInfo("permitted devices", {{"object", NameOf(target)}, {"change", message}});
  events_.Record({.about = kube::ReferenceTo(kubevirt::KindOf(target.form), target.object),
                  .type = kube::EventType::kNormal,
                  .reason = "PermittedDevicesChanged",
                  .message = message});
}

void PermittedDeviceController::Tell(const Target& target, const std::vector<Obstacle>& obstacles) {
  auto& told = told_[UidOf(target.object)];
  for (const Obstacle& obstacle : obstacles) {
    if (std::ranges::find(told, obstacle) != told.end()) continue;
    base::LogWarning("a device cannot be permitted",
                     {{"object", NameOf(target)}, {"message", obstacle.message}});
    events_.Record({.about = kube::ReferenceTo(kubevirt::KindOf(target.form), target.object),
                    .type = kube::EventType::kWarning,
                    .reason = obstacle.reason,
                    .message = obstacle.message});
  }
  told = obstacles;
}

}  // namespace pitcrew::gpu_operator
