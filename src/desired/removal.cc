#include "desired/removal.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "api/labels.h"
#include "desired/owned_object.h"
#include "kube/ownership.h"

namespace pitcrew::desired {
namespace {

using Identity = std::tuple<std::string_view, std::string_view, kube::ObjectKey>;

Identity IdentityOf(const kube::ResourceKind& kind, kube::ObjectKey key) {
  return {kind.group, kind.kind, std::move(key)};
}

// All that any operand wants, made or left alone.
std::set<Identity> WantedBy(std::span<const RenderedOperand> rendered) {
  std::set<Identity> wanted;
  const auto add = [&](const std::vector<Object>& objects) {
    for (const Object& object : objects) {
      if (const kube::ResourceKind* kind = KindOf(object)) {
        wanted.insert(IdentityOf(*kind, kube::KeyOf(object)));
      }
    }
  };
  for (const RenderedOperand& operand : rendered) {
    if (operand.objects) add(*operand.objects);
    add(operand.left_alone);
  }
  return wanted;
}

// Why an object that nobody wants goes, if it does.
std::optional<RemovalReason> ReasonFor(const StandingObject& object,
                                       std::span<const RenderedOperand> rendered,
                                       const OperandTable& operands) {
  const auto owner = std::ranges::find(rendered, object.state, [](const RenderedOperand& operand) {
    return operand.operand->state;
  });
  if (owner == rendered.end()) {
    if (object.state.empty() || operands.OfState(object.state) != nullptr) return std::nullopt;
    return RemovalReason::kNoSuchOperand;
  }
  const bool is_daemonset = *object.kind == kube::kDaemonSets;
  switch (owner->mode) {
    case Mode::kDisabled:
      return RemovalReason::kSwitchedOff;
    case Mode::kDelegated:
      return is_daemonset ? std::optional(RemovalReason::kDelegated) : std::nullopt;
    case Mode::kEnabled:
      break;
  }
  if (!owner->objects || (owner->daemonsets_withheld && is_daemonset)) return std::nullopt;
  return RemovalReason::kNoLongerPart;
}

// Whether another DaemonSet of the operand has drivers that are upgraded node by node.
bool HasDriverDaemonSet(std::span<const RenderedOperand> rendered, std::string_view state) {
  const auto operand = std::ranges::find(
      rendered, state, [](const RenderedOperand& one) { return one.operand->state; });
  return operand != rendered.end() && operand->objects &&
         std::ranges::any_of(*operand->objects, IsDriverDaemonSet);
}

}  // namespace

bool IsDriverDaemonSet(const Object& object) {
  return codec::FindString(object, {"kind"}) == "DaemonSet" &&
         codec::FindString(object, {"metadata", "labels", api::kComponentLabel}) ==
             api::kDriverComponent;
}

std::string StateOfObject(const codec::Json& object, const OperandTable& operands) {
  std::string state = codec::FindString(object, {"metadata", "labels", api::kStateLabel});
  return state.empty() ? std::string(operands.StateOfName(object)) : state;
}

StandingObject StandingOf(const kube::ResourceKind& kind, const codec::Json& object,
                          const OperandTable& operands) {
  const auto owner = kube::ControllerOf(object);
  return {.kind = &kind,
          .key = kube::KeyOf(object),
          .uid = codec::FindString(object, {"metadata", "uid"}),
          .owner_uid = owner ? owner->uid : "",
          .state = StateOfObject(object, operands),
          .deleting = codec::Find(object, {"metadata", "deletionTimestamp"}) != nullptr};
}

std::string_view ToString(RemovalReason reason) {
  switch (reason) {
    case RemovalReason::kSwitchedOff:
      return "the operand is switched off";
    case RemovalReason::kDelegated:
      return "the operand is left to NVIDIADriver objects";
    case RemovalReason::kNoLongerPart:
      return "no longer part of the operand";
    case RemovalReason::kNoSuchOperand:
      return "no operand has this state any more";
  }
  return "";
}

std::vector<Removal> DecideRemovals(std::span<const RenderedOperand> rendered,
                                    std::span<const StandingObject> standing,
                                    std::string_view owner_uid, const OperandTable& operands) {
  std::vector<Removal> removals;
  if (owner_uid.empty()) return removals;
  const std::set<Identity> wanted = WantedBy(rendered);
  for (const StandingObject& object : standing) {
    if (object.owner_uid != owner_uid || object.deleting) continue;
    if (wanted.contains(IdentityOf(*object.kind, object.key))) continue;
    const auto reason = ReasonFor(object, rendered, operands);
    if (!reason) continue;
    removals.push_back({.object = object,
                        .reason = *reason,
                        .orphans_pods = *reason == RemovalReason::kDelegated,
                        .passes_pods_on = *reason == RemovalReason::kNoLongerPart &&
                                          *object.kind == kube::kDaemonSets &&
                                          HasDriverDaemonSet(rendered, object.state)});
  }
  return removals;
}

}  // namespace pitcrew::desired
