#include "operator/roll_out/rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/strings.h"
#include "desired/cluster_kinds.h"
#include "kube/selector.h"
#include "operator/roll_out/driver_successors.h"

namespace pitcrew::gpu_operator {
namespace {

std::string IdentityText(const kube::ResourceKind& kind, const kube::ObjectKey& key) {
  return fmt::format("{} {}", kind.kind, key.name);
}

desired::OperandReport MakeReport(const desired::Operand& operand, desired::Verdict verdict,
                                  std::string reason, std::string message) {
  desired::OperandReport report;
  report.state = operand.state;
  report.condition = operand.condition;
  report.verdict = verdict;
  report.reason = std::move(reason);
  report.message = std::move(message);
  return report;
}

// `invalid`: when there is another try at what is refused as invalid.
desired::OperandReport FailedReport(const desired::Operand& operand, const base::Error& error,
                                    desired::Retry invalid) {
  desired::OperandReport report = MakeReport(
      operand, desired::Verdict::kFailed,
      error.reason.empty() ? std::string("ReconcileFailed") : error.reason, error.message);
  report.retry = error.code == base::Code::kInvalid ? invalid : desired::Retry::kSoon;
  return report;
}

// Of the pods of a DaemonSet, as it was rendered: the operands' select by labels alone.
std::string PodSelector(const desired::Object& daemonset) {
  const desired::Object* labels = codec::Find(daemonset, {"spec", "selector", "matchLabels"});
  if (labels == nullptr || !labels->is_object()) return "";
  return kube::SelectorOf(labels->get<kube::Labels>());
}

}  // namespace

Step Decide(std::string_view desired_hash, const desired::OwnedObject* live, const Written* written,
            base::SteadyClock::time_point now) {
  const bool ours = written != nullptr && written->hash == desired_hash;
  const bool may_be_echo = ours && now - written->at < kEchoTimeout;
  if (live == nullptr) return may_be_echo ? Step::kPending : Step::kApply;
  if (live->deleting) return Step::kPending;
  if (live->hash != desired_hash) {
    return may_be_echo && live->version < written->version ? Step::kPending : Step::kApply;
  }
  if (ours && live->fingerprint == written->fingerprint) return Step::kNothing;
  return may_be_echo && live->version < written->version ? Step::kPending : Step::kVerify;
}

Rollout::Rollout(std::shared_ptr<kube::Client> client, const Inventory& inventory,
                 std::string operator_namespace, std::string owner_uid,
                 const desired::OperandTable& operands, std::string driver_object)
    : client_(std::move(client)),
      inventory_(inventory),
      operands_(operands),
      owner_uid_(std::move(owner_uid)),
      driver_object_(std::move(driver_object)),
      predecessor_(client_, std::move(operator_namespace), owner_uid_, operands_) {}

void Rollout::Forget(const kube::ResourceKind& kind, const kube::ObjectKey& key) {
  const std::lock_guard lock(mutex_);
  written_.erase({std::string(kind.plural), key});
}

void Rollout::Remember(const Identity& identity, const desired::Object& desired,
                       const desired::Object& live) {
  const desired::OwnedObject seen = desired::ReadOwned(live);
  const std::lock_guard lock(mutex_);
  written_[identity] = {.hash = desired::AppliedHash(desired),
                        .fingerprint = seen.fingerprint,
                        .version = seen.version,
                        .at = base::SteadyClock::now()};
}

base::Status Rollout::Apply(const kube::ResourceKind& kind, const desired::Object& object,
                            const Identity& identity, const io::StopToken& stop) {
  if (ended_) {
    return base::Fail({.code = base::Code::kCancelled,
                       .reason = "PolicyGone",
                       .message = "the ClusterPolicy is gone; nothing is written for it any more"});
  }
  if (const auto taken = predecessor_.TakeOver(kind, identity.second, stop); !taken) {
    return base::Fail(taken.error().Within("take over " + IdentityText(kind, identity.second)));
  }
  const auto applied = client_->Apply(
      kind, object, {.field_manager = std::string(desired::kFieldManager), .force = true}, stop);
  if (!applied) {
    return base::Fail(applied.error().Within(IdentityText(kind, identity.second)));
  }
  base::LogInfo("applied", {{"kind", kind.kind}, {"name", identity.second.ToString()}});
  predecessor_.Forget(kind, identity.second);
  Remember(identity, object, *applied);
  pending_ = true;
  return {};
}

base::Status Rollout::ApplyIfNeeded(const desired::Object& object, const io::StopToken& stop) {
  const kube::ResourceKind* kind = desired::KindOf(object);
  if (kind == nullptr) {
    return base::Fail(base::Internal(
        "UnknownKind",
        fmt::format("no API is known for {} {}", codec::FindString(object, {"apiVersion"}),
                    codec::FindString(object, {"kind"}))));
  }
  TRY(predecessor_.Look(*kind, stop));
  const Identity identity{std::string(kind->plural), kube::KeyOf(object)};
  std::shared_ptr<const desired::OwnedObject> live;
  if (const auto* store = inventory_.StoreOf(*kind)) {
    const auto found = store->Find(identity.second);
    if (found.is_unknown()) return base::Fail(*found.error());
    if (found.is_present()) live = *found.value();
  }
  std::optional<Written> written;
  {
    const std::lock_guard lock(mutex_);
    const auto found = written_.find(identity);
    if (found != written_.end()) written = found->second;
  }
  const std::string hash = desired::AppliedHash(object);
  switch (Decide(hash, live.get(), written ? &*written : nullptr, base::SteadyClock::now())) {
    case Step::kNothing:
      return {};
    case Step::kPending:
      pending_ = true;
      return {};
    case Step::kVerify: {
      const auto current = client_->Get(*kind, identity.second, stop);
      if (current && desired::Covers(*current, object)) {
        Remember(identity, object, *current);
        return {};
      }
      if (!current && current.error().code != base::Code::kNotFound) {
        return base::Fail(current.error().Within(IdentityText(*kind, identity.second)));
      }
      return Apply(*kind, object, identity, stop);
    }
    case Step::kApply:
      return Apply(*kind, object, identity, stop);
  }
  return {};
}

void Rollout::BeginPass() {
  pending_ = false;
  removals_.clear();
  standing_known_ = {};
}

std::vector<desired::StandingObject> Rollout::Standing(const io::StopToken& stop) {
  std::vector<desired::StandingObject> standing;
  for (const Inventory::Kind& entry : inventory_.kinds()) {
    const kube::ResourceKind& kind = *entry.kind;
    const auto& store = entry.informer->store();
    if (!store.synced()) continue;
    for (const auto& [key, object] : store.Snapshot()) {
      // What has no label is known from the predecessor, by its name.
      if (object == nullptr || object->state.empty()) continue;
      standing.push_back({.kind = &kind,
                          .key = key,
                          .uid = object->uid,
                          .owner_uid = object->owner_uid,
                          .state = object->state,
                          .deleting = object->deleting,
                          .driver_object = object->driver_object});
    }
    if (const base::Status looked = predecessor_.Look(kind, stop); !looked) {
      if (standing_known_) standing_known_ = looked;
      continue;
    }
    std::ranges::move(predecessor_.Leftovers(kind), std::back_inserter(standing));
  }
  return standing;
}

void Rollout::DecideRemovals(std::span<const desired::RenderedOperand> rendered,
                             const io::StopToken& stop) {
  removals_ =
      desired::DecideRemovals(rendered, Standing(stop), owner_uid_, operands_, driver_object_);
}

base::Result<bool> Rollout::OwnerHasItsName(const io::StopToken& stop) const {
  const auto owner =
      client_->Get(desired::kNvidiaDrivers, {.namespace_name = "", .name = driver_object_}, stop);
  if (owner) return codec::FindString(*owner, {"metadata", "uid"}) == owner_uid_;
  if (owner.error().code == base::Code::kNotFound) return false;
  return base::Fail(owner.error().Within("NVIDIADriver " + driver_object_));
}

base::Status Rollout::Remove(const desired::Removal& removal,
                             const desired::RenderedOperand& rendered, const io::StopToken& stop) {
  const kube::ResourceKind& kind = *removal.object.kind;
  const kube::ObjectKey& key = removal.object.key;
  if (removal.reason == desired::RemovalReason::kFormerObject) {
    // What the watch has told may be late: then the former one is ours.
    TRY_ASSIGN(const bool has_name, OwnerHasItsName(stop));
    if (!has_name) return {};
  }
  if (removal.passes_pods_on && rendered.objects) {
    TRY_ASSIGN(const bool passed_on,
               PassDriverPodsOn(*client_, removal.object, *rendered.objects, stop));
    if (!passed_on) {
      pending_ = true;
      return {};
    }
  }
  if (removal.orphans_pods) TRY(NoteFormerParameters(*client_, removal.object, stop));
  const base::Status deleted =
      client_->Delete(kind, key,
                      {.uid = removal.object.uid,
                       .propagation = removal.orphans_pods ? kube::Propagation::kOrphan
                                                           : kube::Propagation::kBackground},
                      stop);
  if (!deleted && deleted.error().code != base::Code::kNotFound &&
      deleted.error().code != base::Code::kConflict) {
    return base::Fail(deleted.error().Within("delete " + IdentityText(kind, key)));
  }
  // Otherwise somebody was faster, or has put another object in its place.
  if (deleted) {
    base::LogInfo("deleted", {{"kind", kind.kind},
                              {"name", key.ToString()},
                              {"state", removal.object.state},
                              {"reason", ToString(removal.reason)}});
  }
  predecessor_.Forget(kind, key);
  return {};
}

base::Status Rollout::RemoveFrom(const desired::RenderedOperand& rendered,
                                 const io::StopToken& stop) {
  base::Status result = standing_known_;
  for (const desired::Removal& removal : removals_) {
    if (removal.object.state != rendered.operand->state) continue;
    const base::Status removed = Remove(removal, rendered, stop);
    if (!removed && result) result = removed;
  }
  return result;
}

base::Status Rollout::RemoveFormerOperands(const io::StopToken& stop) {
  base::Status result;
  for (const desired::Removal& removal : removals_) {
    if (removal.reason != desired::RemovalReason::kNoSuchOperand) continue;
    const base::Status removed = Remove(removal, {}, stop);
    if (!removed && result) result = removed;
  }
  return result;
}

std::pair<desired::DaemonSetProgress, std::string> Rollout::Look(
    const desired::Object& daemonset) const {
  const kube::ObjectKey key = kube::KeyOf(daemonset);
  desired::DaemonSetProgress progress{.name = key.name};
  const auto found = inventory_.StoreOf(kube::kDaemonSets)->Find(key);
  if (!found.is_present()) {
    return {progress, fmt::format("DaemonSet {} is being created", key.name)};
  }
  const desired::OwnedObject& live = **found.value();
  progress.current = live.hash == desired::AppliedHash(daemonset);
  progress.status = live.daemonset;
  std::optional<desired::LaggingPod> lagging;
  if (lagging_pods_ != nullptr) {
    // Pods that only wait for their turn to be replaced are ready: there is nothing to tell.
    if (progress.current && live.daemonset.available < live.daemonset.desired) {
      lagging = lagging_pods_->Find({.name = key.name,
                                     .uid = live.uid,
                                     .label_selector = PodSelector(daemonset),
                                     .desired = live.daemonset.desired});
    } else {
      lagging_pods_->Forget(key.name);
    }
  }
  return {progress, Describe(progress, lagging)};
}

desired::OperandReport Rollout::Readiness(const desired::RenderedOperand& rendered) const {
  const desired::Operand& operand = *rendered.operand;
  if (rendered.daemonsets_withheld) {
    return MakeReport(operand, desired::Verdict::kReady, "NoGPUNodes",
                      "no node has a GPU; waiting for one to join");
  }
  std::vector<desired::DaemonSetProgress> daemonsets;
  std::vector<std::string> ready;
  std::vector<std::string> behind;
  for (const desired::Object& object : *rendered.objects) {
    if (codec::FindString(object, {"kind"}) != "DaemonSet") continue;
    auto [progress, text] = Look(object);
    (progress.ready() ? ready : behind).push_back(std::move(text));
    daemonsets.push_back(std::move(progress));
  }
  if (ready.empty()) ready.emplace_back("as the policy wants it");
  desired::OperandReport report =
      behind.empty() ? MakeReport(operand, desired::Verdict::kReady, "Ready",
                                  fmt::format("{}: {}", operand.title, base::Join(ready, "; ")))
                     : MakeReport(operand, desired::Verdict::kNotReady, "RollingOut",
                                  base::Join(behind, "; "));
  report.daemonsets = std::move(daemonsets);
  return report;
}

desired::OperandReport Rollout::Run(const desired::RenderedOperand& rendered,
                                    const io::StopToken& stop) {
  using enum desired::Retry;
  const desired::Operand& operand = *rendered.operand;
  const auto begin = base::SteadyClock::now();
  const auto finish = [&](desired::OperandReport report) {
    report.duration = base::SteadyClock::now() - begin;
    return report;
  };
  if (rendered.mode != desired::Mode::kEnabled) {
    const bool delegated = rendered.mode == desired::Mode::kDelegated;
    const base::Status removed = RemoveFrom(rendered, stop);
    if (!removed) return finish(FailedReport(operand, removed.error(), kLater));
    return finish(MakeReport(
        operand, desired::Verdict::kDisabled, delegated ? "Delegated" : "Disabled",
        delegated ? fmt::format("{}: left to NVIDIADriver objects", operand.title)
                  : fmt::format("{}: switched off; nothing is deployed", operand.title)));
  }
  // What is missing is watched: its appearance is the next try.
  if (!rendered.objects) {
    return finish(FailedReport(operand, rendered.objects.error(), kWhenChanged));
  }

  base::Status applied;
  for (const desired::Object& object : *rendered.objects) {
    const base::Status status = ApplyIfNeeded(object, stop);
    if (!status && applied) applied = status;
  }
  if (!applied) return finish(FailedReport(operand, applied.error(), kLater));
  const base::Status removed = RemoveFrom(rendered, stop);
  if (!removed) return finish(FailedReport(operand, removed.error(), kLater));
  return finish(Readiness(rendered));
}

}  // namespace pitcrew::gpu_operator
